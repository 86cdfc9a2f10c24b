// A communicator and a stream that a user has already, by which the whole world's collectives go.
// NCCL is emulated.
#include <atomic>
#include <thread>

#include "devices/devices.h"
#include "devices/nccl/ranks.h"
#include "emulation/nccl.h"
#include "kernels/peer_rows.h"
#include "testing/arrays.h"
#include "tests/support/on_world.h"
#include "tests/support/patience.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;

/// Communicators of cards 0, 1, … and a stream of each, as a program has them that uses NCCL by
/// itself.
class UsersNccl {
 public:
  explicit UsersNccl(int num_ranks) : handles_(static_cast<std::size_t>(num_ranks)) {
    ncclUniqueId id;
    REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
    std::vector<ncclComm_t> comms(handles_.size());
    std::vector<cudaStream_t> streams(handles_.size());
    std::atomic<int> num_wrong{0};
    on_all([&](int rank) {
      const auto at = static_cast<std::size_t>(rank);
      if (ncclCommInitRankConfig(&comms[at], num_ranks, id, rank, nullptr) != ncclSuccess ||
          cudaStreamCreateWithFlags(&streams[at], cudaStreamNonBlocking) != cudaSuccess) {
        ++num_wrong;
      }
      handles_[at] = {comms[at], streams[at]};
    });
    REQUIRE(num_wrong == 0);
  }
  UsersNccl(const UsersNccl&) = delete;
  UsersNccl& operator=(const UsersNccl&) = delete;
  ~UsersNccl() {
    on_all([&](int rank) {
      static_cast<void>(ncclCommAbort(comm(rank)));
      static_cast<void>(cudaStreamDestroy(stream(rank)));
    });
  }
  NcclHandles of(std::int64_t rank) const { return handles_[static_cast<std::size_t>(rank)]; }
  ncclComm_t comm(int rank) const { return static_cast<ncclComm_t>(of(rank).comm); }
  cudaStream_t stream(int rank) const { return static_cast<cudaStream_t>(of(rank).stream); }

  /// Each rank's sum of all ranks' numbers from 1, by the user's own call.
  std::vector<double> sums() {
    std::vector<double> sums(handles_.size());
    on_all([&](int rank) {
      const double own = rank + 1;
      void* value = nullptr;
      if (cudaMalloc(&value, sizeof own) != cudaSuccess) return;
      static_cast<void>(
          cudaMemcpyAsync(value, &own, sizeof own, cudaMemcpyHostToDevice, stream(rank)));
      static_cast<void>(
          ncclAllReduce(value, value, 1, ncclFloat64, ncclSum, comm(rank), stream(rank)));
      static_cast<void>(cudaMemcpyAsync(&sums[static_cast<std::size_t>(rank)], value, sizeof own,
                                        cudaMemcpyDeviceToHost, stream(rank)));
      static_cast<void>(cudaStreamSynchronize(stream(rank)));
      static_cast<void>(cudaFree(value));
    });
    return sums;
  }

 private:
  void on_all(const std::function<void(int rank)>& f) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < static_cast<int>(handles_.size()); ++rank) {
      threads.emplace_back([&f, rank] {
        static_cast<void>(cudaSetDevice(rank));
        f(rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::vector<NcclHandles> handles_;
};

Status run(int num_ranks, const std::function<NcclHandles(std::int64_t)>& handles,
           const std::function<void(World&)>& body) {
  return run_nccl_ranks_on(DeviceId::Kind::kEmulated, num_ranks,
                           {.world = {.timeout = milliseconds(20'000)}, .handles = handles}, body);
}

std::vector<double> sum_of_ones(World& world, Communicator& group) {
  const Array ones =
      testing::on_world(world, Array::from_values({3}, DType::kF32, std::vector<double>{1, 1, 1}));
  group.all_reduce(ones, ones, ReduceOp::kSum);
  return testing::values_here(ones);
}

Communicator& pair_of(World& world) {
  const std::int64_t first = world.rank() / 2 * 2;
  return *value_or_throw(world.group(std::vector<std::int64_t>{first, first + 1}));
}

bool says(const Status& status, std::string_view text) {
  return message_of(status).find(text) != std::string_view::npos;
}

}  // namespace

TEST_CASE("a user's communicator moves what all ranks call, others are made when called",
          "[nccl][handles]") {
  UsersNccl users(4);
  const int before = num_nccl_comms_made();
  std::vector<std::vector<double>> all(4), pairs(4);
  std::vector<int> made_by_then(4);
  const Status status = run(
      4, [&](std::int64_t rank) { return users.of(rank); },
      [&](World& world) {
        const auto at = static_cast<std::size_t>(world.rank());
        Communicator& pair = pair_of(world);  // no call yet
        all[at] = sum_of_ones(world, everyone(world));
        everyone(world).barrier();
        made_by_then[at] = num_nccl_comms_made();
        everyone(world).barrier();
        pairs[at] = sum_of_ones(world, pair);
      });
  REQUIRE(status == absl::OkStatus());
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    CHECK(all[rank] == std::vector<double>{4, 4, 4});
    CHECK(pairs[rank] == std::vector<double>{2, 2, 2});
    CHECK(made_by_then[rank] == before);
  }
  CHECK(num_nccl_comms_made() == before + 4);  // of two pairs
  // It is still the user's, who goes on with it.
  CHECK(users.sums() == std::vector<double>{10, 10, 10, 10});
}

TEST_CASE("a user's communicator, which blocks, has windows as long as the run lasts",
          "[nccl][handles][windows]") {
  UsersNccl users(3);
  const bool fails = GENERATE(false, true);
  std::vector<std::vector<double>> sums(3);
  const Status status = run(
      3, [&](std::int64_t rank) { return users.of(rank); },
      [&](World& world) {
        // Each rank's row goes to the next one, and comes back doubled.
        const auto next = static_cast<double>(kernels::peer_place((world.rank() + 1) % 3, 0));
        const auto here = [&](const Array& array) { return testing::on_world(world, array); };
        const std::vector<double> own(4, static_cast<double>(world.rank() + 1));
        const Array tokens = here(Array::from_values({1, 4}, DType::kF32, own)),
                    row = here(Array::zeros({1, 4}, DType::kF32));
        PeerRows rows{.place_TK = here(Array::from_values({1, 1}, DType::kI64, std::vector{next})),
                      .weights_TK = here(Array::from_values({1, 1}, DType::kF32, std::vector{2.}))};
        everyone(world).peer_rows_async(rows, tokens, row)->wait();
        rows.way = PeerRows::Way::kSum;
        if (fails && world.rank() == 1) throw Error(invalid_argument("no more"));
        everyone(world).peer_rows_async(rows, row, tokens)->wait();
        sums[static_cast<std::size_t>(world.rank())] = testing::values_here(tokens);
      });
  if (fails) {
    CHECK(status == invalid_argument("rank 1: no more"));
    return;
  }
  REQUIRE(status == absl::OkStatus());
  for (std::size_t rank = 0; rank < 3; ++rank) {
    CHECK(sums[rank] == std::vector<double>(4, 4.0 * static_cast<double>(rank + 1)));
  }
  CHECK(users.sums() == std::vector<double>{6, 6, 6});
}

TEST_CASE("a user's stream without a communicator takes the calls of one that is made",
          "[nccl][handles]") {
  UsersNccl users(2);
  const int before = num_nccl_comms_made();
  std::vector<std::vector<double>> all(2);
  const Status status = run(
      2, [&](std::int64_t rank) { return NcclHandles{.stream = users.of(rank).stream}; },
      [&](World& world) {
        all[static_cast<std::size_t>(world.rank())] = sum_of_ones(world, everyone(world));
      });
  REQUIRE(status == absl::OkStatus());
  CHECK(all == std::vector<std::vector<double>>{{2, 2, 2}, {2, 2, 2}});
  CHECK(num_nccl_comms_made() == before + 2);
}

TEST_CASE("a failed job revokes a user's communicator and leaves its end to the user",
          "[nccl][handles][faults]") {
  UsersNccl users(2);
  const auto start = std::chrono::steady_clock::now();
  const Status status = run(
      2, [&](std::int64_t rank) { return users.of(rank); },
      [&](World& world) {
        static_cast<void>(sum_of_ones(world, everyone(world)));
        if (world.rank() == 1) throw Error(invalid_argument("no more"));
        static_cast<void>(sum_of_ones(world, everyone(world)));
      });
  CHECK(status == invalid_argument("rank 1: no more"));
  CHECK(std::chrono::steady_clock::now() - start <
        std::chrono::duration<double>(testing::kSoonSeconds));
  void* value = nullptr;
  REQUIRE(cudaMalloc(&value, 8) == cudaSuccess);
  CHECK(ncclAllReduce(value, value, 1, ncclFloat64, ncclSum, users.comm(0), users.stream(0)) ==
        ncclInvalidUsage);
  CHECK(cudaFree(value) == cudaSuccess);
}

TEST_CASE("a communicator that is not the job's is refused on all ranks",
          "[nccl][handles][errors]") {
  UsersNccl three(3);
  UsersNccl two(2);
  bool ran = false;
  const auto start = [&](const std::function<NcclHandles(std::int64_t)>& handles) {
    return run(2, handles, [&](World&) { ran = true; });
  };
  CHECK(start([&](std::int64_t rank) { return three.of(rank); }) ==
        invalid_argument("rank 0: the ncclComm_t given says rank 0 of 3 on card 0, the job rank 0 "
                         "of 2 on card 0"));
  CHECK(start([&](std::int64_t rank) { return two.of(1 - rank); }) ==
        invalid_argument("rank 0: the ncclComm_t given says rank 1 of 2 on card 1, the job rank 0 "
                         "of 2 on card 0"));
  CHECK(start([&](std::int64_t rank) { return rank == 0 ? two.of(0) : NcclHandles{}; }) ==
        invalid_argument(
            "an ncclComm_t comes from rank 0, none from rank 1; allowed: from all or none"));
  const Status thrown = start([&](std::int64_t rank) -> NcclHandles {
    if (rank == 1) throw Error(unavailable("no NCCL of mine"));
    return two.of(0);
  });
  CHECK(says(thrown, "rank 1: no NCCL of mine"));
  CHECK_FALSE(ran);
}

TEST_CASE("more ranks than cards are refused by number", "[nccl][errors]") {
  bool ran = false;
  const Status status =
      run(num_devices(DeviceId::Kind::kEmulated) + 1, nullptr, [&](World&) { ran = true; });
  CHECK(says(status, ": NCCL takes one rank a card, and this host has "));
  CHECK(says(status, "rank " + std::to_string(num_devices(DeviceId::Kind::kEmulated))));
  CHECK_FALSE(ran);
}

}  // namespace tessera
