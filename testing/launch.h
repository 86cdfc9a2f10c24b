// testing/launch.h: how test cases get their ranks. tessera::testing defines the functions below
// for threads, tessera::testing_mpi for processes of mpirun. The author of a transport defines them
// for tessera::conformance, the suite of all transports (`examples/transport`), and has a program
// that takes Catch2's command line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "placement/api.h"
#include "runtime/world.h"

namespace tessera TSR_API {
namespace testing {

/// What ranks are: some error texts name more where they share memory.
enum class Backend : std::uint8_t { kThreads, kProcesses };
Backend backend() noexcept;

/// Whether this program runs worlds of so many ranks; cases of other sizes end early. The suite of
/// transports asks for 1, 2, 3, 4 and 8.
bool runs_here(std::int64_t num_ranks);

/// What each rank reported, by rank, and what the run of all ranks returned.
struct Launched {
  Status first;  ///< the first failure of any rank, "rank 3: …", or OK
  std::vector<std::string> reports;
  double seconds = 0;  ///< of the slowest rank
};
/// Runs `body` on ranks 0 … num_ranks − 1 as `options` say, and waits for all. Calls are compared
/// before data move, whatever options.checks says. A body that throws fails the run. Called outside
/// of CHECK(…), which would count a case that ends there as a failure.
using RankBody = std::function<void(World&, std::string& report)>;
Launched launch(int num_ranks, const WorldOptions& options, const RankBody& body);

}  // namespace testing
}  // namespace tessera
