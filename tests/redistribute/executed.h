// tests/redistribute/executed.h: pairs carried out by ranks, compared bit by bit with the simulated
// arrays, which the judge has checked.
#pragma once

#include "runtime/world.h"
#include "testing/results.h"
#include "tests/redistribute/layouts.h"
#include "tests/redistribute/simulate.h"
#include "tests/support/on_world.h"

namespace tessera::judge {

struct Pair {
  Spec src;
  Spec dst;
};

/// A plan, what every rank begins with, and what it must end with.
struct Expected {
  Plan plan;
  std::map<std::int64_t, Local> before;
  std::map<std::int64_t, Local> after;
};
inline Expected expected_of(const Pair& pair, HeldCache& cache, const PlanOptions& options = {}) {
  Expected expected{value_or_throw(plan(pair.src, pair.dst, options)), {}, {}};
  expected.before = made_parts(*cache.of(pair.src), /*seed=*/1);
  const Repeats repeats = options.topology == nullptr ? Repeats::kRefused : Repeats::kAllowed;
  Simulation simulation(expected.plan, cache, repeats);
  const std::string flaw = simulation.run();
  if (!flaw.empty()) {
    throw Error(internal_error(pair.src.to_string() + " to " + pair.dst.to_string() + ": " + flaw));
  }
  expected.after = simulation.arrays();
  return expected;
}

/// This rank's array before a plan; null outside of the source's mesh.
inline Array array_before(const Expected& expected, std::int64_t rank) {
  const auto found = expected.before.find(rank);
  if (found == expected.before.end()) return {};
  const Spec& src = expected.plan.src;
  return Array::from_values(src.local_shape(*src.mesh().coord_of(rank)), src.dtype(),
                            found->second);
}

/// What differs between a rank's array after a plan and what is expected, or "".
inline std::string flaw_of(const Expected& expected, std::int64_t rank, const Array& got) {
  const auto found = expected.after.find(rank);
  if (found == expected.after.end()) {
    return got.is_null() ? "" : "a rank outside of the target has an array";
  }
  const Spec& dst = expected.plan.dst;
  if (got.is_null()) return "no array";
  if (got.shape() != dst.local_shape(*dst.mesh().coord_of(rank))) return "another shape";
  if (got.dtype() != dst.dtype()) return "another dtype";
  const Array wanted = Array::from_values(got.shape(), got.dtype(), found->second);
  const Local values = got.to_vector(), wanted_values = wanted.to_vector();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::bit_cast<std::uint64_t>(values[i]) != std::bit_cast<std::uint64_t>(wanted_values[i])) {
      return "local element " + std::to_string(i) + " is " + std::to_string(values[i]) + ", not " +
             std::to_string(wanted_values[i]);
    }
  }
  return "";
}

/// Runs every pair on ranks; what they found wrong.
inline std::vector<std::string> flaws_of(int num_ranks, const std::vector<Expected>& all) {
  const auto body = [&](World& world) {
    std::vector<std::string> flaws;
    for (const Expected& expected : all) {
      const Array local = testing::on_world(world, array_before(expected, world.rank()));
      const std::int64_t logged = world.events().bytes_received();
      const Array result = execute(world, expected.plan, local);
      std::string flaw =
          flaw_of(expected, world.rank(), result.is_null() ? result : to_host(result));
      const std::int64_t received = world.events().bytes_received() - logged;
      if (flaw.empty() && received != bytes_received(expected.plan, world.rank())) {
        flaw = "the log says " + std::to_string(received) + " bytes";
      }
      if (flaw.empty()) continue;
      flaws.push_back("rank " + std::to_string(world.rank()) + ", " +
                      expected.plan.src.to_string() + " to " + expected.plan.dst.to_string() +
                      ": " + flaw);
    }
    return flaws;
  };
  std::vector<std::string> flaws;
  for (auto& each : testing::results_of(num_ranks, {}, body).value()) {
    flaws.insert(flaws.end(), each.begin(), each.end());
  }
  return flaws;
}

}  // namespace tessera::judge
