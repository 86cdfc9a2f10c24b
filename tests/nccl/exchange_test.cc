// Exchanges over NCCL emulated keep to the cap of their packed messages, by rounds, or go through
// windows, with the bits of ranks as threads.
#include <algorithm>
#include <atomic>
#include <string>

#include "runtime/world_capture.h"
#include "tests/mpi/moves.h"
#include "tests/nccl/ranks_of_nccl.h"
#include "tests/support/patience.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;
using testing::Ended;
using testing::says;

/// Memory of a device, which keeps the sizes that its rank's thread asked for.
class WatchedMemory final : public Allocator {
 public:
  explicit WatchedMemory(std::shared_ptr<Allocator> inner) : inner_(std::move(inner)) {}
  void* allocate(std::size_t bytes) override {
    asked_.push_back(static_cast<std::int64_t>(bytes));
    return inner_->allocate(bytes);
  }
  void release(void* data, std::size_t bytes) noexcept override { inner_->release(data, bytes); }
  Device& device() const noexcept override { return inner_->device(); }
  std::vector<std::int64_t> asked() { return std::exchange(asked_, {}); }

 private:
  std::shared_ptr<Allocator> inner_;
  std::vector<std::int64_t> asked_;
};

/// The largest of the blocks that were asked for beside the arrays that the plan makes.
std::int64_t largest_buffer(std::vector<std::int64_t> asked, const Plan& plan, std::int64_t rank) {
  for (const PlanStep& step : plan.steps) {
    const Spec& spec = step.array_written();
    const auto coord = spec.mesh().coord_of(rank);
    if (!coord) continue;
    const std::int64_t bytes = num_elements(spec.local_shape(*coord)) * size_of(spec.dtype());
    const auto array = std::ranges::find(asked, bytes);
    if (array != asked.end()) asked.erase(array);
  }
  return asked.empty() ? 0 : *std::ranges::max_element(asked);
}

Array source_of(const Plan& plan, std::int64_t rank) {
  return testing::part_of(plan.src, rank, make_pool_allocator());
}

std::vector<std::vector<double>> on_threads(int num_ranks, const Plan& plan) {
  std::vector<std::vector<double>> got(static_cast<std::size_t>(num_ranks));
  throw_if_error(run_ranks(num_ranks, {}, [&](World& world) {
    got[static_cast<std::size_t>(world.rank())] =
        execute(world, plan, source_of(plan, world.rank())).to_vector();
  }));
  return got;
}

}  // namespace

TEST_CASE("exchanges keep to the cap of their buffers and have the bits of threads",
          "[nccl][exchange]") {
  const int num_ranks = GENERATE(2, 4);
  const std::int64_t least = least_pack_bytes(num_ranks);
  const std::int64_t cap = GENERATE_COPY(as<std::int64_t>{}, least, 5 * least + 100, 1 << 20);
  const DType dtype = GENERATE(DType::kF32, DType::kBF16);
  const auto checks = GENERATE(CallChecks::kOff, CallChecks::kOn);
  const auto by = GENERATE(ExchangeBy::kMessages, ExchangeBy::kWindows);
  for (const testing::Move& move : testing::moves_on(num_ranks)) {
    for (const Shape& shape : {Shape{37, 53}, Shape{130, 128}}) {
      const Plan plan = testing::plan_of(move, shape, dtype, cap);
      std::vector<std::vector<double>> got(static_cast<std::size_t>(num_ranks));
      std::vector<std::int64_t> largest(static_cast<std::size_t>(num_ranks));
      const auto memory = [](std::int64_t rank) {
        return std::make_shared<WatchedMemory>(
            value_or_throw(make_device_of_rank(DeviceId::Kind::kEmulated, rank))->make_allocator());
      };
      const Ended ended = testing::run_by(
          by, num_ranks, {.checks = checks, .allocator = memory}, [&](World& world) {
            const auto rank = static_cast<std::size_t>(world.rank());
            auto& watched = static_cast<WatchedMemory&>(*world.allocator());
            const Array local = testing::on_world(world, source_of(plan, world.rank()));
            watched.asked();
            const Array result = execute(world, plan, local);
            largest[rank] = largest_buffer(watched.asked(), plan, world.rank());
            got[rank] = testing::values_here(result);
          });
      CAPTURE(cap, plan.src.to_string(), plan.dst.to_string(), ended.first.ToString());
      CHECK(ended.first.ok());
      CHECK(got == on_threads(num_ranks, plan));
      for (const std::int64_t bytes : largest) CHECK(bytes <= cap);
    }
  }
}

namespace {

using Bucket = std::vector<std::vector<double>>;

Bucket moved_together(World& world, const std::vector<Plan>& plans) {
  std::vector<PlanProgram> programs;
  std::vector<Array> locals;
  for (const Plan& plan : plans) {
    programs.emplace_back(world, plan);
    locals.push_back(testing::on_world(world, source_of(plan, world.rank())));
  }
  Bucket values;
  for (const Array& each : execute_all(world, programs, locals)) {
    values.push_back(testing::values_here(each));
  }
  return values;
}

}  // namespace

TEST_CASE("buckets of parts that land and parts that fold go through in the same rounds",
          "[nccl][exchange]") {
  const std::int64_t cap =
      GENERATE(as<std::int64_t>{}, least_pack_bytes(4), 3 * least_pack_bytes(4), 1 << 16);
  std::vector<Plan> plans;
  for (const testing::Move& move : testing::moves_on(4)) {
    for (const Shape& shape : {Shape{3, 2}, Shape{29, 31}, Shape{64, 96}}) {
      for (const DType dtype : {DType::kBF16, DType::kF32}) {
        plans.push_back(testing::plan_of(move, shape, dtype, cap));
      }
    }
  }
  std::vector<Bucket> got(4), expected(4);
  const auto into = [&](std::vector<Bucket>& all) {
    return [&](World& world) {
      all[static_cast<std::size_t>(world.rank())] = moved_together(world, plans);
    };
  };
  throw_if_error(run_ranks(4, {}, into(expected)));
  const auto by = GENERATE(ExchangeBy::kMessages, ExchangeBy::kWindows);
  const Ended ended = testing::run_by(by, 4, {.checks = CallChecks::kOn}, into(got));
  CAPTURE(cap, ended.first.ToString());
  CHECK(ended.first.ok());
  CHECK(got == expected);
}

TEST_CASE("summands that are cut differently fold in their order, whatever the cap",
          "[nccl][exchange]") {
  const std::int64_t cap = GENERATE(as<std::int64_t>{}, 6000, 1 << 20);
  constexpr std::int64_t kSize = 5000, kHalf = 2100;
  // Rank 0 takes: all of its own, then what ranks 1 and 2 have halves of, then all of rank 3's.
  const std::vector<Run> halves = {
      {0, 0, kSize}, {0, 0, kHalf}, {0, kHalf, kSize - kHalf}, {0, 0, kSize}};
  const auto fold = [&](World& world) {
    const auto self = static_cast<std::size_t>(world.rank());
    ExchangeBoxes boxes{.fold = true, .reduce = ReduceOp::kSum};
    boxes.from.push_back({0, 0, {{halves[self]}}});
    for (std::int64_t peer = 0; self == 0 && peer < 4; ++peer) {
      const Run& run = halves[static_cast<std::size_t>(peer)];
      boxes.into.push_back({peer, peer == 3 ? 2 : (peer + 1) / 2, {{run}}});
      boxes.cut_from.push_back({run.size});
    }
    std::vector<double> values;
    for (std::int64_t i = 0; i < halves[self].size; ++i) {
      values.push_back(1.0 / static_cast<double>(1 + (i * 7 + world.rank() * 131) % 509));
    }
    const Array in = testing::on_world(
        world, Array::from_values({std::ssize(values)}, DType::kF32, std::span(values)));
    const Array out = testing::on_world(world, Array::zeros({kSize}, DType::kF32));
    ExchangeCall call{.pack_bytes = cap};
    call.parts = {
        {in, self == 0 ? out : Array(), std::make_shared<const ExchangeBoxes>(std::move(boxes))}};
    everyone(world).start({.of = std::move(call)}, {})->wait();
    return self == 0 ? testing::values_here(out) : std::vector<double>();
  };
  std::vector<double> got, expected;
  const auto into = [&](std::vector<double>& values) {
    return [&](World& world) {
      const std::vector<double> folded = fold(world);
      if (world.rank() == 0) values = folded;
    };
  };
  throw_if_error(run_ranks(4, {}, into(expected)));
  const auto by = GENERATE(ExchangeBy::kMessages, ExchangeBy::kWindows);
  const Ended ended = testing::run_by(by, 4, {}, into(got));
  CAPTURE(cap, ended.first.ToString());
  CHECK(ended.first.ok());
  CHECK(!got.empty());
  CHECK(got == expected);
}

namespace {

using Values = std::vector<std::vector<double>>;

/// What each rank has after moves of both kinds, some of which the host does not wait for.
Values moves_in_turn(World& world, int times) {
  std::vector<Plan> plans;
  for (const testing::Move& move : testing::moves_on(4)) {
    for (const Shape& shape : {Shape{8, 12}, Shape{64, 96}, Shape{9, 5}}) {
      plans.push_back(testing::plan_of(move, shape, DType::kF32, 1 << 20));
    }
  }
  Values values;
  for (int i = 0; i < times; ++i) {
    for (const Plan& plan : plans) {
      const Array local = testing::on_world(world, source_of(plan, world.rank()));
      values.push_back(testing::values_here(execute(world, plan, local)));
    }
  }
  everyone(world).barrier();  // tells what has failed meanwhile
  return values;
}

/// The same of every rank.
std::vector<Values> all_moves(const std::function<Ended(const std::function<void(World&)>&)>& run,
                              int times) {
  std::vector<Values> got(4);
  const Ended ended = run([&](World& world) {
    got[static_cast<std::size_t>(world.rank())] = moves_in_turn(world, times);
  });
  CHECK(ended.first == absl::OkStatus());
  return got;
}
std::vector<Values> moves_on_threads(int times) {
  const auto memory = testing::card_of([](std::int64_t rank) { return rank; });
  return all_moves(
      [&](const auto& body) {
        return Ended{.first = run_ranks(4, {.allocator = memory}, body), .ranks = {}};
      },
      times);
}

}  // namespace

TEST_CASE("exchanges go as messages where NCCL does not map all ranks' windows",
          "[nccl][exchange][windows]") {
  const auto [name, value] = GENERATE(table<const char*, const char*>(
      {{"TESSERA_EMULATED_NCCL_LSA", "2"}, {"TESSERA_EMULATED_NCCL_VERSION", "22703"}}));
  const testing::Variable variable(name, value);
  const std::int64_t before = emulation::num_nccl_messages();
  CHECK((
      all_moves([](const auto& body) { return testing::run_by(ExchangeBy::kWindows, 4, {}, body); },
                2) == moves_on_threads(2)));
  CHECK(emulation::num_nccl_messages() > before);
}

TEST_CASE("a rank that stays away from an exchange over windows ends it on all",
          "[nccl][exchange][windows][faults]") {
  // The first call meets once more, before it writes.
  const int number = GENERATE(1, 2, 3, 4, 5);
  CAPTURE(number);
  const testing::PlantedFault planted(1, emulation::NcclFault::kHangs, number);
  const Ended ended = testing::run_by(ExchangeBy::kWindows, 4, {.timeout = testing::kMissed},
                                      [](World& world) { moves_in_turn(world, 1); });
  CAPTURE(ended.first.ToString());
  CHECK(ended.first.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(says(ended.first, "timed out in exchange #"));
  for (const Status& status : ended.ranks) CHECK(status.code() == absl::StatusCode::kUnavailable);
  CHECK(ended.seconds < testing::kSoonSeconds);
}

TEST_CASE("a rank that throws frees those whose boxes it would have got",
          "[nccl][exchange][windows][faults]") {
  const Ended ended = testing::run_by(ExchangeBy::kWindows, 4, {.timeout = milliseconds(600'000)},
                                      [&](World& world) {
                                        moves_in_turn(world, 1);
                                        if (world.rank() == 2) {
                                          throw Error(invalid_argument("no such tensor: w"));
                                        }
                                        moves_in_turn(world, 2);
                                      });
  CHECK(ended.first == invalid_argument("rank 2: no such tensor: w"));
  CHECK(ended.ranks[0] == unavailable("rank 2: no such tensor: w"));
  CHECK(ended.seconds < testing::kSoonSeconds);
}

TEST_CASE("captured exchanges over windows are done again, also after larger ones by calls",
          "[nccl][exchange][windows][capture]") {
  const Plan small = testing::plan_of(testing::moves_on(4)[0], {24, 16}, DType::kF32, 1 << 20);
  const Plan large = testing::plan_of(testing::moves_on(4)[0], {512, 384}, DType::kF32, 1 << 20);
  Values got(4), expected(4);
  const auto body = [&](Values& into) {
    return [&](World& world) {
      const Array local = testing::on_world(world, source_of(small, world.rank()));
      const Array wide = testing::on_world(world, source_of(large, world.rank()));
      const Array kept = testing::on_world(
          world, Array::zeros(small.dst.local_shape(*small.dst.mesh().coord_of(world.rank())),
                              DType::kF32));
      Device& device = kept.device();
      const auto move = [&] {
        const Array moved = execute(world, small, local);
        device.copy(kept.bytes(), moved.bytes(), static_cast<std::size_t>(kept.num_bytes()),
                    device.compute());
        device.copy(local.bytes(), moved.bytes(), static_cast<std::size_t>(local.num_bytes()),
                    device.compute());
      };
      move();
      WorldCapture captured(world, move);
      captured.launch();
      execute(world, large, wide);
      captured.launch();
      captured.launch();
      into[static_cast<std::size_t>(world.rank())] = testing::values_here(kept);
      everyone(world).barrier();
    };
  };
  const auto memory = testing::card_of([](std::int64_t rank) { return rank; });
  throw_if_error(run_ranks(4, {.allocator = memory}, body(expected)));
  const std::int64_t messages = emulation::num_nccl_messages();
  const Ended ended = testing::run_by(ExchangeBy::kWindows, 4, {}, body(got));
  CHECK(ended.first == absl::OkStatus());
  CHECK((got == expected));
  CHECK(emulation::num_nccl_messages() == messages);
}

TEST_CASE("a capture waits for no windows: exchanges that need larger ones are refused",
          "[nccl][exchange][windows][capture][errors]") {
  const testing::Move move = testing::moves_on(4)[0];
  const Plan small = testing::plan_of(move, {24, 16}, DType::kF32, 1 << 20);
  const Plan large = testing::plan_of(move, {512, 384}, DType::kF32, 1 << 20);
  const Ended ended = testing::run_by(ExchangeBy::kWindows, 4, {}, [&](World& world) {
    execute(world, small, testing::on_world(world, source_of(small, world.rank())));
    const Array wide = testing::on_world(world, source_of(large, world.rank()));
    const WorldCapture captured(world, [&] { execute(world, large, wide); });
  });
  CAPTURE(ended.first.ToString());
  CHECK(says(ended.first,
             "capture: exchange needs windows of 147456 bytes and 0 rows, its ranks "
             "have those of 65536 bytes and 65536 rows: run the work once by calls"));
}

}  // namespace tessera
