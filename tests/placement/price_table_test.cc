// Prices of moves: those of plans, kept by threads together, and never more than asked for.
#include "placement/price_table.h"

#include <thread>

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
