// Ranks as child processes of this one.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/world.h"

struct ProcessRun {
  tessera::Status first;             ///< the first failure of any rank, or OK
  std::vector<std::string> reports;  ///< what each rank's body has left, by rank
  double seconds = 0;                ///< of the slowest rank
};
/// Starts `num_ranks` processes over the socket transport and waits for them. This process is no
/// rank, and has no other thread by then.
ProcessRun run_processes(int num_ranks, const tessera::WorldOptions& options,
                         const std::function<void(tessera::World&, std::string& report)>& body);
