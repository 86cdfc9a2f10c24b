// runtime/mpi/clock.h: one zero of time for the processes of a job, so that their events compare.
#pragma once

#include <mpi.h>

#include <chrono>

#include "placement/status.h"
#include "runtime/control.h"

namespace tessera {

/// The time by this process's clock at which rank 0 called this. Exact for processes that share
/// rank 0's clock (one host, one boot, one time namespace); another's is found by 32 round trips
/// to rank 0 and off by at most half of the shortest. Collective: yes, over `comm`.
StatusOr<std::chrono::steady_clock::time_point> agree_on_start(MPI_Comm comm,
                                                               const ExchangeTexts& exchange);

}  // namespace tessera
