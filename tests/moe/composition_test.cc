// The same losses on every mesh: FSDP, TP with and without SP, and EP against one rank in F64.
#include <cmath>
#include <map>

#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

/// Every element is compared after these; ten steps' losses are scripts/parity_table's.
constexpr std::int64_t kSteps = 3;

/// One-rank runs, made once per model.
const RunResult& one_rank(const std::string& model) {
  static std::map<std::string, RunResult> runs;
  auto at = runs.find(model);
  if (at == runs.end()) {
    at = runs.emplace(model, train({.model = model, .num_steps = kSteps})).first;
  }
  return at->second;
}

struct MeshCase {
  std::int64_t dp_shard, tp, ep;
  bool sequence_parallel;
  int num_ranks() const { return static_cast<int>(dp_shard * tp); }
  ParallelConfig parallel() const {
    return {.dp_shard = dp_shard, .tp = tp, .ep = ep, .sequence_parallel = sequence_parallel};
  }
};

}  // namespace

TEST_CASE("losses on every mesh are those of one rank", "[moe][composition][C11][C22][C50]") {
  const std::string model = GENERATE("softmax", "grouped");
  const MeshCase mesh =
      GENERATE(MeshCase{2, 1, 1, false}, MeshCase{1, 2, 1, true}, MeshCase{1, 2, 1, false},
               MeshCase{2, 2, 1, true}, MeshCase{2, 2, 2, true}, MeshCase{2, 2, 2, false},
               MeshCase{2, 2, 4, true}, MeshCase{4, 2, 2, true}, MeshCase{2, 1, 2, false});
  CAPTURE(model, mesh.dp_shard, mesh.tp, mesh.ep, mesh.sequence_parallel);
  const RunResult run = train({.model = model,
                               .parallel = mesh.parallel(),
                               .num_ranks = mesh.num_ranks(),
                               .num_steps = kSteps});
  check_same(run, one_rank(model));
}

TEST_CASE("replicas and context parallelism train like one rank",
          "[moe][composition][C18][C51][C55][C60]") {
  const ParallelConfig parallel =
      GENERATE(ParallelConfig{.dp_replicate = 2, .dp_shard = 2},
               ParallelConfig{.dp_replicate = 2, .dp_shard = 2, .tp = 2, .ep = 2},
               ParallelConfig{.cp = 2}, ParallelConfig{.dp_shard = 2, .cp = 2, .tp = 2, .ep = 4},
               ParallelConfig{.dp_shard = 2, .cp = 2, .tp = 2, .ep = 8});
  CAPTURE(parallel.dp_replicate, parallel.dp_shard, parallel.cp, parallel.tp, parallel.ep);
  const auto ranks =
      static_cast<int>(parallel.dp_replicate * parallel.dp_shard * parallel.cp * parallel.tp);
  const RunResult run = train({.parallel = parallel, .num_ranks = ranks, .num_steps = kSteps});
  check_same(run, one_rank("softmax"));
}

TEST_CASE("runs of equal norms are told apart by their elements", "[moe][composition]") {
  const RunResult run = train({.num_steps = 1, .change_config = shrink});
  CHECK(element_difference(run, run) == "");
  const std::string name = "layers.1.moe.router.gate.weight";
  RunResult other = run;
  std::swap(other.elements[name].values[0], other.elements[name].values[1]);
  CHECK_THAT(element_difference(other, run), Catch::StartsWith(name + ": value 0 is "));
  other = run;
  std::swap(other.elements[name].grad[2], other.elements[name].grad[3]);
  CHECK_THAT(element_difference(other, run), Catch::StartsWith(name + ": gradient 2 is "));
  other = run;
  other.elements[name].values[5] = std::nan("");
  CHECK_THAT(element_difference(other, run), Catch::StartsWith(name + ": value 5 is nan"));
  other = run;
  other.elements.erase(name);
  CHECK(element_difference(other, run) == name + ": missing");
  CHECK(element_difference(run, other) != "");
}

TEST_CASE("replicas stay equal bit for bit", "[moe][composition][C41][C55]") {
  const auto sums = [](Model& model, Trainer&) {
    std::vector<double> all;
    for (Parameter& parameter : model.parameters().all()) {
      for (const double value : parameter.stored().local().to_vector()) all.push_back(value);
    }
    for (MoeLayer* layer : model.moe_layers()) {
      const DTensor& bias = layer->balancer().expert_bias_E();
      for (const double value : bias.local().to_vector()) all.push_back(value);
    }
    return all;
  };
  const std::vector<RunResult> ranks =
      train_all({.parallel = {.dp_replicate = 2, .dp_shard = 2, .ep = 2},
                 .num_ranks = 4,
                 .dtype = DType::kF32,
                 .num_steps = 4,
                 .inspect = sums});
  REQUIRE(!ranks[0].inspected.empty());
  CHECK(ranks[0].inspected == ranks[2].inspected);
  CHECK(ranks[1].inspected == ranks[3].inspected);
  CHECK(ranks[0].inspected != ranks[1].inspected);
}

TEST_CASE("a sequence that tp does not divide trains like one rank", "[moe][composition][C13]") {
  const auto shorten = [](ModelConfig& config) { config.seq = 61; };
  const MeshCase mesh =
      GENERATE(MeshCase{1, 2, 1, true}, MeshCase{1, 2, 2, true}, MeshCase{1, 4, 1, true},
               MeshCase{1, 4, 4, true}, MeshCase{2, 2, 2, false});
  CAPTURE(mesh.dp_shard, mesh.tp, mesh.ep);
  const RunOptions one = {.num_steps = 3, .change_config = shorten};
  RunOptions many = one;
  many.parallel = mesh.parallel();
  many.num_ranks = mesh.num_ranks();
  check_same(train(many), train(one));
}

TEST_CASE("a batch that the data axis does not divide trains like one rank",
          "[moe][composition][C15][C51]") {
  const auto six = [](ModelConfig& config) { config.batch = 6; };  // 2, 2, 2 and 0 sequences
  const MeshCase mesh =
      GENERATE(MeshCase{4, 1, 1, false}, MeshCase{4, 1, 2, false}, MeshCase{4, 2, 2, true});
  CAPTURE(mesh.dp_shard, mesh.tp, mesh.ep);
  const RunOptions one = {.num_steps = 3, .change_config = six};
  RunOptions many = one;
  many.parallel = mesh.parallel();
  many.num_ranks = mesh.num_ranks();
  check_same(train(many), train(one));
}

TEST_CASE("a sequence shorter than tp leaves ranks without tokens and still trains",
          "[moe][composition][C14]") {
  const auto tiny = [](ModelConfig& config) { config.seq = 3; };
  const RunOptions one = {.num_steps = 2, .change_config = tiny};
  RunOptions many = one;
  many.parallel = {.tp = 4, .ep = 4};
  many.num_ranks = 4;
  check_same(train(many), train(one));
}

TEST_CASE("experts that ep does not divide train like one rank", "[moe][composition][C56]") {
  const auto seven = [](ModelConfig& config) {
    config.num_experts = 7;
    config.router_top_k = 2;
  };
  const RunOptions one = {.num_steps = 3, .change_config = seven};
  RunOptions many = one;
  many.parallel = {.dp_shard = 2, .tp = 2, .ep = 4};
  many.num_ranks = 4;
  check_same(train(many), train(one));

  many.parallel.strict_even = true;
  CHECK_THROWS_WITH(train(many), Catch::Contains("num_experts 7 is not a multiple of ep 4"));
}

TEST_CASE("F64 runs have the same bits on any number of threads", "[moe][composition][R15]") {
  const std::string model = GENERATE("softmax", "grouped");
  RunOptions options = {.model = model,
                        .parallel = {.dp_shard = 2, .tp = 2, .ep = 2},
                        .num_ranks = 4,
                        .num_steps = 2,
                        .threads_per_rank = 1};
  const RunResult one = train(options);
  for (const int threads : {2, 3}) {
    CAPTURE(model, threads);
    options.threads_per_rank = threads;
    const RunResult run = train(options);
    CHECK(run.elements == one.elements);
    CHECK(run.steps[1].loss == one.steps[1].loss);
    CHECK(run.steps[1].grad_norm == one.steps[1].grad_norm);
  }
}

TEST_CASE("runs repeat bit for bit", "[moe][composition][C33][R15]") {
  const RunOptions options = {.model = "grouped",
                              .parallel = {.dp_shard = 2, .tp = 2, .ep = 2},
                              .num_ranks = 4,
                              .dtype = DType::kF32,
                              .num_steps = 4};
  const RunResult first = train(options);
  const RunResult second = train(options);
  for (std::size_t step = 0; step < first.steps.size(); ++step) {
    CHECK(first.steps[step].loss == second.steps[step].loss);
    CHECK(first.steps[step].grad_norm == second.steps[step].grad_norm);
  }
  CHECK(first.elements == second.elements);
}

TEST_CASE("F32 losses on 8 ranks follow the recorded run until a count differs",
          "[moe][composition]") {
  const std::string model = GENERATE("softmax", "grouped");
  const Json expected = expected_results(model);
  const Json::Array& steps = *expected.find("steps")->if_array();
  const RunResult run = train({.model = model,
                               .parallel = {.dp_shard = 4, .tp = 2, .ep = 2},
                               .num_ranks = 8,
                               .dtype = DType::kF32});
  for (std::size_t step = 0; step < steps.size(); ++step) {
    CAPTURE(model, step);
    Json counts{Json::Array{}};
    for (const auto& layer : run.steps[step].tokens_per_expert) {
      counts.push(Json(Json::Array(layer.begin(), layer.end())));
    }
    if (!(counts == *steps[step].find("tokens_per_expert"))) {
      CHECK(step > 0);
      break;
    }
    CHECK(std::abs(run.steps[step].loss - *steps[step].find("loss")->if_number()) < 2e-5);
  }
}

TEST_CASE("the router gate stays bitwise equal on all tp ranks", "[moe][composition][C19]") {
  const auto gate_of = [](Model& model, Trainer&) {
    const Parameter& gate = *model.parameters().find("layers.1.moe.router.gate.weight");
    return gate.stored().local().to_vector();
  };
  const std::vector<RunResult> ranks = train_all({.parallel = {.tp = 4},
                                                  .num_ranks = 4,
                                                  .dtype = DType::kF32,
                                                  .num_steps = 3,
                                                  .inspect = gate_of});
  REQUIRE(!ranks[0].inspected.empty());
  for (const RunResult& rank : ranks) CHECK(rank.inspected == ranks[0].inspected);
}

TEST_CASE("the expert bias is one for all micro-batches and keeps its storage", "[moe][C39][C40]") {
  // Two micro-batches of 4 hold the same sequences as one batch of 8 (see TokenData::batch).
  const auto halves = [](ModelConfig& config) {
    config.batch = 4;
    config.accum = 2;
  };
  const auto whole = [](ModelConfig& config) { config.batch = 8; };
  const RunResult accumulated = train({.num_steps = 3, .change_config = halves});
  const RunResult at_once = train({.num_steps = 3, .change_config = whole});
  for (std::size_t step = 0; step < 3; ++step) {
    CHECK(accumulated.steps[step].tokens_per_expert == at_once.steps[step].tokens_per_expert);
    CHECK(std::abs(accumulated.steps[step].loss - at_once.steps[step].loss) < 1e-12);
  }
  CHECK(element_difference(accumulated, at_once) == "");

  const auto check_storage = [](Model& model, Trainer& trainer) {
    const DTensor& bias = model.moe_layers()[0]->balancer().expert_bias_E();
    const Storage* before = bias.local().storage().get();
    trainer.step(2);
    const DTensor& after = model.moe_layers()[0]->balancer().expert_bias_E();
    if (after.local().storage().get() != before) {
      throw Error(internal_error("the bias moved to another storage"));
    }
    return std::vector<double>{};
  };
  CHECK_NOTHROW(train({.num_steps = 2, .inspect = check_storage}));
}

}  // namespace tessera::testing
