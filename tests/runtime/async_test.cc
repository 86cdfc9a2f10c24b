#include <algorithm>
#include <thread>

#include "tests/runtime/ranks.h"

namespace tessera {
namespace {

using testing::complaints_of;
using testing::launch;
using testing::outcome_of;
using testing::results_of;
using Notes = std::vector<std::string>;

Array filled(std::int64_t size, double value) {
  return Array::from_values({size}, DType::kF64,
                            std::vector<double>(static_cast<std::size_t>(size), value));
}
bool is_filled(const Array& array, double value) {
  for (const double element : array.to_vector()) {
    if (element != value) return false;
  }
  return true;
}

/// Memory of doubles that tells what it held when the last array let go of it: "3 to 3".
class LastLook final : public Allocator {
 public:
  LastLook(std::int64_t size, std::string& report) : size_(size), report_(report) {}
  void* allocate(std::size_t bytes) override { return memory_->allocate(bytes); }
  void release(void* data, std::size_t bytes) noexcept override {
    const auto* values = static_cast<const double*>(data);
    const auto [least, most] = std::minmax_element(values, values + size_);
    report_ =
        std::to_string(static_cast<int>(*least)) + " to " + std::to_string(static_cast<int>(*most));
    memory_->release(data, bytes);
  }

 private:
  std::shared_ptr<Allocator> memory_ = plain_allocator();
  std::int64_t size_;
  std::string& report_;
};

}  // namespace

TEST_CASE("asynchronous calls may be waited for in any order, another on each rank",
          "[runtime][async]") {
  const int ranks = GENERATE(1, 2, 3, 4, 8);
  const std::int64_t size = GENERATE(0, 5, 40'000);
  CAPTURE(ranks, size);
  const auto wrong = complaints_of(ranks, [&](World& world, Notes& notes) {
    constexpr int kCalls = 6;
    Communicator& group = everyone(world);
    std::vector<Array> arrays;
    std::vector<std::shared_ptr<Work>> works;
    for (int i = 0; i < kCalls; ++i) {
      arrays.push_back(filled(size, i + 1));
      works.push_back(group.all_reduce_async(arrays.back(), arrays.back(), ReduceOp::kSum));
    }
    for (int i = 0; i < kCalls; ++i) {
      const auto at = static_cast<std::size_t>((i * 5 + world.rank()) % kCalls);
      works[at]->wait();
      works[at]->wait();  // a second time does nothing
      if (!is_filled(arrays[at], static_cast<double>(at + 1) * ranks)) notes.push_back("sum");
    }
  });
  CHECK(wrong == Notes{});
}

TEST_CASE("waits across groups do not need one order", "[runtime][async]") {
  const auto wrong = complaints_of(4, [](World& world, Notes& notes) {
    // A ring of pairs: each rank waits first for its right-hand pair, which waits for the next.
    const std::int64_t own = world.rank(), next = (own + 1) % 4, before = (own + 3) % 4;
    Communicator& right = *value_or_throw(world.group(std::vector<std::int64_t>{own, next}));
    Communicator& left = *value_or_throw(world.group(std::vector<std::int64_t>{before, own}));
    for (int repeat = 0; repeat < 20; ++repeat) {
      const Array a = filled(9000, 1), b = filled(9000, 2);
      const auto with_left = left.all_reduce_async(b, b, ReduceOp::kSum);
      const auto with_right = right.all_reduce_async(a, a, ReduceOp::kSum);
      with_right->wait();
      with_left->wait();
      // A pair's halves are one rank's `a` (1) and the other's `b` (2).
      if (!is_filled(a, 3) || !is_filled(b, 3)) notes.push_back("sum");
    }
  });
  CHECK(wrong == Notes{});
}

TEST_CASE("a handle that is dropped leaves its call to be finished", "[runtime][async]") {
  const std::int64_t size = GENERATE(5, 40'000);
  const testing::Launched launched = launch(4, {}, [&](World& world, std::string& report) {
    const Array data = Array::empty({size}, DType::kF64, std::make_shared<LastLook>(size, report));
    std::fill_n(data.data<double>(), size, static_cast<double>(world.rank()));
    everyone(world).all_reduce_async(data, data, ReduceOp::kSum);
  });
  CHECK(launched.first.ok());
  CHECK(launched.reports == std::vector<std::string>(4, "6 to 6"));
}

TEST_CASE("a handle dropped by an exception does not hold anyone up", "[runtime][async]") {
  const auto outcome = outcome_of(3, [](World& world) {
    const Array data = filled(40'000, 1);
    const auto work = everyone(world).all_reduce_async(data, data, ReduceOp::kSum);
    if (world.rank() == 1) throw Error(not_found("no shard"));
    work->wait();  // where all that it needs is there, it is not lost
    everyone(world).barrier();
  });
  CHECK(outcome.seconds < testing::kSoonSeconds);
  CHECK(outcome.first == not_found("rank 1: no shard"));
  CHECK(outcome.ranks[0] == unavailable("rank 1: no shard"));
}

TEST_CASE("an array that waits for its collective is ready after wait_ready", "[runtime][async]") {
  std::weak_ptr<Storage> storage;  // of this process
  const auto wrong = complaints_of(2, [&](World& world, Notes& notes) {
    const Array in = filled(3000, 2), out = filled(3000, 0);
    if (world.rank() == 0) storage = out.storage();
    const std::uint32_t version = out.storage()->version();
    out.storage()->set_ready(everyone(world).all_reduce_async(in, out, ReduceOp::kSum));
    out.storage()->wait_ready();
    if (!is_filled(out, 4)) notes.push_back("sum");
    if (out.storage()->version() == version) notes.push_back("the write is not counted");
  });
  CHECK(wrong == Notes{});
  CHECK(storage.expired());
}

TEST_CASE("sends and receives in flight both ways cross", "[runtime][async]") {
  const auto wrong = complaints_of(2, [](World& world, Notes& notes) {
    Communicator& group = everyone(world);
    const int peer = 1 - group.rank();
    for (const std::int64_t size : {3, 30'000}) {
      const Array received = filled(size, 7);
      const auto sending = group.send_async(filled(size, group.rank()), peer);
      group.recv_async(received, peer)->wait();
      sending->wait();
      if (!is_filled(received, peer)) notes.push_back("data");
    }
  });
  CHECK(wrong == Notes{});
}

TEST_CASE("a send to oneself arrives", "[runtime][async]") {
  const auto world = make_single_world();
  Communicator& group = everyone(*world);
  const auto sending = group.send_async(filled(8, 3), 0);
  const Array received = filled(8, 0);
  group.recv(received, 0);
  sending->wait();
  CHECK(is_filled(received, 3));
  CHECK(world->events().events().empty());
}

TEST_CASE("a call whose World is gone says so", "[runtime][async]") {
  std::shared_ptr<Work> work;
  {
    const auto world = make_single_world();
    work = everyone(*world).recv_async(filled(8, 3), 0);
  }
  CHECK_THROWS_WITH(work->wait(), "the World of this call is gone");
}

TEST_CASE("transfers are logged once each, with bytes, module and site", "[runtime][events]") {
  const auto logs =
      results_of(4, {}, [&](World& world) {
        Communicator& group = everyone(world);
        world.events().set_module("layers.0");
        const Array in = filled(10, 1);
        group.all_gather(in, filled(40, 0), {}, {.tensor = "w", .axes = "dp"});
        group.barrier();
        group.broadcast(filled(0, 0), 0);
        const std::string before = world.events().set_module("head");
        if (before != "layers.0") throw Error(internal_error("module was " + before));
        group.broadcast(in, 1, {.axes = "dp", .origin = Origin::kImplicit, .why = "mm: A"});
        group.broadcast(in, 1, {.axes = "dp", .origin = Origin::kImplicit, .why = "mm: A"});
        return std::pair{world.events().events(), world.events().totals()};
      }).value();
  const auto& [events, totals] = logs[2];
  REQUIRE(events.size() == 3);
  CHECK(events[0].name == "all_gather");
  CHECK(events[0].tensor == "w");
  CHECK(events[0].axes == "dp");
  CHECK(events[0].module == "layers.0");
  CHECK(events[0].bytes_received == 240);
  CHECK(events[0].bytes_sent == 240);
  CHECK(std::string_view(events[0].file).find("async_test.cc") != std::string_view::npos);
  CHECK(events[0].end_us >= events[0].start_us);
  CHECK(events[2].name == "broadcast");
  CHECK(events[2].origin == Origin::kImplicit);
  CHECK(events[2].why == "mm: A");
  CHECK(events[2].bytes_received == 80);
  REQUIRE(totals.size() == 2);
  CHECK(totals[0].module == "head");
  CHECK(totals[0].count == 2);
  CHECK(totals[0].bytes_received == 160);
  CHECK(totals[1].name == "all_gather");
}

TEST_CASE("a log that only sums up keeps its totals", "[runtime][events]") {
  EventLog log;
  const Event event{.name = "all_reduce", .axes = "tp", .bytes_received = 8};
  log.add(event);
  log.summarize_only();
  log.add(event);
  log.add({.kind = Event::Kind::kRedistribute, .name = "redistribute", .bytes_received = 16});
  CHECK(log.events().empty());
  REQUIRE(log.totals().size() == 2);
  CHECK(log.totals()[0].count == 2);
  CHECK(log.bytes_received() == 16);  // of collectives
  log.clear();
  CHECK(log.totals().empty());
  CHECK(log.bytes_received() == 0);
}

}  // namespace tessera
