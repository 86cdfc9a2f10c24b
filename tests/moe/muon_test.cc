// The MoE trainer with Muon: losses, norms and elements of one rank on every composition, and a run
// that goes on from a checkpoint of another one.
#include "tests/checkpoint/fault_fs.h"
#include "tests/moe/checkpoint_run.h"

namespace tessera::testing {
namespace {

void with_muon(ModelConfig& config) {
  shrink(config);
  config.steps = 4;
  config.optimizer = OptimizerKind::kMuon;
  config.momentum = 0.95;
  config.momentum_form = Momentum::kNesterov;
  config.weight_decay = 0.1;
}
RunOptions options_of(const ParallelConfig& parallel, int num_ranks) {
  return {.parallel = parallel, .num_ranks = num_ranks, .num_steps = 4, .change_config = with_muon};
}

ModelConfig tiny_with_muon() {
  ModelConfig config = tiny_config();
  config.optimizer = OptimizerKind::kMuon;
  config.momentum = 0.95;
  return config;
}

struct Saved {
  std::map<std::string, std::vector<double>> tensors;
  std::vector<double> losses;
};
template <class F>
Saved on_threads(int num_ranks, const F& body) {
  std::vector<Saved> ranks(static_cast<std::size_t>(num_ranks));
  throw_if_error(run_ranks(num_ranks, {}, [&](World& world) {
    ranks[static_cast<std::size_t>(world.rank())] = body(world);
  }));
  return std::move(ranks[0]);
}

}  // namespace

TEST_CASE("Muon's losses are one rank's on every composition", "[moe][muon]") {
  const RunResult one = train_on_threads(options_of({}, 1));
  const std::vector<std::pair<ParallelConfig, int>> compositions = {
      {{.dp_replicate = 2}, 2},
      {{.dp_shard = 2}, 2},
      {{.dp_shard = 4}, 4},
      {{.dp_replicate = 2, .dp_shard = 2}, 4},
      {{.dp_shard = 2, .tp = 2, .ep = 2}, 4},
      {{.dp_shard = 2, .pp = 2}, 4}};
  for (const auto& [parallel, ranks] : compositions) {
    CAPTURE(parallel.dp_replicate, parallel.dp_shard, parallel.tp, parallel.ep, parallel.pp);
    const RunResult run = train_on_threads(options_of(parallel, ranks));
    REQUIRE(run.steps.size() == one.steps.size());
    for (std::size_t step = 0; step < run.steps.size(); ++step) {
      CHECK(std::abs(run.steps[step].loss - one.steps[step].loss) < 1e-9);
      CHECK(std::abs(run.steps[step].grad_norm - one.steps[step].grad_norm) < 1e-9);
    }
  }
}

TEST_CASE("a run with Muon goes on from any composition's checkpoint", "[moe][muon][checkpoint]") {
  const ModelConfig config = tiny_with_muon();
  const std::vector<std::pair<ParallelConfig, int>> compositions = {
      {{}, 1}, {{.dp_shard = 2}, 2}, {{.dp_replicate = 2}, 2}, {{.tp = 2}, 2}};
  for (const auto& [from, from_ranks] : compositions) {
    FaultFs files;
    const Saved saved = on_threads(from_ranks, [&](World& world) {
      TinyRun run(world, from, DType::kF64, /*seed=*/3, config);
      run.steps(0, 1);
      run.save(files, 1);
      Saved out{.tensors = run.whole_tensors()};
      out.losses = run.steps(1, 3);
      return out;
    });
    for (const auto& [to, to_ranks] : compositions) {
      CAPTURE(from_ranks, from.dp_shard, to_ranks, to.dp_shard, to.tp);
      const Saved loaded = on_threads(to_ranks, [&](World& world) {
        TinyRun run(world, to, DType::kF64, /*seed=*/99, config);
        const TrainProgress progress = load_train_state(files, run.model, run.trainer);
        Saved out{.tensors = run.whole_tensors()};
        out.losses = run.steps(progress.step, 3);
        return out;
      });
      CHECK(loaded.tensors == saved.tensors);
      REQUIRE(loaded.losses.size() == saved.losses.size());
      for (std::size_t i = 0; i < loaded.losses.size(); ++i) {
        CHECK(std::abs(loaded.losses[i] - saved.losses[i]) < 1e-9);
      }
    }
  }
}

}  // namespace tessera::testing
