// Ranks are processes here: each adds its rank + 1 to a sum that all of them get.
#include <cstdio>

#include "runtime/mpi_world.h"

int main() {
  using namespace tessera;
  auto session = MpiSession::start();
  if (!session.ok()) return 1;
  const Status status = run_mpi_rank({}, [](World& world) {
    std::vector<std::int64_t> ranks;
    for (std::int64_t rank = 0; rank < world.size(); ++rank) ranks.push_back(rank);
    Communicator* all = value_or_throw(world.group(ranks));
    const double mine[] = {static_cast<double>(world.rank() + 1)};
    const Array sum = Array::from_values({1}, DType::kF64, mine);
    all->all_reduce(sum, sum, ReduceOp::kSum);
    std::printf("rank %lld of %lld: sum %g\n", static_cast<long long>(world.rank()),
                static_cast<long long>(world.size()), sum.to_vector()[0]);
  });
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(message_of(status)).c_str());
  (*session)->abort(1);
}
