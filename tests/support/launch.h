// tests/support/launch.h: runs a body on every rank, as threads of this process or as processes of
// mpirun: what the program is linked with decides. Under mpirun every process runs the whole test
// program in step with the others; a launch is such a run. What ranks found comes back by value,
// the same to every process; what a body writes elsewhere stays with its own rank.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/world.h"
#include "tests/support/wire.h"

namespace tessera::testing {

enum class Backend : std::uint8_t { kThreads, kMpi };
Backend backend() noexcept;

/// Whether this launch runs worlds of so many ranks. Threads run all; of the launches that
/// TESSERA_LAUNCHES names ("2,3,4,8") each runs what fits into it and no smaller one, and all run
/// one rank. The program says at its end which it ran and which it left: scripts/check_launches.
bool runs_here(std::int64_t num_ranks);

/// What each rank reported, by rank, and what the run of all ranks returned.
struct Launched {
  Status first;
  std::vector<std::string> reports;
  double seconds = 0;  ///< of the slowest rank
};
/// Runs `body` on ranks 0 … num_ranks − 1. Calls are compared before data move on both backends.
/// Ends the test case (or this round of its generators) where runs_here(num_ranks) is false; call
/// it outside of CHECK(…), which would count that as a failure.
using RankBody = std::function<void(World&, std::string& report)>;
Launched launch(int num_ranks, const WorldOptions& options, const RankBody& body);

/// What each rank returned; empty where it threw.
template <class Result>
struct Results {
  Status first;
  std::vector<std::optional<Result>> ranks;

  /// Throws the Error of the first rank that failed.
  std::vector<Result> value() && {
    throw_if_error(first);
    std::vector<Result> values;
    for (std::optional<Result>& each : ranks) values.push_back(std::move(each).value());
    return values;
  }
};
template <class F>
auto results_of(int num_ranks, const WorldOptions& options, F&& body) {
  using Result = std::decay_t<std::invoke_result_t<F&, World&>>;
  const Launched launched = launch(num_ranks, options, [&](World& world, std::string& report) {
    report = encode(std::optional(body(world)));
  });
  Results<Result> results{launched.first, {}};
  for (const std::string& report : launched.reports) {
    results.ranks.push_back(report.empty() ? std::nullopt : decode<std::optional<Result>>(report));
  }
  return results;
}

}  // namespace tessera::testing
