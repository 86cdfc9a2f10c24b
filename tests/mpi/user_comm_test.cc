// Worlds on communicators that belong to somebody else, and what MPI must allow for one.
#include <arpa/inet.h>
#include <fcntl.h>
#include <mpi.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <numeric>
#include <thread>

#include "runtime/mpi_world.h"
#include "tests/mpi/on_all.h"
#include "tests/runtime/ranks.h"

namespace tessera {
namespace {

using testing::contains;
using testing::on_all;

/// The processes of this mpirun, in a communicator of the test's own.
class OwnComm {
 public:
  explicit OwnComm(int color = 0, int key = 0) {
    MPI_Comm_split(MPI_COMM_WORLD, color, key, &comm_);
    MPI_Comm_rank(comm_, &rank_);
    MPI_Comm_size(comm_, &size_);
  }
  ~OwnComm() { MPI_Comm_free(&comm_); }
  OwnComm(const OwnComm&) = delete;
  OwnComm& operator=(const OwnComm&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  MPI_Comm comm() const noexcept { return comm_; }
  MpiOptions options() const {
    return {.comm = MPI_Comm_c2f(comm_), .world = {.threads_per_rank = 1}};
  }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
};

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

double sum_of_ranks(World& world) {
  const Array value =
      Array::from_values({1}, DType::kF64, std::array{static_cast<double>(world.rank())});
  everyone(world).all_reduce(value, value, ReduceOp::kSum);
  return *value.data<double>();
}

}  // namespace

TEST_CASE("a caller's communicator numbers the ranks, and outlives the World", "[mpi][world]") {
  const OwnComm reversed(0, -world_rank());
  double sum = -1;
  const Status status =
      run_mpi_rank(reversed.options(), [&](World& world) { sum = sum_of_ranks(world); });
  CHECK(on_all(status.ok() && sum == reversed.size() * (reversed.size() - 1) / 2.0));
  // The caller's messages still work, and it is still the caller who frees it.
  int first = world_rank();
  MPI_Bcast(&first, 1, MPI_INT, 0, reversed.comm());
  CHECK(on_all(first == reversed.size() - 1));
}

TEST_CASE("messages of the caller and of the World do not meet", "[mpi][world]") {
  const OwnComm comm;
  int got = -1;
  const int next = (comm.rank() + 1) % comm.size();
  const int before = (comm.rank() + comm.size() - 1) % comm.size();
  MPI_Request requests[2];
  MPI_Irecv(&got, 1, MPI_INT, before, MPI_ANY_TAG, comm.comm(), &requests[0]);
  double sum = -1;
  const Status status =
      run_mpi_rank(comm.options(), [&](World& world) { sum = sum_of_ranks(world); });
  const int own = comm.rank();
  MPI_Isend(&own, 1, MPI_INT, next, 7, comm.comm(), &requests[1]);
  MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
  CHECK(on_all(status.ok() && got == before));
}

TEST_CASE("two worlds of one job live side by side", "[mpi][world]") {
  const OwnComm half(world_rank() % 2, 0);
  double sum = -1;
  const Status status =
      run_mpi_rank(half.options(), [&](World& world) { sum = sum_of_ranks(world); });
  CHECK(on_all(status.ok() && sum == half.size() * (half.size() - 1) / 2.0));
  // The same processes in two worlds at once.
  const auto a = make_mpi_world(half.options());
  const auto b = make_mpi_world(half.options());
  const bool made = a.ok() && b.ok();
  CHECK(on_all(made));
  if (made) CHECK(on_all(sum_of_ranks(**a) == sum_of_ranks(**b)));
}

TEST_CASE("many worlds after one another leave nothing behind", "[mpi][world]") {
#ifdef MPICH
  constexpr int kWorlds = 20;  // its own collectives spin where ranks outnumber cores
#else
  constexpr int kWorlds = 100;
#endif
  const OwnComm comm;
  const auto open_files = [] {
    int count = 0;
    for (int fd = 0; fd < 4096; ++fd) count += fcntl(fd, F_GETFD) != -1 ? 1 : 0;
    return count;
  };
  int before = 0;
  bool fine = true;
  for (int i = 0; i < kWorlds; ++i) {
    if (i == 3) before = open_files();
    fine = fine && run_mpi_rank(comm.options(), [](World& world) { sum_of_ranks(world); }).ok();
  }
  CHECK(on_all(fine));
  CHECK(on_all(open_files() == before));
}

TEST_CASE("a thread that may not call MPI is told which level it needs", "[mpi][world]") {
  int level = 0;
  MPI_Query_thread(&level);
  if (level != MPI_THREAD_FUNNELED) return;
  Status status;
  std::thread([&] { status = make_mpi_world().status(); }).join();
  CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(contains(status, "MPI_THREAD_SERIALIZED"));
}

TEST_CASE("a null communicator is refused", "[mpi][world]") {
  const Status status = make_mpi_world({.comm = MPI_Comm_c2f(MPI_COMM_NULL)}).status();
  CHECK(status == invalid_argument("make_mpi_world: the communicator is MPI_COMM_NULL"));
}

TEST_CASE("a control port that is taken is an error on every rank", "[mpi][world]") {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  REQUIRE(bind(listener, reinterpret_cast<sockaddr*>(&address), length) == 0);
  REQUIRE(listen(listener, 1) == 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  MpiOptions options = OwnComm().options();
  options.comm = std::nullopt;
  int port = ntohs(address.sin_port);  // rank 0's
  MPI_Bcast(&port, 1, MPI_INT, 0, MPI_COMM_WORLD);
  options.control.port = port;
  const Status status = make_mpi_world(options).status();
  close(listener);
  CAPTURE(status.ToString());
  CHECK(
      on_all(!status.ok() && contains(status, "rank 0") && contains(status, std::to_string(port))));
}

TEST_CASE("a mesh over ranks that do not exist is refused before anything moves", "[mpi][world]") {
  Status refused;
  const Status status = run_mpi_rank({.world = {.threads_per_rank = 1}}, [&](World& world) {
    const std::vector<std::int64_t> ranks = {world.rank(), world.size()};
    refused = world.group(ranks).status();
    everyone(world).barrier();
  });
  CHECK(on_all(status.ok()));
  CHECK(on_all(contains(refused, "must lie in [0, ")));
}

}  // namespace tessera
