// Collectives on processes: messages in pieces, calls that are not compared, groups that overlap.
#include <mpi.h>

#include <cstring>
#include <ctime>
#include <numeric>
#include <thread>

#include "runtime/mpi_world.h"
#include "tests/mpi/on_all.h"
#include "tests/runtime/ranks.h"

namespace tessera {
namespace {

using testing::contains;
using testing::on_all;
using Rows = std::vector<std::int64_t>;

Array counted(const Shape& shape, std::int64_t first) {
  Array array = Array::empty(shape, DType::kI64);
  std::iota(array.data<std::int64_t>(), array.data<std::int64_t>() + array.num_elements(), first);
  return array;
}
bool holds(const Array& array, const std::function<std::int64_t(std::int64_t)>& expected) {
  for (std::int64_t i = 0; i < array.num_elements(); ++i) {
    if (array.data<std::int64_t>()[i] != expected(i)) return false;
  }
  return true;
}

// Every kind of call once, on `n` elements a rank; what went wrong, or "".
std::string run_all_kinds(World& world, std::int64_t n) {
  Communicator& group = everyone(world);
  const std::int64_t p = group.size(), self = group.rank();
  const std::int64_t ranks_sum = p * (p - 1) / 2;
  const Rows each(static_cast<std::size_t>(p), n);
  std::string wrong;
  const auto expect = [&](bool right, const char* what) {
    if (!right) wrong += std::string(what) + " ";
  };
  const Array own = counted({n}, 1000 * self);
  const Array reduced = Array::empty({n}, DType::kI64);
  group.all_reduce(own, reduced, ReduceOp::kSum);
  expect(holds(reduced, [&](std::int64_t i) { return p * i + 1000 * ranks_sum; }), "all_reduce");
  const Array gathered = Array::empty({p * n}, DType::kI64);
  group.all_gather(own, gathered);
  expect(holds(gathered, [&](std::int64_t i) { return 1000 * (i / n) + i % n; }), "all_gather");
  const Array scattered = Array::empty({n}, DType::kI64);
  group.reduce_scatter(gathered, scattered, ReduceOp::kMax);
  expect(holds(scattered, [&](std::int64_t i) { return 1000 * self + i; }), "reduce_scatter");
  const Array exchanged = Array::empty({p * n}, DType::kI64);
  group.all_to_all(counted({p * n}, 1000 * self), exchanged, each, each);
  expect(holds(exchanged, [&](std::int64_t i) { return 1000 * (i / n) + self * n + i % n; }),
         "all_to_all");
  const Array shared = counted({n}, 1000 * self);
  group.broadcast(shared, static_cast<int>(p - 1));
  expect(holds(shared, [&](std::int64_t i) { return 1000 * (p - 1) + i; }), "broadcast");
  const Array came = Array::empty({n}, DType::kI64);
  const auto sent = group.send_async(own, static_cast<int>((self + 1) % p));
  group.recv(came, static_cast<int>((self + p - 1) % p));
  sent->wait();
  expect(holds(came, [&](std::int64_t i) { return 1000 * ((self + p - 1) % p) + i; }), "send");
  group.barrier();
  return wrong;
}

}  // namespace

TEST_CASE("messages longer than MPI's counts go in pieces", "[mpi][calls]") {
  const std::int64_t limit = GENERATE(1, 7);
  const CallChecks checks = GENERATE(CallChecks::kOff, CallChecks::kOn);
  for (const std::int64_t n : {0, 1, 6, 7, 8, 14, 500}) {
    if (n > 100 * limit) continue;  // thousands of messages
    std::string wrong;
    const Status status = run_mpi_rank(
        {.world = {.threads_per_rank = 1, .checks = checks}, .max_message_elements = limit},
        [&](World& world) { wrong = run_all_kinds(world, n); });
    CAPTURE(limit, n, wrong, status.ToString());
    CHECK(on_all(status.ok() && wrong.empty()));
  }
}

TEST_CASE("calls that are not compared give the same values", "[mpi][calls]") {
  for (const std::int64_t n : {1, 1000, 100'000}) {
    std::string wrong;
    const Status status = run_mpi_rank({.world = {.threads_per_rank = 1}},
                                       [&](World& world) { wrong = run_all_kinds(world, n); });
    CAPTURE(n, wrong, status.ToString());
    CHECK(on_all(status.ok() && wrong.empty()));
  }
}

TEST_CASE("a message of another size is an error even where calls are not compared",
          "[mpi][calls]") {
  const std::int64_t odd = GENERATE(3, 5);
  Status own;
  const Status status = run_mpi_rank({.world = {.threads_per_rank = 1}}, [&](World& world) {
    const std::int64_t n = world.rank() == 0 ? odd : 4;
    const Array in = Array::zeros({n}, DType::kF32);
    try {
      everyone(world).all_reduce(in, in, ReduceOp::kSum);
      everyone(world).barrier();
    } catch (const Error& error) {
      own = error.status();
      throw;
    }
  });
  CAPTURE(odd, status.ToString(), own.ToString());
  CHECK(on_all(!status.ok() && !own.ok() && contains(status, "checks on")));
}

TEST_CASE("groups that overlap and wait for one another are told so", "[mpi][calls]") {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size < 3) return;
  const auto start = std::chrono::steady_clock::now();
  // A ring of pairs: each rank waits in a group that its neighbour has not come to.
  const Status status = run_mpi_rank(
      {.world = {.threads_per_rank = 1, .checks = CallChecks::kOn}}, [&](World& world) {
        const Rows pair = {world.rank(), (world.rank() + 1) % world.size()};
        value_or_throw(world.group(pair))->barrier();
      });
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  CAPTURE(status.ToString(), seconds);
  CHECK(on_all(status.code() == absl::StatusCode::kFailedPrecondition));
  CHECK(on_all(contains(status, "no rank can go on: rank 0 waits in barrier #0") &&
               contains(status, "[group of ranks [0, 1]]")));
  CHECK(on_all(seconds < testing::kSoonSeconds));
}

TEST_CASE("waiting for a late rank leaves the core to others", "[mpi][calls]") {
  double cpu_share = 1;
  const Status status = run_mpi_rank({.world = {.threads_per_rank = 1}}, [&](World& world) {
    Communicator& group = everyone(world);
    group.barrier();
    timespec cpu_before{}, cpu_after{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_before);
    const double before = world.now_us();
    if (world.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1000));
    group.barrier();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_after);
    const double cpu_us = static_cast<double>(cpu_after.tv_sec - cpu_before.tv_sec) * 1e6 +
                          static_cast<double>(cpu_after.tv_nsec - cpu_before.tv_nsec) * 1e-3;
    cpu_share = cpu_us / (world.now_us() - before);
  });
  CAPTURE(cpu_share);
  CHECK(on_all(status.ok() && cpu_share < 0.25));
}

TEST_CASE("a broadcast of more than two to the 31 bytes arrives", "[mpi][calls][.deep]") {
  const std::int64_t bytes = (std::int64_t{1} << 31) + 64 * 1024 * 1024 + 3;
  std::string wrong;
  const Status status = run_mpi_rank({.world = {.threads_per_rank = 1}}, [&](World& world) {
    if (world.size() > 2) return;  // memory
    const Array array = Array::empty({bytes}, DType::kBool);
    const int pattern = world.rank() == 0 ? 1 : 0;
    std::memset(array.bytes(), pattern, static_cast<std::size_t>(bytes));
    everyone(world).broadcast(array, 0);
    for (std::int64_t i = 0; i < bytes; ++i) {
      if (array.bytes()[i] == std::byte{1}) continue;
      wrong = "byte " + std::to_string(i);
      break;
    }
  });
  CAPTURE(status.ToString(), wrong);
  CHECK(on_all(status.ok() && wrong.empty()));
}

}  // namespace tessera
