// tests/support/launch_processes.h: ranks as processes of mpirun.
#pragma once

#include "tests/support/launch.h"

namespace tessera::testing {

Launched launch_processes(int num_ranks, const WorldOptions& options, const RankBody& body);

}  // namespace tessera::testing
