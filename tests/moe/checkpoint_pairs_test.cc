// A checkpoint saved under each composition loads under each other one. Meshes of many sizes meet
// here, so ranks are threads.
#include "tests/checkpoint/fault_fs.h"
#include "tests/moe/checkpoint_run.h"

namespace tessera::testing {
namespace {

struct Composition {
  std::string name;
  ParallelConfig parallel;
  int num_ranks;
};

const std::vector<Composition>& compositions() {
  static const std::vector<Composition> all = {
      {"one rank", {}, 1},
      {"fsdp 2", {.dp_shard = 2}, 2},
      {"tp 2", {.tp = 2}, 2},
      {"fsdp 2, tp 2, ep 2", {.dp_shard = 2, .tp = 2, .ep = 2}, 4},
      {"hsdp 2x2", {.dp_replicate = 2, .dp_shard = 2}, 4},
      {"cp 2", {.cp = 2}, 2},
      {"pp 2, fsdp 2", {.dp_shard = 2, .pp = 2}, 4},
      {"pp 2 of 1 and 3 layers", {.tp = 2, .pp = 2, .pp_layers = {1, 3}}, 4},
      {"interleaved stages",
       {.pp = 2, .pp_schedule = PipelineOrder::kInterleaved1F1B, .pp_microbatches = 3},
       2},
      {"fsdp 2, tp 2, ep 4: 6 experts", {.dp_shard = 2, .tp = 2, .ep = 4}, 4},
      {"fsdp 4, tp 2, ep 2: expert shards of dim 1", {.dp_shard = 4, .tp = 2, .ep = 2}, 8},
  };
  return all;
}

/// Enough layers for two stages a rank.
ModelConfig four_layers() {
  ModelConfig config = tiny_config();
  config.n_layers = 4;
  return config;
}

using Tensors = std::map<std::string, std::vector<double>>;
struct Saved {
  Tensors tensors;
  double next_loss = 0;
};

/// What the ranks of a run on threads see together; the loss is rank 0's.
template <class F>
Saved on_threads(const Composition& composition, const F& body) {
  std::vector<Saved> ranks(static_cast<std::size_t>(composition.num_ranks));
  throw_if_error(run_ranks(composition.num_ranks, {}, [&](World& world) {
    ranks[static_cast<std::size_t>(world.rank())] = body(world);
  }));
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    ranks[0].tensors.merge(ranks[rank].tensors);
  }
  return std::move(ranks[0]);
}

}  // namespace

TEST_CASE("a checkpoint of each composition loads under each other one, bit for bit",
          "[moe][checkpoint][C62]") {
  for (const Composition& from : compositions()) {
    FaultFs files;
    const Saved saved = on_threads(from, [&](World& world) {
      TinyRun run(world, from.parallel, DType::kF64, /*seed=*/3, four_layers());
      run.steps(0, 1);
      run.save(files, 1);
      Saved out{.tensors = run.whole_tensors()};
      out.next_loss = run.steps(1, 2)[0];
      return out;
    });
    for (const Composition& to : compositions()) {
      CAPTURE(from.name, to.name);
      const Saved loaded = on_threads(to, [&](World& world) {
        TinyRun run(world, to.parallel, DType::kF64, /*seed=*/99, four_layers());
        const TrainProgress progress = load_train_state(files, run.model, run.trainer);
        Saved out{.tensors = run.whole_tensors()};
        // The step that follows is the same, too; one mesh of each kind is enough for that.
        if (to.num_ranks <= 2) out.next_loss = run.steps(progress.step, 2)[0];
        return out;
      });
      CHECK(loaded.tensors == saved.tensors);
      if (to.num_ranks <= 2) CHECK(std::abs(loaded.next_loss - saved.next_loss) < 1e-9);
    }
  }
}

TEST_CASE("a seed checkpoint of one rank gives every composition its first weights",
          "[moe][checkpoint][C65]") {
  FaultFs files;
  const Composition& one = compositions().front();
  const Saved seed = on_threads(one, [&](World& world) {
    TinyRun run(world, one.parallel, DType::kF64, /*seed=*/5, four_layers());
    run.save(files, 0);
    return Saved{.tensors = run.whole_tensors()};
  });
  for (const Composition& to : compositions()) {
    CAPTURE(to.name);
    const Saved state = on_threads(to, [&](World& world) {
      TinyRun run(world, to.parallel, DType::kF64, /*seed=*/99, four_layers());
      load_initial_weights(files, run.model);
      return Saved{.tensors = run.whole_tensors()};
    });
    CHECK(state.tensors == seed.tensors);
  }
}

}  // namespace tessera::testing
