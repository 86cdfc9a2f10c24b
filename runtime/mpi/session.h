// runtime/mpi/session.h: whether MPI is fit for use.
#pragma once

#include "placement/status.h"

namespace tessera {

/// OK where MPI is initialised, not finalised, lets other threads exist, and the calling thread may
/// call it. Errors: FailedPrecondition with the remedy.
Status check_mpi_is_usable();

}  // namespace tessera
