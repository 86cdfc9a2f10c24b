// Exchanges over NCCL emulated keep to the cap of their packed messages, by rounds, with the bits
// of ranks as threads.
#include <algorithm>
#include <atomic>
#include <string>

#include "tests/mpi/moves.h"
#include "tests/nccl/ranks_of_nccl.h"

namespace tessera {
namespace {

using testing::Ended;

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
  for (const testing::Move& move : testing::moves_on(num_ranks)) {
    for (const Shape& shape : {Shape{37, 53}, Shape{130, 128}}) {
      const Plan plan = testing::plan_of(move, shape, dtype, cap);
      std::vector<std::vector<double>> got(static_cast<std::size_t>(num_ranks));
      std::vector<std::int64_t> largest(static_cast<std::size_t>(num_ranks));
      const auto memory = [](std::int64_t rank) {
        return std::make_shared<WatchedMemory>(
            value_or_throw(make_device_of_rank(DeviceId::Kind::kEmulated, rank))->make_allocator());
      };
      const Ended ended =
          testing::run(num_ranks, {.checks = checks, .allocator = memory}, [&](World& world) {
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
  const Ended ended = testing::run(4, {.checks = CallChecks::kOn}, into(got));
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
  const Ended ended = testing::run(4, {}, into(got));
  CAPTURE(cap, ended.first.ToString());
  CHECK(ended.first.ok());
  CHECK(!got.empty());
  CHECK(got == expected);
}

}  // namespace tessera
