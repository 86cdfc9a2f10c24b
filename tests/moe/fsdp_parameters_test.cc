// How FSDP stores parameters: placements by the tables, values by global index, shards only.
#include <cmath>
#include <map>

#include "kernels/memory_use.h"
#include "parallel/fsdp.h"
#include "testing/results.h"
#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

ModelConfig two_layers() {
  ModelConfig config = value_or_throw(
      parse_model_config(expected_results("softmax").find("config")->to_string(), "softmax"));
  config.n_layers = 2;
  return config;
}

/// What a rank made, whole.
struct Made {
  std::map<std::string, std::string> placements;
  std::map<std::string, std::vector<double>> values;
};

std::vector<Made> make_parameters(const ParallelConfig& parallel, int num_ranks) {
  const auto make = [&](World& world) {
    Runtime runtime(world);
    const MeshViews views = value_or_throw(MeshViews::make(parallel, world.size()));
    Model model(runtime, views, two_layers(), DType::kF32);
    model.parameters().initialize(7);
    Made made;
    for (Parameter& parameter : model.parameters().all()) {
      const DTensor& stored = parameter.stored();
      made.placements[parameter.name()] = to_string(value_or_throw(stored.spec().placements()));
      made.values[parameter.name()] = full_tensor(stored).to_vector();
    }
    return made;
  };
  return results_of(num_ranks, {}, make).value();
}

}  // namespace

TEST_CASE("parameters lie as the tables say, ep before fsdp, and are those of one rank",
          "[moe][fsdp][C45][C46][C65]") {
  static const Made one = make_parameters({}, 1)[0];
  struct Case {
    ParallelConfig parallel;
    std::string experts_w1, experts_w2, columns, rows;
  };
  const Case each = GENERATE(Case{{.dp_shard = 4, .tp = 2, .ep = 2},
                                  "(SS(0,2), S(0))",
                                  "(SS(0,2), S(0))",
                                  "(SS(0,2), S(0))",
                                  "(S(0), S(1))"},
                             Case{{.dp_replicate = 2, .dp_shard = 2, .tp = 2, .ep = 2},
                                  "(R, SS(0,2), S(0))",
                                  "(R, SS(0,2), S(0))",
                                  "(R, SS(0,2), S(0))",
                                  "(R, S(0), S(1))"},
                             Case{{.dp_shard = 4, .tp = 2},
                                  "(S(0), S(1))",
                                  "(S(0), S(2))",
                                  "(SS(0,2), S(0))",
                                  "(S(0), S(1))"});
  for (const Made& rank : make_parameters(each.parallel, 8)) {
    const auto placed = [&](const std::string& name) {
      return rank.placements.at("layers.1." + name);
    };
    CHECK(placed("moe.routed_experts.inner_experts.w1_EFD") == each.experts_w1);
    CHECK(placed("moe.routed_experts.inner_experts.w2_EDF") == each.experts_w2);
    CHECK(placed("moe.shared_experts.w1.weight") == each.columns);
    CHECK(placed("attention.wo.weight") == each.rows);
    CHECK(rank.values == one.values);
  }
}

TEST_CASE("no rank ever holds a whole parameter while they are made", "[moe][fsdp][C65]") {
  // Bytes at the most, of this rank's shards, and of the largest tensor.
  const auto made = results_of(4, {}, [](World& world) {
    Runtime runtime(world);
    ModelConfig config = two_layers();
    config.vocab = 8192;  // one tensor is larger than all that is not a parameter
    const MeshViews views = value_or_throw(MeshViews::make({.dp_shard = 4}, world.size()));
    const std::int64_t before = tagged_memory_of(*world.allocator()).total_peak();
    Model model(runtime, views, config, DType::kF32);
    model.parameters().initialize(7);
    const TaggedMemory memory = tagged_memory_of(*world.allocator());
    return std::vector<std::int64_t>{before, memory.total_peak(),
                                     memory.used_of(MemoryTag::kParameters),
                                     4 * config.vocab * config.dim};
  });
  for (const auto& rank : made.ranks) {
    const std::vector<std::int64_t>& bytes = rank.value();
    CHECK(bytes[0] == 0);
    // Beside shards: RoPE tables and the expert biases.
    CHECK(bytes[1] - bytes[2] < bytes[3] / 4);
    CHECK(bytes[2] < 2 * bytes[3]);
  }
}

TEST_CASE("a frozen parameter stays as it is, and the others train as on one rank",
          "[moe][fsdp][C64]") {
  const std::string frozen = "layers.1.moe.routed_experts.inner_experts.w2_EDF";
  const auto run = [&](const ParallelConfig& parallel, int num_ranks) {
    const auto train = [&](World& world) {
      Runtime runtime(world);
      const MeshViews views = value_or_throw(MeshViews::make(parallel, world.size()));
      const ModelConfig config = two_layers();
      const std::vector<std::string> files = {test_file("../../LICENSE")};
      const TokenData data = value_or_throw(TokenData::read(files, config));
      Model model(runtime, views, config, DType::kF64);
      model.parameters().initialize(7);
      DTensor& weight = model.parameters().find(frozen)->stored();
      weight.set_requires_grad(false);
      const std::vector<double> before = weight.local().to_vector();
      Trainer trainer(model, data);
      std::vector<double> seen;
      for (std::int64_t step = 0; step < 3; ++step) seen.push_back(trainer.step(step).loss);
      const bool same = weight.local().to_vector() == before && !weight.grad().defined();
      seen.push_back(same ? 1.0 : 0.0);
      return seen;
    };
    return results_of(num_ranks, {}, train).value();
  };
  const std::vector<double> one = run({}, 1)[0];
  REQUIRE(one.back() == 1.0);
  CHECK(one[1] != one[0]);
  for (const std::vector<double>& rank : run({.dp_shard = 2, .tp = 2, .ep = 2}, 4)) {
    REQUIRE(rank.size() == one.size());
    for (std::size_t i = 0; i < one.size(); ++i) CHECK(std::abs(rank[i] - one[i]) < 1e-9);
  }
}

}  // namespace tessera::testing
