// Calls whose arrays lie on devices, and what ranks say where they do not agree on that. The
// program test_emulated_runtime runs the values of all collectives so.
#include "kernels/cuda_device.h"
#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "tests/runtime/ranks.h"
#include "tests/support/on_world.h"

namespace tessera {
namespace {

using testing::on_world;
using testing::outcome_of;
using testing::values_here;

WorldOptions on_devices(const std::vector<int>& ordinals) {
  return {.allocator = [ordinals](std::int64_t rank) {
    const int ordinal = ordinals[static_cast<std::size_t>(rank)];
    return value_or_throw(make_emulated_device(ordinal))->make_allocator();
  }};
}
Array ones(DType dtype = DType::kF32) {
  return Array::from_values({2}, dtype, std::vector<double>{1, 1});
}

}  // namespace

TEST_CASE("arrays of two devices in one call are an error that names both",
          "[runtime][device][errors]") {
  const auto outcome = outcome_of(
      2,
      [](World& world) {
        everyone(world).all_reduce(on_world(world, ones()), ones(), ReduceOp::kSum);
      },
      on_devices({0, 0}));
  CHECK(testing::contains(outcome.first,
                          "all_reduce: out lies on cpu:0, another array of the call on emulated:0; "
                          "allowed: one device for all"));
}

TEST_CASE("ranks of which one has its arrays on the host learn of it",
          "[runtime][device][errors]") {
  const auto outcome = outcome_of(
      2,
      [](World& world) {
        const Array x = world.rank() == 0 ? on_world(world, ones()) : ones();
        everyone(world).all_reduce(x, x, ReduceOp::kSum);
      },
      on_devices({0, 1}));
  for (const Status& rank : outcome.ranks) {
    CHECK(testing::contains(rank,
                            "collective mismatch (device): rank 0 calls all_reduce #0 of F32 "
                            "[2] on emulated:0 by sum"));
    CHECK(testing::contains(rank, "rank 1 calls all_reduce #0 of F32 [2] by sum"));
  }
}

TEST_CASE("ranks go on while their devices are still at work", "[runtime][device]") {
  const auto outcome = outcome_of(
      2,
      [&](World& world) {
        const Array x = on_world(world, ones()), y = on_world(world, ones(DType::kI64));
        for (int repeat = 0; repeat < 20; ++repeat) {
          everyone(world).all_reduce(x, x, ReduceOp::kSum);
          everyone(world).all_reduce(y, y, ReduceOp::kMax);
        }
        if (values_here(x) != std::vector<double>{1 << 20, 1 << 20}) {
          throw Error(internal_error("another sum"));
        }
        if (values_here(y) != std::vector<double>{1, 1}) throw Error(internal_error("maximum"));
      },
      on_devices({0, 1}));
  CHECK(outcome.first == absl::OkStatus());
}

TEST_CASE("a call begins while the device still computes what it reads", "[runtime][device]") {
  const auto outcome = outcome_of(
      2,
      [&](World& world) {
        KernelContext ctx = testing::context_of(world);
        const Array x = Array::empty({1 << 20}, DType::kF32, world.allocator());
        bool went_on = false;
        for (int attempt = 0; attempt < 10 && !went_on; ++attempt) {
          for (int repeat = 0; repeat < 4; ++repeat) kernels::fill(ctx, 1.0, x);
          const Mark filled = ctx.device->record(ctx.device->compute());
          const auto work = everyone(world).all_reduce_async(x, x, ReduceOp::kSum);
          went_on = !ctx.device->done(filled);
          work->wait();
          if (values_here(x.slice(0, 0, 1)) != std::vector<double>{2}) {
            throw Error(internal_error("another sum"));
          }
          const Array flag = on_world(
              world,
              Array::from_values({1}, DType::kF32, std::vector<double>{went_on ? 1.0 : 0.0}));
          everyone(world).all_reduce(flag, flag, ReduceOp::kMin);
          went_on = values_here(flag)[0] == 1;
        }
        if (!went_on) throw Error(internal_error("the host waited"));
      },
      on_devices({0, 1}));
  CHECK(outcome.first == absl::OkStatus());
}

TEST_CASE("what a device found wrong in the end is the rank's failure",
          "[runtime][device][errors]") {
  const auto outcome = outcome_of(
      2,
      [](World& world) {
        KernelContext ctx = testing::context_of(world);
        ctx.checked = true;
        const double position = world.rank() == 1 ? 7 : 1;
        const Array table = Array::zeros({3, 2}, DType::kF32, world.allocator());
        const Array ids =
            on_world(world, Array::from_values({1}, DType::kI64, std::vector<double>{position}));
        kernels::embedding(ctx, table, ids, kernels::Absent::kError,
                           Array::empty({1, 2}, DType::kF32, world.allocator()));
      },
      on_devices({0, 0}));
  CHECK(testing::contains(outcome.first, "rank 1: embedding: "));
}

TEST_CASE("a fault of a peer's device ends the job with its words", "[runtime][device][errors]") {
  const auto outcome = outcome_of(
      2,
      [](World& world) {
        const Array x = on_world(world, ones());
        if (world.rank() == 1) throw Error(internal_error("emulated:1: a kernel went wrong"));
        everyone(world).all_reduce(x, x, ReduceOp::kSum);
      },
      on_devices({0, 1}));
  CHECK(outcome.first == internal_error("rank 1: emulated:1: a kernel went wrong"));
  CHECK(testing::contains(outcome.ranks[0], "rank 1: emulated:1: a kernel went wrong"));
}

TEST_CASE("a redistribution of the host's array in a World of a device is refused",
          "[runtime][device][errors]") {
  const Mesh mesh = value_or_throw(Mesh::make(std::vector<std::int64_t>{2}, {"dp"}));
  const Placement cut[] = {Shard{0}}, whole[] = {Replicate{}};
  const Spec src = value_or_throw(Spec::make(mesh, {4}, DType::kF32, cut));
  const Spec dst = value_or_throw(Spec::make(mesh, {4}, DType::kF32, whole));
  const auto outcome = outcome_of(
      2, [&](World& world) { execute(world, value_or_throw(plan(src, dst)), ones()); },
      on_devices({0, 1}));
  CHECK(testing::contains(outcome.first,
                          "execute: the local array lies on cpu:0, arrays of this World on "
                          "emulated:"));
}

}  // namespace tessera
