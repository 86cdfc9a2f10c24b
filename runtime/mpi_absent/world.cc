// The MPI backend of a build without MPI.
#include "runtime/mpi_world.h"

namespace tessera {
namespace {

Status without_mpi() {
  return unimplemented(
      "this build has no MPI backend: install an MPI (Debian: libopenmpi-dev openmpi-bin) and "
      "configure with -DTESSERA_WITH_MPI=ON");
}

}  // namespace

StatusOr<std::unique_ptr<MpiSession>> MpiSession::start() { return without_mpi(); }
StatusOr<std::unique_ptr<World>> make_mpi_world(const MpiOptions&) { return without_mpi(); }
Status run_mpi_rank(const MpiOptions&, const std::function<void(World&)>&) { return without_mpi(); }

}  // namespace tessera
