// benchmarks/mpi_moe_dispatchers.cc: forward passes under each dispatcher on 4 processes of one
// host, which read each other's memory. Start it with `mpirun -n 4`.
#include "benchmarks/dispatch_pass.h"
#include "runtime/mpi_world.h"

int main() {
  using namespace tessera;
  const auto session = value_or_throw(MpiSession::start());
  const Status status = run_mpi_rank({.world = {.threads_per_rank = 1}}, [](World& world) {
    if (world.size() != 4) {
      throw Error(invalid_argument("bench_mpi_moe_dispatchers: start it on 4 processes"));
    }
    bench::print_measured(world);
  });
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(message_of(status)).c_str());
  session->abort(1);
}
