// runtime/mpi/clock.h: one zero of time for the processes of a job, so that their events compare.
#pragma once

#include <mpi.h>

#include <chrono>

#include "placement/status.h"
#include "runtime/control/channel.h"

namespace tessera {

struct AgreedStart {
  std::chrono::steady_clock::time_point zero;  ///< by this process's clock
  std::chrono::nanoseconds most_error{0};      ///< which `zero` is off by at most
};
/// When rank 0 called this. Exact for processes that share rank 0's clock (one host, one boot, one
/// time namespace); others find it by 32 round trips to rank 0, off by at most half of the
/// shortest. Collective: yes, over `comm`.
StatusOr<AgreedStart> agree_on_start(MPI_Comm comm, const ExchangeTexts& exchange);

}  // namespace tessera
