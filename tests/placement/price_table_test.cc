// Prices of moves: those of plans, kept by threads together, and never more than asked for.
#include "placement/price_table.h"

#include <random>
#include <thread>

#include "placement/move_class.h"
#include "tests/redistribute/layouts.h"

using namespace tessera;  // NOLINT
using judge::mesh_of;

namespace {

std::vector<Spec> some_specs(std::int64_t rows) {
  const Mesh mesh = mesh_of({2, 4});
  std::vector<Spec> specs;
  for (const char* placements :
       {"R, R", "S(0), R", "S(0), S(1)", "S(1), S(0)", "P, S(0)", "P, P"}) {
    specs.push_back(judge::spec_of(mesh, {rows, 64}, placements, DType::kF32));
  }
  return specs;
}

}  // namespace

TEST_CASE("a move's price is that of its plan", "[placement][price]") {
  const Topology cluster = value_or_throw(topology_preset("cluster"));
  for (const Topology* topology : {static_cast<const Topology*>(nullptr), &cluster}) {
    PriceTable table(topology == nullptr ? std::nullopt : std::optional(*topology));
    for (const Spec& src : some_specs(48)) {
      for (const Spec& dst : some_specs(48)) {
        const Plan made = value_or_throw(plan(src, dst, {.topology = topology}));
        const PlanCost cost = cost_of(made, topology);
        const MovePrice price = value_or_throw(table.price(src, dst));
        CAPTURE(src.to_string(), dst.to_string());
        CHECK(price.us == Approx(cost.estimated_us));
        CHECK(price.bytes_received.total == cost.bytes_received.total);
        CHECK(price.bytes_received.max >= cost.bytes_received.max);
        CHECK(price.steps == std::ssize(made.steps));
        CHECK(value_or_throw(table.price(src, dst)) == price);
      }
    }
    CHECK(table.size() == 36);
  }
}

// Layouts of three axes on dims in several orders and of several sizes, even and uneven: what is
// kept for one of them is exactly the price of each.
TEST_CASE("moves of one class have one price", "[placement][price]") {
  const Topology cluster = value_or_throw(topology_preset("cluster"));
  const Mesh mesh = mesh_of({2, 4, 8});
  const std::vector<Shape> shapes = {{64, 64, 64},  {64, 4096},    {4096, 64},    {128, 2048},
                                     {4, 64, 1024}, {1, 512, 512}, {12, 64, 320}, {30, 40, 50}};
  std::mt19937_64 random(5);
  const auto placement = [&](int ndim) -> Placement {
    const auto kind = static_cast<int>(random() % 5);
    if (kind == 0) return Replicate{};
    if (kind == 1) return Partial{ReduceOp::kSum};
    return Shard{static_cast<int>(random() % static_cast<std::uint64_t>(ndim))};
  };
  PriceTable table(cluster);
  constexpr int kMoves = 4000;
  for (int i = 0; i < kMoves; ++i) {
    const Shape& shape = shapes[random() % shapes.size()];
    const auto spec = [&] {
      Placements placements;
      for (int axis = 0; axis < 3; ++axis)
        placements.push_back(placement(static_cast<int>(shape.size())));
      return value_or_throw(Spec::make(mesh, shape, DType::kF32, placements));
    };
    const Spec src = spec(), dst = spec();
    const StatusOr<MovePrice> kept = table.price(src, dst);
    const StatusOr<MovePrice> own = price_of_move(src, dst, {.topology = &cluster});
    CAPTURE(src.to_string(), dst.to_string());
    REQUIRE(kept.ok() == own.ok());
    if (kept.ok()) REQUIRE(*kept == *own);
  }
  CHECK(table.size() < kMoves);
}

TEST_CASE("what a move's class leaves out is how even dims share the elements",
          "[placement][price]") {
  const auto class_of = [](const Shape& mesh, const Shape& shape, DType dtype = DType::kF32) {
    const Mesh on = value_or_throw(Mesh::make(view_of(mesh)));
    return MoveClass(judge::spec_of(on, shape, "S(0), P", dtype),
                     judge::spec_of(on, shape, "S(1), R", dtype));
  };
  const MoveClass one = class_of({2, 4}, {64, 128});
  CHECK(class_of({2, 4}, {128, 64}) == one);
  CHECK(class_of({2, 4}, {8, 1024}) == one);
  CHECK(class_of({2, 4}, {64, 64}) != one);
  CHECK(class_of({4, 2}, {64, 128}) != one);
  CHECK(class_of({2, 4}, {4, 2048}) != one);  // 4 is less than all ranks
  CHECK(class_of({2, 4}, {64, 128}, DType::kF64) != one);
  // Dims that nobody cuts are part of it as far as a plan could cut them on its way.
  CHECK(class_of({2, 4}, {64, 16, 8, 8}) == class_of({2, 4}, {64, 8, 16, 8}));
}

TEST_CASE("a table of prices keeps no more than it may", "[placement][price]") {
  PriceTable table(value_or_throw(topology_preset("host")), /*most_kept=*/64);
  for (std::int64_t rows = 8; rows < 40; ++rows) {
    for (const Spec& dst : some_specs(rows)) {
      REQUIRE(table.price(some_specs(rows)[2], dst).ok());
      REQUIRE(table.size() <= 64);
    }
  }
  CHECK(table.size() > 0);
}

TEST_CASE("threads share a table of prices", "[placement][price]") {
  PriceTable table(value_or_throw(topology_preset("cluster")));
  std::vector<std::vector<MovePrice>> prices(4);
  std::vector<std::thread> threads;
  for (std::vector<MovePrice>& own : prices) {
    threads.emplace_back([&table, &own] {
      for (const Spec& src : some_specs(96)) {
        for (const Spec& dst : some_specs(96)) own.push_back(*table.price(src, dst));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<MovePrice>& own : prices) CHECK(own == prices[0]);
}

TEST_CASE("a table of prices passes on what plans refuse", "[placement][price]") {
  PriceTable table(Topology{.name = "none", .step_us = 0, .links = {}});
  const std::vector<Spec> specs = some_specs(48);
  CHECK(message_of(table.price(specs[0], specs[1]).status()).find("no link class") !=
        std::string::npos);
  PriceTable host(std::nullopt);
  CHECK(!host.price(specs[0], some_specs(16)[0]).ok());
}
