// What a DTensor call costs beyond its kernel. Both sides allocate their output; events are on.
// Units: nanoseconds per call; compare DTensor rows with the Kernel rows of the same op.
#include <benchmark/benchmark.h>

#include "dtensor/ops.h"
#include "kernels/device.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/matmul.h"
#include "strategies/rules/propagate.h"

namespace tessera {
namespace {

enum Where : std::int64_t { kPlain, kMeshOfOne, kMesh2x2 };

/// A rank of a world of one, and 16x16 local operands. On the 2x2 mesh this rank's op needs no
/// other rank.
struct Bench {
  std::unique_ptr<World> world = make_single_world({.threads_per_rank = 1});
  Runtime runtime{*world};

  DTensor operand(Where where, const Placements& on_2x2) {
    const Array local = Array::zeros({16, 16}, DType::kF32);
    if (where == kPlain) return plain(runtime, local);
    const Shape sizes = where == kMeshOfOne ? Shape{1} : Shape{2, 2};
    const Mesh mesh = value_or_throw(Mesh::make(view_of(sizes)));
    const Placements placements = where == kMeshOfOne ? Placements{Replicate{}} : on_2x2;
    Shape global = {16, 16};
    for (const Placement& each : placements) {
      if (const Shard* shard = std::get_if<Shard>(&each)) global[shard->dim] *= 2;
    }
    return from_local(plain(runtime, local), mesh, placements, global);
  }
};

void kernel_add(benchmark::State& state) {
  Bench bench;
  const Array a = Array::zeros({16, 16}, DType::kF32);
  for (auto _ : state) {
    const Array out = Array::empty({16, 16}, DType::kF32, bench.runtime.kernels().allocator);
    kernels::binary(bench.runtime.kernels(), kernels::Binary::kAdd, a, a, out);
    benchmark::DoNotOptimize(out.bytes());
  }
}
BENCHMARK(kernel_add);

void kernel_matmul(benchmark::State& state) {
  Bench bench;
  const Array a = Array::zeros({16, 16}, DType::kF32);
  for (auto _ : state) {
    const Array out = Array::empty({16, 16}, DType::kF32, bench.runtime.kernels().allocator);
    kernels::matmul(bench.runtime.kernels(), a, a, out);
    benchmark::DoNotOptimize(out.bytes());
  }
}
BENCHMARK(kernel_matmul);

// The border between ops and kernels, alone: a sum of one element by the function that looks its
// kernel up in the device's table (0), and by the pointer that the table holds (1). At most 5 ns
// apart.
void border(benchmark::State& state) {
  Bench bench;
  KernelContext& ctx = bench.runtime.kernels();
  const Array a = Array::zeros({1}, DType::kF32);
  const Array out = Array::zeros({1}, DType::kF32);
  const auto kernel = state.range(0) == 0 ? &kernels::binary : ctx.device->kernels().binary;
  for (auto _ : state) {
    kernel(ctx, kernels::Binary::kAdd, a, a, out);
    benchmark::DoNotOptimize(out.bytes());
  }
}
BENCHMARK(border)->Arg(0)->Arg(1);

// Arguments: where (plain, mesh of 1, mesh 2x2), operands that need a gradient (0, 1).
void dtensor_add(benchmark::State& state) {
  Bench bench;
  const auto where = static_cast<Where>(state.range(0));
  DTensor a = bench.operand(where, {Shard{0}, Shard{1}});
  DTensor b = bench.operand(where, {Shard{0}, Shard{1}});
  if (state.range(1) != 0) {
    a.set_requires_grad(true);
    b.set_requires_grad(true);
  }
  for (auto _ : state) benchmark::DoNotOptimize(add(a, b));
}
BENCHMARK(dtensor_add)->ArgsProduct({{kPlain, kMeshOfOne, kMesh2x2}, {0, 1}});

void dtensor_matmul(benchmark::State& state) {
  Bench bench;
  const auto where = static_cast<Where>(state.range(0));
  DTensor a = bench.operand(where, {Shard{0}, Replicate{}});
  DTensor b = bench.operand(where, {Replicate{}, Shard{1}});
  if (state.range(1) != 0) {
    a.set_requires_grad(true);
    b.set_requires_grad(true);
  }
  for (auto _ : state) benchmark::DoNotOptimize(matmul(a, b));
}
BENCHMARK(dtensor_matmul)->ArgsProduct({{kPlain, kMeshOfOne, kMesh2x2}, {0, 1}});

void redistribute_to_itself(benchmark::State& state) {
  Bench bench;
  const Placements placements = {Shard{0}, Shard{1}};
  const DTensor a = bench.operand(kMesh2x2, placements);
  for (auto _ : state) benchmark::DoNotOptimize(redistribute(a, placements));
}
BENCHMARK(redistribute_to_itself);

void warm_from_local(benchmark::State& state) {
  Bench bench;
  const DTensor local = plain(bench.runtime, Array::zeros({16, 16}, DType::kF32));
  const Mesh mesh = value_or_throw(Mesh::make(ShapeView(Shape{2, 2})));
  const Placements placements = {Shard{0}, Replicate{}};
  for (auto _ : state) {
    benchmark::DoNotOptimize(from_local(local, mesh, placements, {32, 16}));
  }
}
BENCHMARK(warm_from_local);

/// Propagation alone, as the first call with new specs does it. Argument: number of mesh axes.
void cold_matmul(benchmark::State& state) {
  OpTable table;
  add_builtin_ops(table);
  const Op* op = value_or_throw(table.find("matmul"));
  const Shape sizes = state.range(0) == 1   ? Shape{8}
                      : state.range(0) == 2 ? Shape{8, 8}
                                            : Shape{2, 2, 2};
  const Mesh mesh = value_or_throw(Mesh::make(view_of(sizes)));
  const auto axes = static_cast<std::size_t>(mesh.ndim());
  Placements of_a(axes, Replicate{}), of_b(axes, Replicate{});
  of_a.front() = Shard{0};
  of_b.back() = Shard{0};  // contracted dim cut on one side only: something has to move
  const Spec a = value_or_throw(Spec::make(mesh, {512, 512}, DType::kF32, of_a));
  const Spec b = value_or_throw(Spec::make(mesh, {512, 512}, DType::kF32, of_b));
  const Spec* specs[] = {&a, &b};
  for (auto _ : state) benchmark::DoNotOptimize(propagate(*op, specs, {}));
}
BENCHMARK(cold_matmul)->Arg(1)->Arg(2)->Arg(3)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace tessera

BENCHMARK_MAIN();
