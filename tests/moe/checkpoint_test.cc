// A run that is saved and loaded goes on as if it had never stopped, bit for bit.
#include <set>

#include "checkpoint/agree.h"
#include "testing/results.h"
#include "tests/moe/checkpoint_run.h"

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

TEST_CASE("the expert bias goes through a checkpoint in its storage, counts do not",
          "[moe][checkpoint][C40]") {
  struct Seen {
    std::vector<std::string> stored;  ///< names in the checkpoint that speak of experts' load
    std::vector<double> saved_bias, loaded_bias, whole_losses, resumed_losses;
    std::vector<double> whole_state, resumed_state;
    bool counted = false, counts_left = true, storage_kept = false;
  };
  const auto count_a_pass = [](TinyRun& run) {
    const ModelContext& context = run.model.context();
    run.model.logits(context.place_tokens(run.data.batch(0, 0).ids_BL));
    return run.model.moe_layers()[0]->balancer().counts_E().defined();
  };
  const auto ranks =
      results_of(4, {}, [&](World& world) {
        const SharedFolder folder(world);
        const auto files = folder.open();
        TinyRun whole(world, kFour, DType::kF32);
        whole.steps(0, 2);
        LoadBalancer& saved = whole.model.moe_layers()[0]->balancer();
        Seen seen{.saved_bias = saved.expert_bias_E().local().to_vector()};
        seen.counted = count_a_pass(whole);  // counts are pending while it is saved
        whole.save(*files, 2);
        saved.forget_counts();
        seen.whole_losses = whole.steps(2, 4);
        seen.whole_state = whole.whole_state();
        for (const ManifestTensor& tensor : value_or_throw(read_manifest(*files)).tensors) {
          for (const char* part : {"expert_bias", "counts", "tokens_per_expert", "dispatched"}) {
            if (tensor.name.find(part) != std::string::npos) seen.stored.push_back(tensor.name);
          }
        }
        TinyRun resumed(world, kFour, DType::kF32, /*seed=*/99);
        LoadBalancer& balancer = resumed.model.moe_layers()[0]->balancer();
        const Storage* const storage = balancer.expert_bias_E().local().storage().get();
        seen.counted = count_a_pass(resumed) && seen.counted;  // and others while it is loaded
        load_train_state(*files, resumed.model, resumed.trainer);
        seen.counts_left = balancer.counts_E().defined() || balancer.dispatched_E().defined();
        seen.storage_kept = balancer.expert_bias_E().local().storage().get() == storage;
        seen.loaded_bias = balancer.expert_bias_E().local().to_vector();
        seen.resumed_losses = resumed.steps(2, 4);
        seen.resumed_state = resumed.whole_state();
        return seen;
      }).value();
  for (const Seen& seen : ranks) {
    CHECK(seen.stored == std::vector<std::string>{"layers.1.moe.expert_bias_E"});
    CHECK(seen.counted);
    CHECK_FALSE(seen.counts_left);
    CHECK(seen.storage_kept);
    CHECK(seen.loaded_bias == seen.saved_bias);
    CHECK(seen.saved_bias != std::vector<double>(seen.saved_bias.size(), 0.0));
    CHECK(seen.resumed_losses == seen.whole_losses);
    CHECK(seen.resumed_state == seen.whole_state);
  }
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
