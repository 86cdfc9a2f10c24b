// A run that is saved and loaded goes on as if it had never stopped, bit for bit.
#include <set>

#include "checkpoint/agree.h"
#include "tests/moe/checkpoint_run.h"
#include "tests/support/launch.h"

namespace tessera::testing {
namespace {

struct Resumed {
  std::vector<double> whole_losses, parted_losses, whole_state, parted_state;
  TrainProgress progress;
};

const ParallelConfig kFour = {.dp_shard = 2, .tp = 2, .ep = 2};

Resumed resume(World& world, DType dtype) {
  const SharedFolder folder(world);
  const auto files = folder.open();
  TinyRun whole(world, kFour, dtype);
  Resumed out{.whole_losses = whole.steps(0, 4), .whole_state = whole.whole_state()};
  TinyRun first(world, kFour, dtype);
  out.parted_losses = first.steps(0, 2);
  first.save(*files, 2);
  TinyRun second(world, kFour, dtype, /*seed=*/99);
  out.progress = load_train_state(*files, second.model, second.trainer);
  for (const double loss : second.steps(out.progress.step, 4)) out.parted_losses.push_back(loss);
  out.parted_state = second.whole_state();
  return out;
}

}  // namespace

TEST_CASE("a resumed run is the run that never stopped, bit for bit", "[moe][checkpoint]") {
  const DType dtype = GENERATE(DType::kF32, DType::kBF16);
  const auto ranks = results_of(4, {}, [&](World& world) { return resume(world, dtype); }).value();
  for (const Resumed& rank : ranks) {
    CHECK(rank.progress.step == 2);
    CHECK(rank.progress.seed == 3);
    CHECK(rank.whole_losses == rank.parted_losses);
    CHECK(rank.whole_state == rank.parted_state);
  }
}

TEST_CASE("what four ranks save loads on any number of threads, bit for bit",
          "[moe][checkpoint][C62]") {
  struct Mesh {
    ParallelConfig parallel;
    int num_ranks;
  };
  const std::vector<Mesh> meshes = {
      {{}, 1}, {{.tp = 2, .ep = 2}, 2}, {{.pp = 2}, 2}, {{.dp_shard = 4, .ep = 2}, 4}};
  using Tensors = std::map<std::string, std::vector<double>>;
  /// What was saved, and whether each mesh loads just that.
  struct Met {
    Tensors saved;
    std::vector<Tensors> loaded;
  };
  const auto ranks = results_of(4, {}, [&](World& world) {
                       const SharedFolder folder(world);
                       const auto files = folder.open();
                       TinyRun run(world, kFour, DType::kF32);
                       run.steps(0, 1);
                       run.save(*files, 1);
                       Met met{.saved = run.whole_tensors()};
                       for (const Mesh& mesh : meshes) {
                         if (world.rank() != 0) break;  // on MPI: the first process alone
                         std::vector<Tensors> parts(static_cast<std::size_t>(mesh.num_ranks));
                         throw_if_error(run_ranks(mesh.num_ranks, {}, [&](World& threads) {
                           TinyRun other(threads, mesh.parallel, DType::kF32, /*seed=*/99);
                           load_train_state(*files, other.model, other.trainer);
                           parts[static_cast<std::size_t>(threads.rank())] = other.whole_tensors();
                         }));
                         for (std::size_t i = 1; i < parts.size(); ++i) parts[0].merge(parts[i]);
                         met.loaded.push_back(std::move(parts[0]));
                       }
                       agree(world, absl::OkStatus());  // the folder goes when all are through
                       return met;
                     }).value();
  REQUIRE(ranks[0].loaded.size() == meshes.size());
  for (const Tensors& loaded : ranks[0].loaded) CHECK(loaded == ranks[0].saved);
  std::set<std::string> kinds;
  for (const auto& [name, values] : ranks[0].saved) {
    for (const std::string kind : {".first", ".second", "expert_bias_E", "w1_EFD"}) {
      if (name.ends_with(kind)) kinds.insert(kind);
    }
  }
  CHECK(kinds.size() == 4);
}

TEST_CASE("a save beside training holds the state of its moment", "[moe][checkpoint]") {
  const auto ranks = results_of(2, {}, [](World& world) {
                       const SharedFolder folder(world);
                       const auto files = folder.open();
                       TinyRun run(world, {.dp_shard = 2}, DType::kF32);
                       run.steps(0, 1);
                       const std::vector<double> before = run.whole_state();
                       AsyncSave save(world, *files, train_tensors(run.model, run.trainer),
                                      train_values(run.model, run.trainer, {.step = 1}));
                       run.steps(1, 2);
                       save.finish();
                       TinyRun loaded(world, {.dp_shard = 2}, DType::kF32, 99);
                       load_train_state(*files, loaded.model, loaded.trainer);
                       const bool differs = run.whole_state() != before;
                       return std::vector<bool>{before == loaded.whole_state(), differs};
                     }).value();
  for (const std::vector<bool>& rank : ranks) CHECK(rank == std::vector<bool>{true, true});
}

TEST_CASE("a checkpoint of another model names the first tensor that differs",
          "[moe][checkpoint]") {
  struct Case {
    std::function<void(ModelConfig&)> change;
    std::string text;
  };
  const std::vector<Case> cases = {
      {[](ModelConfig& c) { c.vocab = 300; },
       "tensor \"tok_embeddings.weight\" is F32[256, 24]; F32[300, 24] is needed"},
      {[](ModelConfig& c) { c.n_layers = 3; },
       "tensor \"layers.2.attention_norm.weight\" is missing; F32[24] is needed"},
      {[](ModelConfig& c) { c.num_experts = 5; },
       "tensor \"layers.1.moe.router.gate.weight\" is F32[6, 24]; F32[5, 24] is needed"},
      {[](ModelConfig& c) { c.bias_coeff.reset(); },
       "expert_bias_E\" is nothing that is asked for: the checkpoint is of another model"},
      {[](ModelConfig& c) { c.router_top_k = 2; },
       "the checkpoint's model has router_top_k 3; this one has 2"}};
  const auto ranks = results_of(2, {}, [&](World& world) {
                       const SharedFolder folder(world);
                       const auto files = folder.open();
                       TinyRun(world, {.tp = 2}, DType::kF32).save(*files, 0);
                       std::vector<std::string> texts;
                       for (const Case& each : cases) {
                         ModelConfig config = tiny_config();
                         each.change(config);
                         TinyRun other(world, {.dp_shard = 2}, DType::kF32, 99, config);
                         const std::vector<double> before = other.whole_state();
                         try {
                           load_train_state(*files, other.model, other.trainer);
                         } catch (const Error& error) {
                           texts.emplace_back(error.what());
                         }
                         if (other.whole_state() != before) texts.emplace_back("changed");
                       }
                       return texts;
                     }).value();
  for (const std::vector<std::string>& texts : ranks) {
    REQUIRE(texts.size() == cases.size());
    for (std::size_t i = 0; i < cases.size(); ++i) {
      CHECK_THAT(texts[i], Catch::Contains(cases[i].text));
    }
  }
}

}  // namespace tessera::testing
