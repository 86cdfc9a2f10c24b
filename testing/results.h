// testing/results.h: runs a body on every rank, as threads of this process or as processes of
// mpirun: what the program is linked with decides. Under mpirun every process runs the whole test
// program in step with the others; a launch is such a run, and of the launches that
// TESSERA_LAUNCHES names ("2,3,4,8") each runs what fits into it and no smaller one. The program
// says at its end which it ran and which it left: scripts/check_launches. What ranks found comes
// back by value, the same to every process; what a body writes elsewhere stays with its own rank.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "placement/api.h"
#include "testing/launch.h"
#include "testing/wire.h"

namespace tessera TSR_API {
namespace testing {

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

}  // namespace testing
}  // namespace tessera
