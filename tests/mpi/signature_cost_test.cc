// What the comparison of calls costs on MPI, in messages: MPI_Isend, through which all messages of
// calls go, is counted.
#include <mpi.h>

#include <array>
#include <atomic>
#include <functional>

#include "runtime/mpi_world.h"
#include "tests/mpi/on_all.h"
#include "tests/runtime/ranks.h"

namespace {

std::atomic<int> num_sent{0};

}  // namespace

extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag,
                         MPI_Comm comm, MPI_Request* request) {
  ++num_sent;
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}

namespace tessera {
namespace {

using testing::on_all;

using Call = std::function<void(Communicator&)>;

Array sixteen() { return Array::empty({16}, DType::kF32); }

// A barrier, which consists of what others compare; calls of the group; a message between two
// ranks.
std::vector<Call> calls() {
  return {
      [](Communicator& group) { group.barrier(); },
      [](Communicator& group) { group.all_reduce(sixteen(), sixteen(), ReduceOp::kSum); },
      [](Communicator& group) { group.broadcast(sixteen(), 0); },
      [](Communicator& group) {
        group.all_gather(sixteen(), Array::empty({16 * group.size()}, DType::kF32));
      },
      [](Communicator& group) {
        const std::vector<std::int64_t> each(static_cast<std::size_t>(group.size()), 16);
        const Array all = Array::empty({16 * group.size()}, DType::kF32);
        group.all_to_all(all, Array::empty({16 * group.size()}, DType::kF32), each, each);
      },
      [](Communicator& group) {
        if (group.rank() == 0) group.send(sixteen(), 1);
        if (group.rank() == 1) group.recv(sixteen(), 0);
      },
  };
}

/// What this process sends in each of calls().
std::vector<int> messages(CallChecks checks) {
  std::vector<int> sent;
  const MpiOptions options{.world = {.threads_per_rank = 1, .checks = checks}};
  throw_if_error(run_mpi_rank(options, [&](World& world) {
    for (const Call& call : calls()) {
      const int before = num_sent;
      call(everyone(world));
      sent.push_back(num_sent - before);
    }
  }));
  return sent;
}

}  // namespace

TEST_CASE("comparing a call takes one message to each who is in it, none where it is off",
          "[mpi][R3]") {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const std::vector<int> off = messages(CallChecks::kOff), on = messages(CallChecks::kOn);
  std::vector<int> expected = off;
  expected[0] = size - 1;  // in place of a barrier's own
  for (std::size_t i = 1; i + 1 < expected.size(); ++i) expected[i] += size - 1;
  expected.back() += rank < 2 ? 1 : 0;
  CAPTURE(rank, off, on);
  CHECK(on_all(on == expected));
  CHECK(on_all(off[1] > 0));  // what is counted is what is sent
}

}  // namespace tessera
