// tests/simulation/job.h: a program run by all ranks of a simulation with one thing that goes
// wrong, or nothing, and the verdict on how it ended: the right values on all ranks, or one error
// on all that live that names the rank at fault.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/world.h"
#include "tests/simulation/program.h"
#include "tests/simulation/simulation.h"

namespace tessera::seeded {

enum class Backend : std::uint8_t { kThreads, kMessages };

enum class Fault : std::uint8_t {
  kNone,
  kThrow,         ///< a rank throws before an action
  kReturn,        ///< a rank returns before an action
  kOtherCall,     ///< a rank makes another call than its group
  kLate,          ///< a rank is late, but within the limit
  kAway,          ///< a rank stays away for longer than the limit
  kAllocation,    ///< a rank's k-th allocation fails
  kDisk,          ///< the folder's k-th call fails, or writes fail from there on
  kKilled,        ///< a process dies at a step (kMessages)
  kKilledAtDisk,  ///< a process dies as it calls the folder (kMessages)
  kStopped,       ///< a process stands still for longer than the limit (kMessages)
  kPaused         ///< a process stands still, within the limit (kMessages)
};
constexpr int kNumFaults = 12;
std::string_view name_of(Fault fault) noexcept;

/// All that is drawn before a run.
struct Plan {
  std::uint64_t schedule = 0;  ///< the simulation's seed
  Backend backend = Backend::kThreads;
  Program program;
  Fault fault = Fault::kNone;
  int rank = 0;            ///< at fault
  std::size_t action = 0;  ///< kThrow … kAway: before it
  std::uint64_t count =
      0;  ///< kAllocation, kDisk, kKilledAtDisk: which one; kKilled … kPaused: at which step
  bool full = false;        ///< kDisk: from then on no writes
  int disk_error = 0;       ///< an errno
  std::uint64_t crash = 0;  ///< draws what a crash of the machine leaves of the folder
};
/// Of a seed alone.
Plan make_plan(std::uint64_t seed);

struct Outcome {
  std::string flaw;       ///< "" where all is as it should be
  Status first;           ///< what the job ended with
  bool happened = false;  ///< the fault came about
  std::uint64_t trace_hash = 0;
  std::uint64_t values_hash = 0;      ///< of what all ranks found, bit by bit
  std::uint64_t num_allocations = 0;  ///< of the rank at fault
  std::uint64_t num_steps = 0;
  std::vector<std::string> trace;
};
Outcome run_plan(const Plan& plan, Simulation::Trace trace = Simulation::Trace::kHash);

}  // namespace tessera::seeded
