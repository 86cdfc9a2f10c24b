// What the NCCL backend gives a card and when, and what it says where NCCL, a card or a peer does
// not do its part. NCCL is emulated.
#include "emulation/nccl.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "tests/nccl/ranks_of_nccl.h"
#include "tests/support/patience.h"

namespace tessera {

using std::chrono::milliseconds;
using testing::Ended;
using testing::PlantedFault;
using testing::run;
using testing::says;
using testing::sum_and_read;

TEST_CASE("two ranks on one card are refused with what to do", "[nccl][errors]") {
  const Ended ended = run(2, {.allocator = testing::card_of([](std::int64_t) { return 0; })},
                          [](World& world) { sum_and_read(world, 1); });
  CAPTURE(ended.first.ToString());
  CHECK(ended.first.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(says(ended.first, "Duplicate GPU detected"));
  CHECK(says(ended.first,
             "NCCL takes one rank a card: give each rank its own, or use the threads "
             "backend"));
  CHECK(ended.seconds < testing::kSoonSeconds);
}

TEST_CASE("a rank whose arrays lie on the host ends the start on all", "[nccl][errors]") {
  const auto memory = [](std::int64_t rank) {
    return rank == 1 ? make_pool_allocator()
                     : value_or_throw(make_device_of_rank(DeviceId::Kind::kEmulated, rank))
                           ->make_allocator();
  };
  bool ran = false;
  const Ended ended = run(2, {.allocator = memory}, [&](World&) { ran = true; });
  CHECK_FALSE(ran);
  CHECK(
      ended.first ==
      invalid_argument("rank 1: the NCCL backend moves arrays of cards, this rank's lie on cpu:0; "
                       "give each rank memory of a card (WorldOptions::allocator)"));
}

TEST_CASE("a card that never comes to a call ends the job at the timeout", "[nccl][faults]") {
  const auto checks = GENERATE(CallChecks::kOff, CallChecks::kOn);
  const auto fault = GENERATE(emulation::NcclFault::kHangs, emulation::NcclFault::kOtherCount);
  const PlantedFault planted(1, fault, 3);
  const Ended ended = run(4, {.timeout = testing::kMissed, .checks = checks},
                          [](World& world) { sum_and_read(world, 6); });
  CAPTURE(ended.first.ToString());
  CHECK(ended.first.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(says(ended.first, "timed out in all_reduce #2 of F32 [2] on emulated:"));
  CHECK(says(ended.first, "tensor w (nccl/ranks_of_nccl.h:"));
  CHECK(says(ended.first, ": all arrived, NCCL has not moved all data"));
  for (const Status& status : ended.ranks) CHECK(status.code() == absl::StatusCode::kUnavailable);
  CHECK(ended.seconds < testing::kSoonSeconds);
}

TEST_CASE("what NCCL tells of later ends the job soon", "[nccl][faults]") {
  const PlantedFault planted(2, emulation::NcclFault::kFails, 2);
  const Ended ended =
      run(4, {.timeout = milliseconds(600'000)}, [](World& world) { sum_and_read(world, 6); });
  CAPTURE(ended.first.ToString());
  CHECK(ended.first.code() == absl::StatusCode::kUnavailable);
  CHECK(says(ended.first, "rank 2: NCCL: remote process exited or there was a network error"));
  CHECK(says(ended.first, ", in all_reduce #1 of F32 [2]"));
  for (const Status& status : ended.ranks) CHECK(status.code() == absl::StatusCode::kUnavailable);
  CHECK(ended.seconds < testing::kSoonSeconds);
}

TEST_CASE("what is not waited for holds no card up, as stages of a pipeline need it", "[nccl]") {
  const auto checks = GENERATE(CallChecks::kOff, CallChecks::kOn);
  std::vector<std::vector<double>> got(2);
  const Ended ended =
      run(2, {.timeout = milliseconds(20'000), .checks = checks}, [&](World& world) {
        Communicator& group = everyone(world);
        const auto holding = [&](double value) {
          return testing::on_world(
              world, Array::from_values({1}, DType::kF32, std::vector<double>{value}));
        };
        std::vector<std::shared_ptr<Work>> sent;
        std::vector<Array> taken = {holding(0), holding(0)};
        if (world.rank() == 0) {
          for (const double value : {1.0, 2.0}) sent.push_back(group.send_async(holding(value), 1));
          for (const Array& each : taken) group.recv(each, 1);
        } else {
          for (const Array& each : taken) {
            group.recv(each, 0);
            sent.push_back(group.send_async(each, 0));
          }
        }
        for (const auto& work : sent) work->wait();
        for (const Array& each : taken) {
          got[static_cast<std::size_t>(world.rank())].push_back(testing::values_here(each)[0]);
        }
      });
  CHECK(ended.first.ok());
  CHECK(got == std::vector<std::vector<double>>{{1, 2}, {1, 2}});
}

TEST_CASE("sums are folded in order of rank, or formed by NCCL where that is asked for", "[nccl]") {
  const auto reduce = GENERATE(ReduceBy::kOrdered, ReduceBy::kNative);
  const bool native = reduce == ReduceBy::kNative;
  const std::vector<double> summands = {1e8, 1, -1e8, 1};  // in F32 the order shows
  struct Got {
    std::vector<double> values;
    std::vector<bool> natively;
  };
  std::vector<Got> got(4);
  const Ended ended = run(4, {.reduce = reduce}, [&](World& world) {
    Communicator& group = everyone(world);
    const auto holding = [&](std::int64_t size, double value) {
      return testing::on_world(
          world, Array::from_values({size}, DType::kF32,
                                    std::vector<double>(static_cast<std::size_t>(size), value)));
    };
    const double own = summands[static_cast<std::size_t>(world.rank())];
    const Array sum = holding(1, own), most = holding(1, own), part = holding(1, 0);
    group.all_reduce(sum, sum, ReduceOp::kSum);
    group.all_reduce(most, most, ReduceOp::kMax);
    group.reduce_scatter(holding(4, own), part, ReduceOp::kAvg);
    Got& here = got[static_cast<std::size_t>(world.rank())];
    for (const Array& each : {sum, most, part}) {
      here.values.push_back(testing::values_here(each)[0]);
    }
    for (const tessera::Event& event : world.events().events()) {
      if (event.kind == tessera::Event::Kind::kCollective)
        here.natively.push_back(event.reduced_natively);
    }
  });
  CHECK(ended.first.ok());
  const double sum = native ? 0 : 1;  // NCCL emulated goes from the last rank down
  for (const Got& each : got) {
    CHECK(each.values == std::vector<double>{sum, 1e8, sum / 4});
    CHECK(each.natively == std::vector<bool>{native, false, native});
  }
}

// Emulated memory is the processor's.
TEST_CASE("more than two to the 31 elements arrive", "[nccl][.deep]") {
  const std::int64_t count = (std::int64_t{1} << 31) + 64 * 1024 * 1024 + 3;
  const auto filled = [](const World& world, std::int64_t elements, int value) {
    const Array array = Array::empty({elements}, DType::kBool, world.allocator());
    std::memset(array.bytes(), value, static_cast<std::size_t>(elements));
    return array;
  };
  const auto are_ones = [](const Array& array) {
    Device& device = array.device();
    device.synchronize(device.record(device.compute()));
    return std::all_of(array.bytes(), array.bytes() + array.num_elements(),
                       [](std::byte each) { return each == std::byte{1}; });
  };
  std::vector<int> right(2);
  const Ended ended = run(2, {}, [&](World& world) {
    Communicator& group = everyone(world);
    const bool gives = world.rank() == 0;
    const Array whole = filled(world, count, gives ? 1 : 0);
    group.broadcast(whole, 0);
    right[static_cast<std::size_t>(world.rank())] += are_ones(whole) ? 1 : 0;
    // Rank 0 keeps 5 rows of its own and sends the others.
    const std::int64_t sent = count - 5;
    const Array out = filled(world, gives ? 5 : sent, 0);
    const Array in = gives ? whole : Array::empty({0}, DType::kBool, world.allocator());
    using Rows = std::vector<std::int64_t>;
    group.all_to_all(in, out, gives ? Rows{5, sent} : Rows{0, 0},
                     gives ? Rows{5, 0} : Rows{sent, 0});
    right[static_cast<std::size_t>(world.rank())] += are_ones(out) ? 1 : 0;
  });
  CAPTURE(ended.first.ToString());
  CHECK(ended.first.ok());
  CHECK(right == std::vector<int>{2, 2});
}

TEST_CASE("a rank that throws frees those that wait for their cards", "[nccl][faults]") {
  const Ended ended = run(3, {.timeout = milliseconds(600'000)}, [](World& world) {
    sum_and_read(world, 1);
    if (world.rank() == 1) throw Error(invalid_argument("no such expert: 9"));
    sum_and_read(world, 1);  // unchecked: the device waits for a rank that does not come
    everyone(world).barrier();
  });
  CHECK(ended.first == invalid_argument("rank 1: no such expert: 9"));
  CHECK(ended.ranks[0] == unavailable("rank 1: no such expert: 9"));
  CHECK(ended.ranks[2] == unavailable("rank 1: no such expert: 9"));
  CHECK(ended.seconds < testing::kSoonSeconds);
}

}  // namespace tessera
