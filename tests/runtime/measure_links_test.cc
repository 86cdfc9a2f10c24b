// Links measured between ranks, and the classes found in given times.
#include "runtime/measure_links.h"

#include <cmath>

using namespace tessera;  // NOLINT

namespace {

/// All pairs of so many ranks; `us_of` says what a message of 8 bytes and one of 1 MB take.
template <class UsOf>
std::vector<PairTimes> pairs_of(std::int64_t ranks, const UsOf& us_of) {
  std::vector<PairTimes> pairs;
  for (std::int64_t a = 0; a < ranks; ++a) {
    for (std::int64_t b = a + 1; b < ranks; ++b) {
      const auto [small, large] = us_of(a, b);
      pairs.push_back({a, b, {{8, small}, {1'000'000, large}}});
    }
  }
  return pairs;
}

using Us = std::pair<double, double>;

}  // namespace

TEST_CASE("links that are alike are one class", "[runtime][measure]") {
  const auto pairs = pairs_of(8, [](std::int64_t a, std::int64_t b) {
    return Us(1.0 + 0.01 * static_cast<double>(a), 101.0 + 0.1 * static_cast<double>(b));
  });
  const Topology topology = classes_of(pairs, std::vector<std::string>(8, "one"));
  REQUIRE(topology.links.size() == 1);
  CHECK(topology.links[0].name == "host");
  CHECK(topology.links[0].ranks == 0);
  CHECK(topology.links[0].latency_us == Approx(1.0).margin(0.1));
  CHECK(topology.links[0].gb_per_s == Approx(10).margin(0.2));
  CHECK(validate(topology).ok());
}

TEST_CASE("blocks of ranks are found in the times alone", "[runtime][measure]") {
  const auto pairs = pairs_of(8, [](std::int64_t a, std::int64_t b) {
    if (a / 2 == b / 2) return Us(1, 11);
    return a / 4 == b / 4 ? Us(3, 103) : Us(10, 1010);
  });
  const Topology topology = classes_of(pairs, std::vector<std::string>(8, "one"));
  REQUIRE(topology.links.size() == 3);
  CHECK(topology.links[0] == LinkClass{"block2", 2, 1, 100});
  CHECK(topology.links[1] == LinkClass{"block4", 4, 3, 10});
  CHECK(topology.links[2] == LinkClass{"host", 0, 10, 1});
  CHECK(validate(topology).ok());
}

TEST_CASE("blocks that differ in bandwidth alone are found", "[runtime][measure]") {
  const auto pairs = pairs_of(
      6, [](std::int64_t a, std::int64_t b) { return a / 3 == b / 3 ? Us(1, 11) : Us(1, 1001); });
  const Topology topology = classes_of(pairs, std::vector<std::string>(6, "one"));
  REQUIRE(topology.links.size() == 2);
  CHECK(topology.links[0].ranks == 3);
  CHECK(topology.links[1].gb_per_s == Approx(1));
}

TEST_CASE("hosts are blocks, however alike their links", "[runtime][measure]") {
  const auto pairs = pairs_of(4, [](std::int64_t, std::int64_t) { return Us(1, 101); });
  const Topology topology = classes_of(pairs, {"a", "a", "b", "b"});
  REQUIRE(topology.links.size() == 2);
  CHECK(topology.links[0].name == "host");
  CHECK(topology.links[0].ranks == 2);
  CHECK(topology.links[1].name == "network");
  // Where hosts have ranks in turn there are no blocks of consecutive ones.
  CHECK(classes_of(pairs, {"a", "b", "a", "b"}).links.size() == 1);
  CHECK(classes_of(pairs, {"a", "a", "a", "b"}).links.size() == 1);
}

TEST_CASE("measured links are positive, finite and larger messages no slower a byte",
          "[runtime][measure]") {
  const int num_ranks = GENERATE(2, 3);
  std::vector<MeasuredLinks> measured(static_cast<std::size_t>(num_ranks));
  const Status status = run_ranks(num_ranks, {.threads_per_rank = 1}, [&](World& world) {
    measured[static_cast<std::size_t>(world.rank())] = measure_links(world, /*seconds=*/0.05);
  });
  REQUIRE(status.ok());
  for (const MeasuredLinks& each : measured) {
    CHECK(each.topology == measured[0].topology);
    REQUIRE(validate(each.topology).ok());
    CHECK(each.pairs.size() == static_cast<std::size_t>(num_ranks * (num_ranks - 1) / 2));
    CHECK(each.hosts.size() == static_cast<std::size_t>(num_ranks));
    CHECK(std::isfinite(each.topology.step_us));
    for (const LinkClass& link : each.topology.links) {
      CHECK(link.latency_us > 0);
      CHECK(std::isfinite(link.latency_us));
      CHECK(std::isfinite(link.gb_per_s));
    }
    for (const PairTimes& pair : each.pairs) {
      const auto per_us = [](const MessageTime& message) {
        return static_cast<double>(message.bytes) / message.us;
      };
      CHECK(per_us(pair.messages.back()) >= per_us(pair.messages.front()));
      for (const MessageTime& message : pair.messages) CHECK(message.us > 0);
    }
  }
}

TEST_CASE("one rank has no links to measure", "[runtime][measure]") {
  const std::unique_ptr<World> world = make_single_world();
  CHECK_THROWS_WITH(measure_links(*world, 0.1),
                    "measure: one rank has no links; let there be two at least");
}
