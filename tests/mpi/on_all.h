// tests/mpi/on_all.h: one verdict of all processes of this mpirun.
#pragma once

#include <mpi.h>

namespace tessera::testing {

/// Equal on all processes: whether it holds on every one. Collective over MPI_COMM_WORLD.
inline bool on_all(bool holds) {
  int own = holds ? 1 : 0, all = 0;
  MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  return all == 1;
}

}  // namespace tessera::testing
