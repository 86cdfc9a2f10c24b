// A program that initialises MPI itself and lends Tessera a communicator of its own: a product
// whose contracted dim is cut over the processes, and who received how much for it.
//   mpirun -n 4 mpi_hello
#include <mpi.h>

#include <cstdio>
#include <string>
#include <vector>

#include "dtensor/ops.h"
#include "runtime/mpi_world.h"

using namespace tessera;

namespace {

/// x[i][k] = i + k, and w[k][j] = k − j.
Array values(std::int64_t rows, std::int64_t columns, double sign) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      out.push_back(static_cast<double>(i) + sign * static_cast<double>(j));
    }
  }
  return Array::from_values({rows, columns}, DType::kF64, out);
}

/// What one rank holds and got.
struct Report {
  std::int64_t process, columns, rows, bytes_received;
};

/// Every rank's DTensors and events belong to its own World.
void multiply(World& world, MPI_Comm comm) {
  Runtime runtime(world);
  const Mesh mesh = value_or_throw(Mesh::make(ShapeView(Shape{world.size()}), {"tp"}));
  const DTensor x = distribute(runtime, values(3, 10, 1.0), mesh, Placements{Shard{1}});
  const DTensor w = distribute(runtime, values(10, 2, -1.0), mesh, Placements{Shard{0}});
  const DTensor y = matmul(x, w);
  const DTensor rows = redistribute(y, {Shard{0}});  // summands meet where they are wanted

  // The program's own messages go on as before: Tessera's travel on a duplicate of the
  // communicator.
  int process = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &process);
  const Report mine = {process, x.local().size(1), rows.local().size(0),
                       runtime.events().bytes_received()};
  std::vector<Report> all(static_cast<std::size_t>(world.size()));
  MPI_Gather(&mine, sizeof(Report), MPI_BYTE, all.data(), sizeof(Report), MPI_BYTE, 0, comm);
  const std::vector<double> whole = full_tensor(rows).to_vector();
  if (world.rank() != 0) return;

  std::printf("x %s\nw %s\ny %s\n", x.spec().to_string().c_str(), w.spec().to_string().c_str(),
              y.spec().to_string().c_str());
  for (std::size_t i = 0; i < 3; ++i) std::printf("  %g %g\n", whole[2 * i], whole[2 * i + 1]);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::printf(
        "rank %zu, process %lld: %lld columns of x, %lld rows of the result, %lld bytes received\n",
        rank, static_cast<long long>(all[rank].process), static_cast<long long>(all[rank].columns),
        static_cast<long long>(all[rank].rows), static_cast<long long>(all[rank].bytes_received));
  }
}

}  // namespace

int main(int argc, char** argv) {
  // Tessera calls MPI from this thread only, but other threads exist beside it.
  int provided = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm mine = MPI_COMM_NULL;  // the same processes in another order: 0, 3, 2, 1
  MPI_Comm_split(MPI_COMM_WORLD, /*color=*/0, /*key=*/(size - rank) % size, &mine);

  const Status status =
      run_mpi_rank({.comm = MPI_Comm_c2f(mine)}, [&](World& world) { multiply(world, mine); });
  if (!status.ok()) {
    std::fprintf(stderr, "mpi_hello: %s\n", std::string(message_of(status)).c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);  // a rank may be dead: finalising would wait for it
  }
  MPI_Comm_free(&mine);
  MPI_Finalize();
}
