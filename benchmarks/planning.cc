// What it costs to plan a redistribution that was never planned before. Every round plans another
// shape, so nothing kept from earlier rounds serves it.
// Units: microseconds per plan, on one thread.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "benchmarks/thread_time.h"
#include "placement/plan_cost.h"
#include "placement/price_table.h"

namespace tessera {
namespace {

/// Specs of one transition in many shapes.
class Transition {
 public:
  struct Form {
    Shape mesh;
    const char* from;
    const char* to;
  };
  explicit Transition(const Form& form) : Transition(form, form.mesh) {}
  Transition(const Form& form, const Shape& to_mesh) {
    const Mesh src_mesh = value_or_throw(Mesh::make(view_of(form.mesh)));
    const Mesh dst_mesh = value_or_throw(Mesh::make(view_of(to_mesh)));
    const Placements from = value_or_throw(parse_placements(form.from));
    const Placements to = value_or_throw(parse_placements(form.to));
    for (std::int64_t i = 0; i < kShapes; ++i) {
      const Shape shape{16384 + 128 * i, 16384, 512};
      src_.push_back(value_or_throw(Spec::make(src_mesh, shape, DType::kBF16, from)));
      dst_.push_back(value_or_throw(Spec::make(dst_mesh, shape, DType::kBF16, to)));
    }
  }

  Plan next(const PlanOptions& options) {
    const std::size_t i = at_++ % src_.size();
    return value_or_throw(plan(src_[i], dst_[i], options));
  }

 private:
  static constexpr std::int64_t kShapes = 4096;
  std::vector<Spec> src_, dst_;
  std::size_t at_ = 0;
};

void plan_all(benchmark::State& state, Transition transition, const PlanOptions& options) {
  for (auto _ : state) benchmark::DoNotOptimize(transition.next(options));
  const Plan made = transition.next(options);
  std::string steps;
  for (const PlanStep& step : made.steps) {
    steps += (steps.empty() ? "" : ", ") + std::string(name_of(step.kind));
  }
  state.SetLabel(steps);
}

/// All moves between R, P, S(0), S(1) on each axis, of one shape: an iteration plans them all. Of
/// each one's least time, the mean and the most are told.
void plan_all_pairs(benchmark::State& state, const Mesh& mesh, const Shape& shape,
                    const PlanOptions& options) {
  std::vector<Placements> lists{{}};
  for (int axis = 0; axis < mesh.ndim(); ++axis) {
    std::vector<Placements> longer;
    for (const Placements& list : lists) {
      for (const Placement& next : {Placement{Replicate{}}, Placement{Partial{}},
                                    Placement{Shard{0}}, Placement{Shard{1}}}) {
        longer.push_back(list);
        longer.back().push_back(next);
      }
    }
    lists = std::move(longer);
  }
  std::vector<Spec> specs;
  for (const Placements& list : lists) {
    specs.push_back(value_or_throw(Spec::make(mesh, shape, DType::kBF16, list)));
  }
  std::vector<double> least_us(specs.size() * specs.size(), INFINITY);
  for (auto _ : state) {
    for (std::size_t pair = 0; pair < least_us.size(); ++pair) {
      const Spec& src = specs[pair / specs.size()];
      const double start = bench::thread_seconds();
      benchmark::DoNotOptimize(value_or_throw(plan(src, specs[pair % specs.size()], options)));
      least_us[pair] = std::min(least_us[pair], 1e6 * (bench::thread_seconds() - start));
    }
  }
  state.counters["mean_us"] =
      std::accumulate(least_us.begin(), least_us.end(), 0.0) / static_cast<double>(least_us.size());
  state.counters["worst_us"] = *std::max_element(least_us.begin(), least_us.end());
}

/// A price that a table keeps.
void price_again(benchmark::State& state, Transition transition, const Topology& topology) {
  PriceTable table(topology);
  const Plan first = transition.next({});
  for (auto _ : state) benchmark::DoNotOptimize(table.price(first.src, first.dst));
}

/// What a program pays that prints costs beside: from the plan alone.
void cost_all(benchmark::State& state, Transition transition) {
  const Plan made = transition.next({});
  for (auto _ : state) benchmark::DoNotOptimize(cost_of(made));
}

struct Row {
  const char* name;
  Transition::Form form;
};
const std::array kRows = {
    Row{"8/shard_to_shard", {{8}, "S(0)", "S(1)"}},
    Row{"8/shard_to_replicate", {{8}, "S(0)", "R"}},
    Row{"8/partial_to_shard", {{8}, "P", "S(0)"}},
    Row{"8/partial_to_replicate", {{8}, "P", "R"}},
    Row{"8x8/permute", {{8, 8}, "S(0), S(1)", "S(1), S(0)"}},
    Row{"8x8/gather", {{8, 8}, "S(0), S(0)", "R, S(0)"}},
    Row{"8x8/fsdp_over_tp", {{8, 8}, "SS(0,8), S(0)", "S(0), S(0)"}},
    Row{"8x8/reduce", {{8, 8}, "P, S(0)", "S(0), S(0)"}},
    Row{"8x8/share_reduction", {{8, 8}, "P, R", "R, R"}},
    Row{"8x8x8/permute", {{8, 8, 8}, "S(0), S(1), S(2)", "S(2), S(0), S(1)"}},
    Row{"8x8x8/turn", {{8, 8, 8}, "S(0), S(0), S(0)", "S(1), S(1), S(1)"}},
    Row{"8x8x8/gather", {{8, 8, 8}, "S(0), S(1), S(2)", "R, R, R"}},
    Row{"8x8x8/strided", {{8, 8, 8}, "SS(0,64), SS(0,8), S(0)", "S(0), S(0), S(0)"}},
    Row{"8x8x8/reduce", {{8, 8, 8}, "P, S(0), S(1)", "S(0), S(1), R"}},
    Row{"8x8x8/share_reduction", {{8, 8, 8}, "P, P, R", "R, S(0), S(1)"}},
    Row{"8x8x8/mixed_kinds", {{8, 8, 8}, "P, P(max), S(0)", "S(0), R, S(1)"}},
    Row{"16384/gather", {{16384}, "S(0)", "R"}},
    Row{"16384/turn", {{16384}, "S(0)", "S(1)"}},
    Row{"128x128/permute", {{128, 128}, "S(0), S(1)", "S(1), S(0)"}},
    Row{"128x128/strided", {{128, 128}, "SS(0,128), S(0)", "S(0), S(0)"}},
    Row{"16x16x64/permute", {{16, 16, 64}, "S(0), S(1), S(2)", "S(2), S(0), S(1)"}},
    Row{"16x16x64/turn", {{16, 16, 64}, "S(0), S(0), S(0)", "S(1), S(1), S(1)"}},
    Row{"16x16x64/reduce", {{16, 16, 64}, "P, S(0), S(1)", "S(0), S(1), R"}},
    Row{"8x8x8x32/mixed", {{8, 8, 8, 32}, "P, S(0), S(1), R", "S(0), S(1), R, S(2)"}},
};

struct AllPairs {
  const char* name;
  Shape mesh, shape;
};
const std::array kAllPairs = {
    AllPairs{"16384", {16384}, {32768, 65536}},
    AllPairs{"16384_uneven", {16384}, {30000, 70001}},
    AllPairs{"128x128", {128, 128}, {32768, 65536}},
    AllPairs{"128x128_uneven", {128, 128}, {30000, 70001}},
};

struct MeshRow {
  const char* name;
  Transition::Form form;
  Shape to_mesh;
};
const std::array kMeshRows = {
    MeshRow{"8x8_to_64", {{8, 8}, "S(0), S(1)", "S(0)"}, {64}},
    MeshRow{"8x8x8_to_4x16", {{8, 8, 8}, "S(0), S(0), S(1)", "R, S(1)"}, {4, 16}},
    MeshRow{"8x8x8_to_16x32", {{8, 8, 8}, "S(0), R, S(1)", "S(0), S(0)"}, {16, 32}},
    MeshRow{"1_to_512", {{1}, "R", "R"}, {512}},
    MeshRow{"16x16x64_to_128x128", {{16, 16, 64}, "S(0), S(0), S(1)", "S(1), S(0)"}, {128, 128}},
};

void register_all() {
  static const Topology cluster = value_or_throw(topology_preset("cluster"));
  const auto add = [](const std::string& name, const auto& body) {
    benchmark::RegisterBenchmark(name.c_str(), body)->Unit(benchmark::kMicrosecond);
  };
  for (const Row& row : kRows) {
    const Transition::Form& form = row.form;
    add("plan/" + std::string(row.name),
        [&form](benchmark::State& state) { plan_all(state, Transition(form), {}); });
    add("plan_for_cluster/" + std::string(row.name), [&form](benchmark::State& state) {
      plan_all(state, Transition(form), {.topology = &cluster});
    });
    add("price_again/" + std::string(row.name),
        [&form](benchmark::State& state) { price_again(state, Transition(form), cluster); });
    add("cost/" + std::string(row.name),
        [&form](benchmark::State& state) { cost_all(state, Transition(form)); });
  }
  for (const AllPairs& row : kAllPairs) {
    add("all_pairs_for_cluster/" + std::string(row.name), [&row](benchmark::State& state) {
      const Mesh mesh = value_or_throw(Mesh::make(view_of(row.mesh)));
      plan_all_pairs(state, mesh, row.shape, {.topology = &cluster});
    });
  }
  for (const MeshRow& row : kMeshRows) {
    add("plan_between_meshes/" + std::string(row.name), [&row](benchmark::State& state) {
      plan_all(state, Transition(row.form, row.to_mesh), {});
    });
    add("plan_between_meshes_for_cluster/" + std::string(row.name),
        [&row](benchmark::State& state) {
          plan_all(state, Transition(row.form, row.to_mesh), {.topology = &cluster});
        });
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  tessera::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
