// How parameters lie, on every kind of mesh: the tables of torchtitan and its dp2ep design, with
// weights (E, out, in).
#include "moe/train/placement_table.h"

#include <algorithm>
#include <map>

#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

ModelConfig config_with_experts(std::int64_t experts) {
  ModelConfig config = value_or_throw(
      parse_model_config(expected_results("softmax").find("config")->to_string(), "softmax"));
  config.num_experts = experts;
  return config;
}

/// Placements by the last part of the name, of layer 1.
struct Table {
  std::map<std::string, PlacedParameter> all;

  Table(const ParallelConfig& parallel, std::int64_t ranks, std::int64_t experts = 8) {
    for (PlacedParameter& each : value_or_throw(
             placed_parameters(config_with_experts(experts), parallel, ranks, DType::kF32))) {
      const std::string name = each.name;
      all.emplace(name, std::move(each));
    }
  }
  const Spec& spec(const std::string& name) const { return all.at("layers.1." + name).stored; }
  std::string of(const std::string& name) const {
    return spec(name).mesh().to_string() + " " + to_string(*spec(name).placements());
  }
  std::string w1() const { return of("moe.routed_experts.inner_experts.w1_EFD"); }
  std::string w2() const { return of("moe.routed_experts.inner_experts.w2_EDF"); }
  std::string w3() const { return of("moe.routed_experts.inner_experts.w3_EFD"); }
};

/// Every element of a tensor on the ranks of its mesh: how many ranks hold each.
std::vector<int> holders(const Spec& spec) {
  const Shape& shape = spec.global_shape();
  std::vector<int> held(static_cast<std::size_t>(num_elements(shape)), 0);
  for (std::int64_t rank = 0; rank < spec.mesh().num_ranks(); ++rank) {
    const Coord coord = *spec.mesh().coord_of(spec.mesh().first_rank() + rank);
    std::vector<std::int64_t> places = {0};
    for (std::size_t dim = 0; dim < shape.size(); ++dim) {
      std::vector<std::int64_t> next;
      for (const std::int64_t place : places) {
        for (const Interval& run :
             local_intervals(spec.mesh(), shape[dim], spec.layout().dims[dim], coord)) {
          for (std::int64_t i = run.start; i < run.stop; ++i) {
            next.push_back(place * shape[dim] + i);
          }
        }
      }
      places = std::move(next);
    }
    for (const std::int64_t place : places) ++held[static_cast<std::size_t>(place)];
  }
  return held;
}

}  // namespace

TEST_CASE("expert weights lie as in the tables of the references", "[moe][placements][C45][C46]") {
  const Table fsdp({.dp_shard = 4, .tp = 2, .ep = 2, .etp = 2}, 8);
  CHECK(fsdp.w1() == "{efsdp: 2, ep: 2, etp: 2} (SS(0,2), S(0), S(1))");
  CHECK(fsdp.w3() == fsdp.w1());
  CHECK(fsdp.w2() == "{efsdp: 2, ep: 2, etp: 2} (SS(0,2), S(0), S(2))");

  const Table hsdp({.dp_replicate = 2, .dp_shard = 4, .tp = 2, .ep = 2, .etp = 2}, 16);
  CHECK(hsdp.w1() == "{dp_replicate: 2, efsdp: 2, ep: 2, etp: 2} (R, SS(0,2), S(0), S(1))");
  CHECK(hsdp.w2() == "{dp_replicate: 2, efsdp: 2, ep: 2, etp: 2} (R, SS(0,2), S(0), S(2))");

  // 2 x 2 ranks of HSDP: ep takes all of dp_shard. On efsdp, one rank, every placement is the same:
  // R is printed for the table's SS(0,2).
  const Table small({.dp_replicate = 2, .dp_shard = 2, .tp = 2, .ep = 2, .etp = 2}, 8);
  CHECK(small.w1() == "{dp_replicate: 2, efsdp: 1, ep: 2, etp: 2} (R, R, S(0), S(1))");
  const Spec& w1 = small.spec("moe.routed_experts.inner_experts.w1_EFD");
  const Placements in_table = {Replicate{}, StridedShard{0, 2}, Shard{0}, Shard{1}};
  CHECK(w1 == value_or_throw(Spec::make(w1.mesh(), w1.global_shape(), w1.dtype(), in_table)));
  CHECK(small.w2() == "{dp_replicate: 2, efsdp: 1, ep: 2, etp: 2} (R, R, S(0), S(2))");

  const Table ep({.dp_replicate = 2, .dp_shard = 4, .ep = 2}, 8);
  CHECK(ep.w1() == "{dp_replicate: 2, efsdp: 2, ep: 2} (R, SS(0,2), S(0))");
  CHECK(ep.w2() == ep.w1());
}

TEST_CASE("experts fewer than the ranks that cut them lie cut along dim 1",
          "[moe][placements][C47]") {
  const Table equal({.dp_shard = 8, .ep = 4}, 8, 8);
  CHECK(equal.w1() == "{efsdp: 2, ep: 4} (SS(0,4), S(0))");
  const Table fewer({.dp_shard = 8, .ep = 4}, 8, 4);
  CHECK(fewer.w1() == "{efsdp: 2, ep: 4} (S(1), S(0))");
  CHECK(fewer.w2() == fewer.w1());
  const Table replicas({.dp_replicate = 2, .dp_shard = 8, .ep = 4}, 16, 4);
  CHECK(replicas.w1() == "{dp_replicate: 2, efsdp: 2, ep: 4} (R, S(1), S(0))");
  // Without expert parallelism: by the ranks of FSDP, on the dense mesh.
  const Table dense({.dp_shard = 4, .tp = 2}, 8, 8);
  CHECK(dense.w1() == "{dp_shard: 4, tp: 2} (S(0), S(1))");
  CHECK(dense.w2() == "{dp_shard: 4, tp: 2} (S(0), S(2))");
  const Table cut({.dp_shard = 8}, 8, 4);
  CHECK(cut.w1() == "{dp_shard: 8, tp: 1} (S(1), R)");
  // FSDP and TP both cut dim 1 of w1.
  const Table twice({.dp_shard = 8, .tp = 2}, 16, 4);
  CHECK(twice.w1() == "{dp_shard: 8, tp: 2} (SS(1,2), S(1))");
  CHECK(twice.w2() == "{dp_shard: 8, tp: 2} (S(1), S(2))");
  const Table context({.dp_replicate = 2, .dp_shard = 2, .cp = 2, .tp = 2}, 16, 8);
  CHECK(context.w1() == "{dp_replicate: 2, dp_shard: 2, cp: 2, tp: 2} (R, S(0), S(0), S(1))");
}

TEST_CASE("dense weights lie colwise and rowwise under FSDP", "[moe][placements][C45]") {
  const Table table({.dp_shard = 4, .tp = 2, .ep = 2}, 8);
  const std::string mesh = "{dp_shard: 4, tp: 2} ";
  CHECK(table.of("attention.wq.weight") == mesh + "(SS(0,2), S(0))");
  CHECK(table.of("attention.wkv_b.weight") == mesh + "(SS(0,2), S(0))");
  CHECK(table.of("attention.wkv_a.weight") == mesh + "(S(0), R)");
  CHECK(table.of("attention.wo.weight") == mesh + "(S(0), S(1))");
  CHECK(table.of("moe.shared_experts.w1.weight") == mesh + "(SS(0,2), S(0))");
  CHECK(table.of("moe.shared_experts.w2.weight") == mesh + "(S(0), S(1))");
  CHECK(table.of("moe.router.gate.weight") == mesh + "(S(0), R)");
  CHECK(table.all.at("tok_embeddings.weight").stored.mesh().ndim() == 2);
  CHECK(to_string(*table.all.at("lm_head.weight").stored.placements()) == "(SS(0,2), S(0))");
}

TEST_CASE("every element of every parameter is stored once by each replica",
          "[moe][placements][C45][C48]") {
  // 7 experts and odd sizes of the model against axes of 2 and 4.
  const auto [parallel, ranks] =
      GENERATE(std::pair<ParallelConfig, int>{{.dp_shard = 4, .tp = 2, .ep = 2, .etp = 2}, 8},
               std::pair<ParallelConfig, int>{
                   {.dp_replicate = 2, .dp_shard = 2, .tp = 2, .ep = 2, .etp = 2}, 8},
               std::pair<ParallelConfig, int>{{.dp_shard = 2, .cp = 2, .tp = 2, .ep = 8}, 8});
  const Table table(parallel, ranks, 7);
  for (const auto& [name, parameter] : table.all) {
    CAPTURE(name, parameter.stored.to_string());
    std::int64_t copies = 1;
    const Layout& layout = parameter.stored.layout();
    for (int axis = 0; axis < parameter.stored.mesh().ndim(); ++axis) {
      if (layout.dim_of_axis(axis) < 0) copies *= parameter.stored.mesh().size(axis);
    }
    const std::vector<int> held = holders(parameter.stored);
    CHECK(std::all_of(held.begin(), held.end(), [&](int count) { return count == copies; }));
  }
}

TEST_CASE("placements are found for a thousand ranks without starting any", "[moe][placements]") {
  const Table table({.dp_shard = 256, .tp = 4, .ep = 64}, 1024);
  CHECK(table.spec("attention.wq.weight").mesh().num_ranks() == 1024);
  const auto wrong = placed_parameters(config_with_experts(8), {.dp_shard = 3}, 4, DType::kF32);
  REQUIRE(!wrong.ok());
  CHECK_THAT(std::string(message_of(wrong.status())), Catch::Contains("is 3 ranks"));
}

}  // namespace tessera::testing
