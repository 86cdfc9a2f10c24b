// tests/mpi/fault_run.h: a fault that one rank of a training run meets with, see fault_run.cc.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace tessera::testing {

/// A rank of a run in which one is stopped waits so long for another; of other runs, a minute.
constexpr std::int64_t kFaultTimeoutMs = 5000;

/// kKillMoving: killed some time into a call, while ranks read one another's arrays. kKillSending:
/// the same while messages go from the memory of emulated devices. kLauncher: the rank kills its
/// parent, mpirun.
enum class FaultKind : std::uint8_t { kKill, kStop, kThrow, kKillMoving, kKillSending, kLauncher };

struct FaultPlan {
  std::string backend;  ///< threads or mpi
  int num_ranks = 4;
  FaultKind kind = FaultKind::kThrow;
  std::int64_t rank = 0;
  std::int64_t call = 0;    ///< of this rank, counted from 0 over all groups
  std::int64_t slowed = 0;  ///< ms that every other survivor takes to tell of its end
  std::string folder;
};

inline std::vector<std::int64_t> ranks_below(std::int64_t size) {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace tessera::testing
