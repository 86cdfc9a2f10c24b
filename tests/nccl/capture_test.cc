// Captured work over NCCL emulated: each rank has a graph of its own, whose calls meet those of the
// others; what the watch says of a replay that does not end; what a capture refuses.
#include <atomic>
#include <chrono>

#include "runtime/world_capture.h"
#include "tests/nccl/ranks_of_nccl.h"
#include "tests/support/patience.h"

namespace tessera {

using std::chrono::milliseconds;
using testing::Ended;
using testing::PlantedFault;
using testing::run;
using testing::says;
using Values = std::vector<double>;

namespace {

Array holding(World& world, const Values& values) {
  return testing::on_world(
      world, Array::from_values({std::ssize(values)}, DType::kF32, std::span(values)));
}

void set(const Array& array, const Values& values) {
  const Array from = Array::from_values({std::ssize(values)}, DType::kF32, std::span(values));
  Device& device = array.device();
  device.upload(array.bytes(), from.bytes(), static_cast<std::size_t>(from.num_bytes()),
                device.compute());
}

/// Ranks whose captured work sums what they hold, as often as each of them says.
Ended sum_in_replays(int num_ranks, WorldOptions options,
                     const std::function<int(std::int64_t rank)>& times) {
  return run(num_ranks, options, [&](World& world) {
    const Array value = holding(world, {1, 2});
    const auto sum = [&] {
      everyone(world).all_reduce(value, value, ReduceOp::kSum, {.tensor = "w"});
    };
    sum();
    WorldCapture captured(world, sum);
    for (int i = 0; i < times(world.rank()); ++i) {
      captured.launch();
      static_cast<void>(testing::values_here(value));
    }
    everyone(world).barrier();
  });
}

}  // namespace

TEST_CASE("captured calls of every kind are done again with what is there then",
          "[nccl][capture]") {
  const auto checks = GENERATE(CallChecks::kOff, CallChecks::kOn);
  const int num_ranks = GENERATE(1, 2, 4);
  CAPTURE(num_ranks);
  std::vector<std::vector<Values>> got(static_cast<std::size_t>(num_ranks));
  const Ended ended = run(num_ranks, {.checks = checks}, [&](World& world) {
    const double own = static_cast<double>(world.rank());
    const Array given = holding(world, {0, 0, 0, 0}), sum = holding(world, {0, 0, 0, 0}),
                part = holding(world, Values(4 / static_cast<std::size_t>(num_ranks), 0)),
                all = holding(world, {0, 0, 0, 0}), first = holding(world, {0, 0, 0, 0}),
                passed = holding(world, {0, 0, 0, 0}), from_before = holding(world, {0, 0, 0, 0});
    const int next = (static_cast<int>(world.rank()) + 1) % num_ranks,
              before = (static_cast<int>(world.rank()) + num_ranks - 1) % num_ranks;
    Communicator& group = everyone(world);
    const auto calls = [&] {
      group.all_reduce(given, sum, ReduceOp::kSum);
      group.reduce_scatter(sum, part, ReduceOp::kMax);
      group.all_gather(part, all);
      Device& device = given.device();
      device.copy(first.bytes(), given.bytes(), static_cast<std::size_t>(given.num_bytes()),
                  device.compute());
      group.broadcast(first, 0);
      const std::vector<std::int64_t> rows(static_cast<std::size_t>(num_ranks), 4 / num_ranks);
      group.all_to_all(given, passed, rows, rows);
      const std::shared_ptr<Work> sent = group.send_async(passed, next);
      group.recv(from_before, before);
      return sent;
    };
    calls()->wait();
    WorldCapture captured(world, [&] { calls(); });  // nobody waits for what is sent
    for (double step = 1; step < 4; ++step) {
      set(given, {own, step, own * step, 1});
      captured.launch();
      std::vector<Values>& here = got[static_cast<std::size_t>(world.rank())];
      for (const Array* each : {&sum, &all, &first, &from_before}) {
        here.push_back(testing::values_here(*each));
      }
    }
  });
  CAPTURE(ended.first.ToString());
  REQUIRE(ended.first.ok());
  const double n = num_ranks, ranks_in_all = n * (n - 1) / 2;
  for (std::size_t rank = 0; rank < got.size(); ++rank) {
    for (double step = 1; step < 4; ++step) {
      const auto at = got[rank].begin() + 4 * (static_cast<std::ptrdiff_t>(step) - 1);
      const Values sum = {ranks_in_all, n * step, ranks_in_all * step, n};
      CHECK(at[0] == sum);
      CHECK(at[1] == sum);
      CHECK(at[2] == Values{0, step, 0, 1});
      // What the rank before got from each.
      const auto before = static_cast<std::int64_t>((rank + got.size() - 1) % got.size());
      Values passed;
      const std::int64_t rows = 4 / num_ranks;
      for (double from = 0; from < n; ++from) {
        const Values gave = {from, step, from * step, 1};
        passed.insert(passed.end(), gave.begin() + before * rows,
                      gave.begin() + (before + 1) * rows);
      }
      CHECK(at[3] == passed);
    }
  }
}

TEST_CASE("calls go between launches of captured work, on its communicators", "[nccl][capture]") {
  std::vector<Values> got(2);
  const Ended ended = run(2, {}, [&](World& world) {
    const Array value = holding(world, {1});
    const auto sum = [&] { everyone(world).all_reduce(value, value, ReduceOp::kSum); };
    sum();
    WorldCapture captured(world, sum);
    for (int i = 0; i < 3; ++i) {
      captured.launch();
      sum();
      captured.launch();
    }
    got[static_cast<std::size_t>(world.rank())] = testing::values_here(value);
  });
  CHECK(ended.first.ok());
  CHECK(got == std::vector<Values>{{1024}, {1024}});
}

TEST_CASE("a card that never comes to a call of a replay ends the job at the timeout",
          "[nccl][capture][faults]") {
  const auto checks = GENERATE(CallChecks::kOff, CallChecks::kOn);
  const auto fault = GENERATE(emulation::NcclFault::kHangs, emulation::NcclFault::kOtherCount);
  const PlantedFault planted(1, fault, 3);
  const Ended ended = sum_in_replays(4, {.timeout = testing::kMissed, .checks = checks},
                                     [](std::int64_t) { return 6; });
  CAPTURE(ended.first.ToString());
  CHECK(ended.first.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(says(ended.first,
             "timed out in launch 2 of captured work, which has 1 calls from "
             "all_reduce #1 of F32 [2] on emulated:"));
  CHECK(says(ended.first, "tensor w (nccl/capture_test.cc:"));
  CHECK(says(ended.first, ": it is not done"));
  for (const Status& status : ended.ranks) {
    CAPTURE(status.ToString());
    CHECK(status.code() == absl::StatusCode::kUnavailable);
  }
  CHECK(ended.seconds < testing::kSoonSeconds);
}

TEST_CASE("what NCCL tells of in a replay ends the job soon", "[nccl][capture][faults]") {
  const PlantedFault planted(2, emulation::NcclFault::kFails, 3);
  const Ended ended =
      sum_in_replays(4, {.timeout = milliseconds(600'000)}, [](std::int64_t) { return 6; });
  CAPTURE(ended.first.ToString());
  CHECK(ended.first.code() == absl::StatusCode::kUnavailable);
  CHECK(says(ended.first, "rank 2: NCCL: remote process exited or there was a network error"));
  CHECK(says(ended.first, ", in launch 2 of captured work, which has 1 calls"));
  for (const Status& status : ended.ranks) CHECK(status.code() == absl::StatusCode::kUnavailable);
  CHECK(ended.seconds < testing::kSoonSeconds);
}

TEST_CASE("a rank that throws between replays frees those whose cards wait for it",
          "[nccl][capture][faults]") {
  const Ended ended = sum_in_replays(3, {.timeout = milliseconds(600'000)}, [](std::int64_t rank) {
    static std::atomic<int> asked{0};
    if (rank == 1 && asked++ % 4 == 3) throw Error(invalid_argument("no such expert: 9"));
    return 6;
  });
  CAPTURE(ended.first.ToString());
  CHECK(ended.first == invalid_argument("rank 1: no such expert: 9"));
  CHECK(ended.ranks[0] == unavailable("rank 1: no such expert: 9"));
  CHECK(ended.ranks[2] == unavailable("rank 1: no such expert: 9"));
  CHECK(ended.seconds < testing::kSoonSeconds);
}

TEST_CASE("a rank that calls something else in place of a launch is named where calls are compared",
          "[nccl][capture][faults]") {
  const Ended ended =
      run(2, {.timeout = milliseconds(600'000), .checks = CallChecks::kOn}, [](World& world) {
        const Array value = holding(world, {1});
        const auto sum = [&] { everyone(world).all_reduce(value, value, ReduceOp::kSum); };
        sum();
        WorldCapture captured(world, sum);
        if (world.rank() == 0) return captured.launch();
        sum();
      });
  CAPTURE(ended.first.ToString());
  CHECK(ended.first.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(says(ended.first, "collective mismatch"));
  CHECK(ended.seconds < testing::kSoonSeconds);
}

TEST_CASE("a group's first call is not captured, and a host read neither",
          "[nccl][capture][errors]") {
  const bool reads = GENERATE(false, true);
  const Ended ended = run(2, {.timeout = milliseconds(600'000)}, [&](World& world) {
    const Array value = holding(world, {1});
    if (reads) everyone(world).all_reduce(value, value, ReduceOp::kSum);
    WorldCapture captured(world, [&] {
      everyone(world).all_reduce(value, value, ReduceOp::kSum);
      if (reads) value.device().synchronize(value.device().record(value.device().compute()));
    });
  });
  CAPTURE(ended.first.ToString());
  CHECK(ended.first.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(says(ended.first, reads ? "its work is captured, and nothing of it has been done"
                                : "capture: all_reduce #0 of F32 [1] on emulated:"));
  CHECK(says(ended.first, "run the work once by calls before it is captured") == !reads);
  CHECK(ended.seconds < testing::kSoonSeconds);
}

TEST_CASE("what a capture has used goes with it, and the world goes on", "[nccl][capture]") {
  std::vector<Values> got(2);
  const Ended ended = run(2, {}, [&](World& world) {
    const Array value = holding(world, {1});
    const auto sum = [&] { everyone(world).all_reduce(value, value, ReduceOp::kSum); };
    sum();
    for (int i = 0; i < 3; ++i) {
      WorldCapture captured(world, sum);
      captured.launch();
    }
    sum();
    got[static_cast<std::size_t>(world.rank())] = testing::values_here(value);
  });
  CHECK(ended.first.ok());
  CHECK(got == std::vector<Values>{{32}, {32}});
}

}  // namespace tessera
