// Dispatch and combine: orders, conservation, extremes, host reads.
#include <algorithm>
#include <numeric>

#include "dtensor/ops.h"
#include "moe/dispatcher.h"
#include "tests/moe/training_run.h"
#include "tests/support/launch.h"

namespace tessera::testing {
namespace {

using Ints = std::vector<std::int64_t>;

DTensor plain_ints(Runtime& runtime, const Shape& shape, const Ints& values) {
  return plain(runtime, Array::from_values(shape, DType::kI64,
                                           std::vector<double>(values.begin(), values.end())));
}

/// What one rank's tokens became.
struct Journey {
  std::vector<double> out, grad_x, grad_weights;
  Ints received_rows;
  std::int64_t host_reads = 0;
};

/// 3 tokens a rank, top 2 of `num_experts`; expert e multiplies its rows by e + 1. Tokens' values
/// are unique.
Journey travel(World& world, std::int64_t num_experts,
               const std::function<std::int64_t(std::int64_t)>& choose) {
  Runtime runtime(world);
  const std::int64_t ranks = world.size();
  const Shape mesh_shape = {ranks};
  const Mesh mesh = value_or_throw(Mesh::make(view_of(mesh_shape), {"ep"}));
  constexpr std::int64_t kT = 3, kK = 2, kD = 2;
  std::vector<double> values;
  Ints ids;
  Ints counts(static_cast<std::size_t>(num_experts), 0);
  for (std::int64_t slot = 0; slot < kT * kK; ++slot) {
    ids.push_back(choose(world.rank() * kT * kK + slot));
    ++counts[static_cast<std::size_t>(ids.back())];
  }
  for (std::int64_t i = 0; i < kT * kD; ++i) {
    values.push_back(static_cast<double>(100 * world.rank() + i + 1));
  }
  DTensor x = plain(runtime, Array::from_values({kT, kD}, DType::kF64, values));
  x.set_requires_grad(true);
  DTensor weights =
      plain(runtime, Array::from_values({kT, kK}, DType::kF64, std::vector<double>(kT * kK, 0.5)));
  weights.set_requires_grad(true);
  const ExpertGroup ep = {mesh, {0}};
  const auto dispatcher = value_or_throw(Dispatcher::make("experts", ep, num_experts, {}));
  const Dispatched there = dispatch(*dispatcher, x, {.ids_TK = plain_ints(runtime, {kT, kK}, ids)});
  const Ints experts = experts_by_rank(num_experts, ranks);
  const std::int64_t first =
      std::accumulate(experts.begin(), experts.begin() + world.rank(), std::int64_t{0});
  std::vector<double> factors;
  const std::vector<double> counts_e = there.rows.counts_e.local().to_vector();
  for (std::size_t e = 0; e < counts_e.size(); ++e) {
    factors.insert(factors.end(), static_cast<std::size_t>(counts_e[e]),
                   static_cast<double>(first + static_cast<std::int64_t>(e) + 1));
  }
  const DTensor factor_R = plain(
      runtime,
      Array::from_values({static_cast<std::int64_t>(factors.size()), 1}, DType::kF64, factors));
  const DTensor out = combine(mul(there.rows.rows_RD, factor_R), weights, there);
  backward(sum(out));
  Journey journey{.out = out.local().to_vector(),
                  .grad_x = x.grad().local().to_vector(),
                  .grad_weights = weights.grad().local().to_vector(),
                  .received_rows = {there.rows.rows_RD.size(0)}};
  for (const Event& event : runtime.events().events()) {
    journey.host_reads += event.kind == Event::Kind::kHostRead;
  }
  return journey;
}

/// What a token becomes: Σ over its experts of 0.5 · (e + 1) · value.
void check_journey(const Journey& journey, std::int64_t rank,
                   const std::function<std::int64_t(std::int64_t)>& choose) {
  for (std::int64_t token = 0; token < 3; ++token) {
    const std::int64_t slot = (rank * 3 + token) * 2;
    const double e0 = static_cast<double>(choose(slot) + 1);
    const double e1 = static_cast<double>(choose(slot + 1) + 1);
    for (std::int64_t d = 0; d < 2; ++d) {
      const auto at = static_cast<std::size_t>(token * 2 + d);
      const double value = static_cast<double>(100 * rank + token * 2 + d + 1);
      CHECK(journey.out[at] == Approx(0.5 * (e0 + e1) * value));
      CHECK(journey.grad_x[at] == Approx(0.5 * (e0 + e1)));
    }
    const double row_sum = static_cast<double>(2 * (100 * rank + token * 2 + 1) + 1);
    CHECK(journey.grad_weights[static_cast<std::size_t>(token * 2)] == Approx(e0 * row_sum));
    CHECK(journey.grad_weights[static_cast<std::size_t>(token * 2 + 1)] == Approx(e1 * row_sum));
  }
}

}  // namespace

TEST_CASE("rows go from rank-major to expert-major order", "[moe][dispatch][C28]") {
  struct Vector {
    Ints counts;
    std::int64_t senders;
    Ints source;
    Ints per_expert;
  };
  const std::vector<Vector> vectors = {
      {{2, 3, 1, 4}, 2, {0, 1, 5, 2, 3, 4, 6, 7, 8, 9}, {3, 7}},
      {{0, 3, 2, 0}, 2, {3, 4, 0, 1, 2}, {2, 3}},
      {{2, 2, 2, 2, 2, 2}, 3, {0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11}, {6, 6}},
      {{0, 0, 0, 0}, 2, {}, {0, 0}},
      {{3}, 1, {0, 1, 2}, {3}},
      {{1, 2, 3}, 3, {0, 1, 2, 3, 4, 5}, {6}}};
  for (const Vector& vector : vectors) {
    const RowOrder order = expert_order(vector.counts, vector.senders);
    CHECK(order.source_R == vector.source);
    CHECK(order.counts_e == vector.per_expert);
    Ints sorted = order.source_R;
    std::sort(sorted.begin(), sorted.end());
    Ints all(sorted.size());
    std::iota(all.begin(), all.end(), 0);
    CHECK(sorted == all);  // a bijection
  }
}

TEST_CASE("experts are cut over ep as Shard cuts a dim", "[moe][dispatch]") {
  CHECK(experts_by_rank(8, 2) == Ints{4, 4});
  CHECK(experts_by_rank(7, 4) == Ints{2, 2, 2, 1});
  CHECK(experts_by_rank(5, 4) == Ints{2, 2, 1, 0});
}

TEST_CASE("every kept token returns exactly once, weighted, with its gradient",
          "[moe][dispatch][C29][C32]") {
  const int ranks = GENERATE(1, 2, 3, 4);
  const std::int64_t experts = GENERATE(std::int64_t{4}, std::int64_t{5});
  const int pattern = GENERATE(0, 1, 2);
  CAPTURE(ranks, experts, pattern);
  const auto choose = [&](std::int64_t slot) -> std::int64_t {
    if (pattern == 0) return (slot * 7 + slot / 2) % experts;  // mixed
    if (pattern == 1) return slot % 2;                         // the first ranks get everything
    return experts - 1 - slot % 2;                             // the last ones do
  };
  const std::vector<Journey> journeys =
      results_of(ranks, {}, [&](World& world) { return travel(world, experts, choose); }).value();
  std::int64_t rows = 0;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const Journey& journey = journeys[static_cast<std::size_t>(rank)];
    check_journey(journey, rank, choose);
    rows += std::accumulate(journey.received_rows.begin(), journey.received_rows.end(),
                            std::int64_t{0});
  }
  CHECK(rows == ranks * 6);
}

TEST_CASE("one dispatch reads the host once, and a device scalar counts as a read",
          "[moe][dispatch][C24][C25]") {
  const auto reads =
      results_of(2, {}, [&](World& world) {
        const Journey journey = travel(world, 4, [](std::int64_t slot) { return slot % 4; });
        Runtime runtime(world);
        const std::size_t before = runtime.events().events().size();
        item(sum(plain_ints(runtime, {3}, {1, 2, 3})));
        const auto& events = runtime.events().events();
        const std::int64_t of_item =
            std::count_if(events.begin() + static_cast<std::ptrdiff_t>(before), events.end(),
                          [](const Event& e) { return e.kind == Event::Kind::kHostRead; });
        return std::pair{journey.host_reads, of_item};
      }).value();
  for (const auto& [of_dispatch, of_item] : reads) {
    CHECK(of_dispatch == 1);
    CHECK(of_item == 1);
  }
}

TEST_CASE("tokens of a batch keep their global places under sequence parallelism",
          "[moe][dispatch][C10][C12]") {
  // (B, L) = (2, 4) with L cut over 2: rank 1 holds tokens 2, 3 of both sequences.
  const Shape mesh_shape = {2};
  const Mesh mesh = value_or_throw(Mesh::make(view_of(mesh_shape), {"tp"}));
  const Levels flat = value_or_throw(flatten_levels(mesh, {}, 2, {Level::of_axis(0)}, 4));
  const std::vector<Interval> held = local_intervals(mesh, 8, flat, {1});
  CHECK(held == std::vector<Interval>{{2, 4}, {6, 8}});
}

}  // namespace tessera::testing
