// What the first call of an op with new specs costs: propagation alone over a spread of ops and
// meshes, the whole first dispatch, and the memory that distinct calls hold; and what a warm call
// in place, of a view and with out= costs beyond its kernel.
// Units: microseconds per cold call, nanoseconds per warm one; MiB in the counters of
// `cached_calls`.
#include "strategies/rules/propagate.h"

#include <benchmark/benchmark.h>

#include "dtensor/ops.h"
#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "tests/support/process_memory.h"

namespace tessera {
namespace {

struct Operand {
  Shape shape;
  std::vector<std::string> placements;  ///< on 1, 2 and 3 axes
  DType dtype = DType::kF32;
};
/// One op on operands of which some have to move, so that the search has to compare.
struct Case {
  std::string op;
  std::vector<Operand> operands;
  Attrs attrs;
};

const std::vector<Case>& cases() {
  const auto dim = [](std::int64_t d) { return Attrs{{"dim", d}}; };
  const Shape square = {512, 512};
  static const std::vector<Case> all = {
      {"matmul",
       {{square, {"S(0)", "S(0), R", "S(0), P, R"}}, {square, {"S(0)", "R, S(0)", "R, R, S(0)"}}},
       {}},
      {"add",
       {{square, {"S(0)", "S(0), S(1)", "S(0), P, S(1)"}},
        {square, {"S(1)", "R, S(0)", "R, S(0), R"}}},
       {}},
      {"relu", {{square, {"P", "S(0), P", "S(0), P, S(1)"}}}, {}},
      {"sum", {{square, {"S(0)", "S(0), S(1)", "S(0), P, S(1)"}}}, {{"dim", Shape{0}}}},
      {"softmax", {{square, {"S(1)", "S(0), S(1)", "S(0), S(1), S(1)"}}}, dim(1)},
      {"rms_norm",
       {{square, {"S(1)", "S(0), S(1)", "S(0), S(1), R"}}, {{512}, {"R", "R, R", "R, R, S(0)"}}},
       {{"eps", 1e-6}}},
      {"scatter_",
       {{square, {"S(1)", "S(0), S(1)", "S(0), R, S(1)"}},
        {{512, 8}, {"S(0)", "S(0), R", "S(0), R, R"}, DType::kI64},
        {{512, 8}, {"S(0)", "S(0), R", "R, R, S(0)"}}},
       dim(1)},
      {"embedding",
       {{{4096, 64}, {"S(0)", "S(0), R", "S(0), R, S(1)"}},
        {{8, 128}, {"R", "R, S(0)", "R, S(0), R"}, DType::kI64}},
       {}},
      {"cross_entropy",
       {{{64, 32, 4096}, {"S(2)", "S(0), S(2)", "S(0), S(1), S(2)"}},
        {{64, 32}, {"R", "S(0), R", "S(0), R, R"}, DType::kI64}},
       {}},
      {"attention",
       {{{4, 16, 512, 64}, {"S(1)", "S(0), S(1)", "S(0), S(1), S(2)"}},
        {{4, 16, 512, 64}, {"S(1)", "S(0), S(1)", "S(0), S(1), R"}},
        {{4, 16, 512, 64}, {"R", "S(0), R", "S(0), S(1), R"}}},
       {{"scale", 1.0}, {"causal", true}}},
      {"view",
       {{{64, 64, 64}, {"S(0)", "S(0), S(1)", "S(0), S(1), S(2)"}}},
       {{"size", Shape{4096, 64}}}},
      {"transpose",
       {{square, {"S(0)", "S(0), S(1)", "S(0), P, S(1)"}}},
       {{"dim0", 0}, {"dim1", 1}}},
      {"cat",
       {{square, {"S(0)", "S(0), S(1)", "S(0), S(1), R"}},
        {square, {"S(0)", "S(0), R", "S(0), R, R"}}},
       dim(0)},
  };
  return all;
}

/// The third number is what the whole mesh has: nothing may depend on it.
const std::vector<Shape>& meshes() {
  static const std::vector<Shape> all = {{8},       {1024},    {16384},   {8, 8},
                                         {64, 256}, {2, 2, 2}, {8, 8, 8}, {16, 32, 32}};
  return all;
}

struct Ready {
  OpTable table;
  const Op* op = nullptr;
  Attrs attrs;
  std::vector<Spec> specs;
  std::vector<const Spec*> pointers;
};

std::unique_ptr<Ready> ready(const Case& which, const Shape& sizes) {
  auto made = std::make_unique<Ready>();
  add_builtin_ops(made->table);
  made->op = value_or_throw(made->table.find(which.op));
  made->attrs = value_or_throw(complete_attrs(*made->op, which.attrs));
  const Mesh mesh = value_or_throw(Mesh::make(view_of(sizes)));
  for (const Operand& each : which.operands) {
    const Placements list = value_or_throw(parse_placements(each.placements[sizes.size() - 1]));
    made->specs.push_back(value_or_throw(Spec::make(mesh, each.shape, each.dtype, list)));
  }
  for (const Spec& spec : made->specs) made->pointers.push_back(&spec);
  return made;
}

/// Propagation keeps nothing between calls: each one is cold.
void cold_propagation(benchmark::State& state, const Case& which, const Shape& sizes) {
  const std::unique_ptr<Ready> call = ready(which, sizes);
  const Status status = propagate(*call->op, call->pointers, call->attrs).status();
  if (!status.ok()) return state.SkipWithError(std::string(status.message()).c_str());
  for (auto _ : state) {
    benchmark::DoNotOptimize(propagate(*call->op, call->pointers, call->attrs));
  }
}

/// A whole first call on one rank of 8: specs interned, rows searched, the local op made and run.
/// Each call has a shape that none had before.
void first_dispatch(benchmark::State& state) {
  const std::unique_ptr<World> world = make_single_world({.threads_per_rank = 1});
  Runtime runtime(*world);
  const Mesh mesh = value_or_throw(Mesh::make(view_of(Shape{8})));
  const Placements rows = {Shard{0}};
  std::int64_t n = 0;
  for (auto _ : state) {
    state.PauseTiming();
    ++n;
    const Spec spec = value_or_throw(Spec::make(mesh, {8, n}, DType::kF32, rows));
    const DTensor a = empty(runtime, spec), b = empty(runtime, spec);
    state.ResumeTiming();
    benchmark::DoNotOptimize(add(a, b));
  }
}
BENCHMARK(first_dispatch)->Iterations(2000)->Unit(benchmark::kMicrosecond);

/// 10,000 calls of distinct specs stay in the cache; counters say what they hold.
void cached_calls(benchmark::State& state) {
  constexpr std::int64_t kCalls = 10'000;
  double held = 0.0;
  for (auto _ : state) {
    const std::unique_ptr<World> world = make_single_world({.threads_per_rank = 1});
    Runtime runtime(*world);
    const Mesh mesh = value_or_throw(Mesh::make(view_of(Shape{8, 8, 8})));
    const Placements placements = {Shard{0}, Shard{1}, Replicate{}};
    const std::int64_t before = testing::allocated_bytes();
    for (std::int64_t n = 1; n <= kCalls; ++n) {
      const Spec spec = value_or_throw(Spec::make(mesh, {8, n}, DType::kF32, placements));
      const DTensor a = empty(runtime, spec);
      benchmark::DoNotOptimize(add(a, a));
    }
    held = static_cast<double>(testing::allocated_bytes() - before);
  }
  state.counters["MiB"] = held / (1 << 20);
  state.counters["bytes_per_call"] = held / kCalls;
}
BENCHMARK(cached_calls)->Iterations(1)->Unit(benchmark::kMillisecond);

/// 16x16 on a 2x2 mesh; this rank's op needs no other. Beside each, the kernel alone.
struct Warm {
  std::unique_ptr<World> world = make_single_world({.threads_per_rank = 1});
  Runtime runtime{*world};
  Mesh mesh = value_or_throw(Mesh::make(view_of(Shape{2, 2})));
  DTensor tensor(DType dtype = DType::kF32) {
    return from_local(plain(runtime, Array::zeros({16, 16}, dtype)), mesh,
                      Placements{Shard{0}, Replicate{}}, {32, 16});
  }
};

void warm_add_in_place(benchmark::State& state) {
  Warm warm;
  DTensor a = warm.tensor();
  const DTensor b = warm.tensor();
  for (auto _ : state) benchmark::DoNotOptimize(add_(a, b));
}
BENCHMARK(warm_add_in_place);
void kernel_add_in_place(benchmark::State& state) {
  Warm warm;
  const Array a = Array::zeros({16, 16}, DType::kF32), b = Array::zeros({16, 16}, DType::kF32);
  for (auto _ : state) {
    kernels::binary(warm.runtime.kernels(), kernels::Binary::kAdd, a, b, a);
    benchmark::DoNotOptimize(a.bytes());
  }
}
BENCHMARK(kernel_add_in_place);

void warm_transpose(benchmark::State& state) {
  Warm warm;
  const DTensor a = warm.tensor();
  for (auto _ : state) benchmark::DoNotOptimize(transpose(a, 0, 1));
}
BENCHMARK(warm_transpose);

void warm_scatter_in_place(benchmark::State& state) {
  Warm warm;
  DTensor a = warm.tensor();
  const DTensor index = warm.tensor(DType::kI64), src = warm.tensor();
  for (auto _ : state) benchmark::DoNotOptimize(scatter_(a, 1, index, src));
}
BENCHMARK(warm_scatter_in_place);
void kernel_scatter_in_place(benchmark::State& state) {
  Warm warm;
  const Array a = Array::zeros({16, 16}, DType::kF32), src = Array::zeros({16, 16}, DType::kF32);
  const Array index = Array::zeros({16, 16}, DType::kI64);
  for (auto _ : state) {
    kernels::scatter(warm.runtime.kernels(), a, 1, index, src, kernels::Absent::kError);
    benchmark::DoNotOptimize(a.bytes());
  }
}
BENCHMARK(kernel_scatter_in_place);

/// out=, the op found by its name as call() does.
void warm_add_into(benchmark::State& state) {
  Warm warm;
  const DTensor operands[] = {warm.tensor(), warm.tensor()}, out = warm.tensor();
  for (auto _ : state) call_into({&out, 1}, "add", operands);
}
BENCHMARK(warm_add_into);

void add_benchmarks() {
  for (const Case& each : cases()) {
    for (const Shape& sizes : meshes()) {
      std::string name = "cold/" + each.op + "/";
      for (std::size_t a = 0; a < sizes.size(); ++a) {
        name += (a > 0 ? "x" : "") + std::to_string(sizes[a]);
      }
      benchmark::RegisterBenchmark(name.c_str(), [&each, &sizes](benchmark::State& state) {
        cold_propagation(state, each, sizes);
      })->Unit(benchmark::kMicrosecond);
    }
  }
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  tessera::add_benchmarks();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
