// The planner's search for chains prices layouts in closed form: beside it stands the same planner
// with a search that makes every spec, prices every step by cost_of() and stops nowhere.

#include "tests/redistribute/layouts.h"
#include "tests/redistribute/slow_plan.h"

using namespace tessera;  // NOLINT
using judge::mesh_of;

namespace {

/// R, every S, P(sum), P(max) on each axis, in all orders of the axes that cut one dim.
std::vector<Spec> plain_layouts(const Mesh& mesh, const Shape& shape) {
  judge::SpecSet specs(mesh, shape);
  std::vector<int> uses{-3, -2, -1};
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) uses.push_back(d);
  std::vector<int> order(static_cast<std::size_t>(mesh.ndim()));
  std::iota(order.begin(), order.end(), 0);
  do {
    for (const std::vector<int>& list : judge::products_of(uses, mesh.ndim())) {
      Layout layout{std::vector<Levels>(shape.size()),
                    std::vector<std::optional<ReduceOp>>(static_cast<std::size_t>(mesh.ndim()))};
      for (const int axis : order) {
        const auto a = static_cast<std::size_t>(axis);
        if (list[a] == -2) layout.partial[a] = ReduceOp::kSum;
        if (list[a] == -3) layout.partial[a] = ReduceOp::kMax;
        if (list[a] >= 0) {
          layout.dims[static_cast<std::size_t>(list[a])].push_back(Level::of_axis(axis));
        }
      }
      specs.add(layout);
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return specs.take();
}

/// How a plan's price compares with the slow planner's.
struct Compared {
  double us = 0, slow_us = 0;
  std::int64_t bytes = 0, slow_bytes = 0;
  bool equal() const { return std::abs(us - slow_us) <= 1e-9 * slow_us; }
};
double us_of(const Plan& made, const Topology& topology) {
  double us = 0;
  for (const PlanStep& step : made.steps) us += cost_of(step, &topology).estimated_us;
  return us;
}
Compared compare(const Spec& src, const Spec& dst, const Topology& topology) {
  const Plan made = value_or_throw(plan(src, dst, {.topology = &topology}));
  const Plan slow = slow::plan(src, dst, topology);
  return {.us = us_of(made, topology), .slow_us = us_of(slow, topology)};
}

void compare_all(const std::vector<Spec>& specs, const Topology& topology, std::int64_t& pairs) {
  for (const Spec& src : specs) {
    for (const Spec& dst : specs) {
      ++pairs;
      const Compared both = compare(src, dst, topology);
      if (both.equal()) continue;
      CAPTURE(topology.name, src.to_string(), dst.to_string(), both.us, both.slow_us);
      REQUIRE(both.equal());
    }
  }
}

/// Links that differ much, so that chains pay; blocks of two ranks.
const Topology& pairs_of_ranks() {
  static const Topology topology{"pairs",
                                 1.0,
                                 {{.name = "near", .ranks = 2, .latency_us = 0.5, .gb_per_s = 100},
                                  {.name = "far", .ranks = 0, .latency_us = 10, .gb_per_s = 1}}};
  return topology;
}

}  // namespace

TEST_CASE("plans of every pair of plain specs cost what the slow search finds",
          "[redistribute][price][search]") {
  const Topology cluster = value_or_throw(topology_preset("cluster"));
  std::int64_t pairs = 0;
  for (const Topology* topology : {&cluster, &pairs_of_ranks()}) {
    for (const std::int64_t ranks : {2, 3, 4}) {
      for (const Shape& shape : {Shape{8, 12}, Shape{7, 1}, Shape{5, 3}, Shape{4096, 600}}) {
        compare_all(plain_layouts(mesh_of({ranks}), shape), *topology, pairs);
      }
    }
    for (const Shape& shape : {Shape{8, 12}, Shape{5, 3}, Shape{6, 1}, Shape{600, 256}}) {
      compare_all(plain_layouts(mesh_of({2, 2}), shape), *topology, pairs);
      compare_all(plain_layouts(mesh_of({2, 4}), shape), *topology, pairs);
    }
  }
  std::printf("pairs beside the slow search: %lld\n", static_cast<long long>(pairs));
  CHECK(pairs > 10'000);
}

TEST_CASE("plans of random pairs cost what the slow search finds",
          "[redistribute][price][search]") {
  std::mt19937 random(judge::seed_of("beside the slow search"));
  const std::vector<Mesh> meshes = {mesh_of({2, 2, 2}), mesh_of({4, 4}),    mesh_of({2, 3, 2}),
                                    mesh_of({8, 8}),    mesh_of({4, 2, 4}), mesh_of({8, 8, 8})};
  const Topology cluster = value_or_throw(topology_preset("cluster"));
  for (int round = 0; round < 1500; ++round) {
    const Mesh& mesh = meshes[random() % meshes.size()];
    const std::int64_t scale = std::int64_t{1} << (random() % 11);
    const Shape shape{static_cast<std::int64_t>(1 + random() % 20) * scale,
                      static_cast<std::int64_t>(1 + random() % 64), 16};
    const auto any = [&] {
      return value_or_throw(
          Spec::make(mesh, shape, DType::kF32,
                     judge::random_layout(mesh, 3, random, judge::WithPartial::kYes)));
    };
    const Spec src = any(), dst = any();
    const Topology& topology = round % 2 == 0 ? cluster : pairs_of_ranks();
    const Compared both = compare(src, dst, topology);
    CAPTURE(topology.name, src.to_string(), dst.to_string(), both.us, both.slow_us);
    REQUIRE(both.equal());
  }
}
