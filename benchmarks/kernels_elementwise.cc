// What the memory-bound kernels reach of a plain memcpy's bandwidth, and what a small call costs.
// Arg 0 is the number of library threads. Run with --benchmark_repetitions=5 and compare within one
// run.
#include <benchmark/benchmark.h>

#include <cstring>

#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "kernels/kernel_table.h"
#include "kernels/optimizer.h"
#include "kernels/random.h"
#include "kernels/reduce.h"
#include "kernels/select.h"

namespace tessera {
namespace {

using namespace kernels;

constexpr std::int64_t kLarge = std::int64_t{16} << 20;  // 64 MiB of F32: beyond every cache

Array random_values(const Shape& shape, DType dtype) {
  KernelContext ctx;
  const Array wide = Array::empty(shape, dtype);
  std::vector<std::vector<std::int64_t>> index;
  for (const std::int64_t size : shape) {
    index.emplace_back();
    for (std::int64_t i = 0; i < size; ++i) index.back().push_back(i);
  }
  random(ctx, {.a = -4, .b = 4}, shape, index, wide);
  return wide;
}

KernelContext context_of(const benchmark::State& state) {
  KernelContext ctx;
  ctx.threads = static_cast<int>(state.range(0));
  return ctx;
}

/// Bytes read and written, as the stream benchmark counts them.
void count_bytes(benchmark::State& state, std::int64_t bytes) {
  state.SetBytesProcessed(state.iterations() * bytes);
}

void memcpy_large(benchmark::State& state) {
  const Array x = random_values({kLarge}, DType::kF32), out = Array::zeros({kLarge}, DType::kF32);
  for (auto _ : state) {
    std::memcpy(out.bytes(), x.bytes(), static_cast<std::size_t>(x.num_bytes()));
    benchmark::ClobberMemory();
  }
  count_bytes(state, 2 * x.num_bytes());
}
BENCHMARK(memcpy_large)->Unit(benchmark::kMillisecond)->UseRealTime();

void copy_large(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const Array x = random_values({kLarge}, DType::kF32), out = Array::zeros({kLarge}, DType::kF32);
  for (auto _ : state) copy(ctx, x, out);
  count_bytes(state, 2 * x.num_bytes());
}
BENCHMARK(copy_large)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

void copy_transposed(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const Array x = random_values({4096, 4096}, DType::kF32),
              out = Array::zeros({4096, 4096}, DType::kF32);
  for (auto _ : state) copy(ctx, x.transpose(0, 1), out);
  count_bytes(state, 2 * x.num_bytes());
}
BENCHMARK(copy_transposed)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

/// Rows of a few elements of wider ones, as they are and cast: what the loop over rows costs.
void copy_short_rows(benchmark::State& state) {
  KernelContext ctx;
  const Array x = random_values({1 << 14, 64}, DType::kF32).slice(1, 0, state.range(0));
  const Array out = Array::zeros(x.shape(), static_cast<DType>(state.range(1)));
  for (auto _ : state) copy(ctx, x, out);
}
BENCHMARK(copy_short_rows)
    ->ArgsProduct({{3, 16, 60}, {static_cast<int>(DType::kF32), static_cast<int>(DType::kBF16)}})
    ->Unit(benchmark::kMicrosecond);

void gather_rows(benchmark::State& state) {
  KernelContext ctx;
  const Array x = random_values({4096, 256}, DType::kF32),
              out = Array::zeros(x.shape(), DType::kF32);
  const Array index = Array::zeros(x.shape(), DType::kI64);
  for (auto _ : state) gather(ctx, x, 0, index, Absent::kSkip, out);
}
BENCHMARK(gather_rows)->Unit(benchmark::kMicrosecond);

void add_large(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const Array x = random_values({kLarge}, DType::kF32), out = Array::zeros({kLarge}, DType::kF32);
  const Array y = random_values({kLarge}, DType::kF32);
  for (auto _ : state) binary(ctx, Binary::kAdd, x, y, out);
  count_bytes(state, 3 * x.num_bytes());
}
BENCHMARK(add_large)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

void silu_large(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const auto dtype = static_cast<DType>(state.range(1));
  const Array x = random_values({kLarge}, dtype), out = Array::zeros({kLarge}, dtype);
  for (auto _ : state) unary(ctx, Unary::kSilu, x, out);
  count_bytes(state, 2 * x.num_bytes());
}
BENCHMARK(silu_large)
    ->Args({1, static_cast<int>(DType::kF32)})
    ->Args({2, static_cast<int>(DType::kF32)})
    ->Args({1, static_cast<int>(DType::kBF16)})
    ->Args({2, static_cast<int>(DType::kBF16)})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void adamw_large(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const Array param = random_values({kLarge}, DType::kF32),
              grad = random_values({kLarge}, DType::kF32);
  const Array m = Array::zeros({kLarge}, DType::kF32), v = Array::zeros({kLarge}, DType::kF32);
  for (auto _ : state) adamw(ctx, {.lr = 1e-3}, param, grad, m, v);
  count_bytes(state, 7 * param.num_bytes());
}
BENCHMARK(adamw_large)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

void sum_rows(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const Array x = random_values({4096, 4096}, DType::kF32), out = Array::zeros({4096}, DType::kF32);
  const int dims[] = {static_cast<int>(state.range(1))};
  for (auto _ : state) reduce(ctx, ReduceOp::kSum, x, dims, out);
  count_bytes(state, x.num_bytes());
}
BENCHMARK(sum_rows)
    ->Args({1, 0})
    ->Args({2, 0})
    ->Args({1, 1})
    ->Args({2, 1})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void sum_of_squares_large(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const Array x = random_values({kLarge}, DType::kF32);
  const Array out = Array::empty({}, DType::kF64);
  for (auto _ : state) sum_of_squares(ctx, x, out);
  count_bytes(state, x.num_bytes());
}
BENCHMARK(sum_of_squares_large)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

void topk_router(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const Array x = random_values({16384, 64}, DType::kF32);
  const Array values = Array::zeros({16384, 6}, DType::kF32),
              at = Array::zeros({16384, 6}, DType::kI64);
  for (auto _ : state) topk(ctx, x, 1, Order::kDescending, values, at);
}
BENCHMARK(topk_router)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

Array expert_ids(std::int64_t count, std::int64_t below) {
  const Array ids = Array::empty({count}, DType::kI64);
  std::uint64_t state = 1;
  for (std::int64_t i = 0; i < count; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    ids.data<std::int64_t>()[i] =
        static_cast<std::int64_t>((state >> 33) % static_cast<std::uint64_t>(below));
  }
  return ids;
}

void sort_by_expert(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const Array ids = expert_ids(16384 * 6, 64);
  const Array permutation = Array::zeros({16384 * 6}, DType::kI64),
              counts = Array::zeros({64}, DType::kI64);
  for (auto _ : state) sort_by_key(ctx, ids, 64, permutation, counts);
}
BENCHMARK(sort_by_expert)->Arg(1)->Unit(benchmark::kMillisecond)->UseRealTime();

void permute_tokens(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const Array x = random_values({16384, 2048}, DType::kF32), ids = expert_ids(16384 * 6, 16384);
  const Array out = Array::zeros({16384 * 6, 2048}, DType::kF32);
  for (auto _ : state) permute_rows(ctx, x, ids, out);
  count_bytes(state, 2 * out.num_bytes());
}
BENCHMARK(permute_tokens)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

void normal_values(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const Array out = Array::zeros({1024, 1024}, DType::kF32);
  std::vector<std::int64_t> index(1024);
  for (std::size_t i = 0; i < index.size(); ++i) index[i] = static_cast<std::int64_t>(i);
  const std::vector<std::vector<std::int64_t>> whole = {index, index};
  for (auto _ : state)
    random(ctx, {.distribution = Distribution::kNormal}, {1024, 1024}, whole, out);
  state.SetItemsProcessed(state.iterations() * out.num_elements());
}
BENCHMARK(normal_values)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();

void add_small(benchmark::State& state) {
  KernelContext ctx;
  const Array x = random_values({16, 16}, DType::kF32), y = random_values({16, 16}, DType::kF32);
  const Array out = Array::zeros({16, 16}, DType::kF32);
  for (auto _ : state) binary(ctx, Binary::kAdd, x, y, out);
}
BENCHMARK(add_small);

/// The arithmetic of add_small alone.
void add_small_plain(benchmark::State& state) {
  const Array x = random_values({16, 16}, DType::kF32), y = random_values({16, 16}, DType::kF32);
  const Array out = Array::zeros({16, 16}, DType::kF32);
  for (auto _ : state) {
    const float* a = x.data<float>();
    const float* b = y.data<float>();
    float* to = out.data<float>();
    for (int i = 0; i < 256; ++i) to[i] = a[i] + b[i];
    benchmark::ClobberMemory();
  }
}
BENCHMARK(add_small_plain);

void add_small_broadcast(benchmark::State& state) {
  KernelContext ctx;
  const Array x = random_values({16, 16}, DType::kF32), y = random_values({16}, DType::kF32);
  const Array out = Array::zeros({16, 16}, DType::kF32);
  for (auto _ : state) binary(ctx, Binary::kAdd, x, y, out);
}
BENCHMARK(add_small_broadcast);

void add_small_bf16(benchmark::State& state) {
  KernelContext ctx;
  const Array x = random_values({16, 16}, DType::kBF16), y = random_values({16, 16}, DType::kBF16);
  const Array out = Array::zeros({16, 16}, DType::kBF16);
  for (auto _ : state) binary(ctx, Binary::kAdd, x, y, out);
}
BENCHMARK(add_small_bf16);

/// What the table of the device's kernels costs a call: the same copy through it and past it.
void copy_one(benchmark::State& state) {
  KernelContext ctx;
  const Array x = Array::zeros({1}, DType::kF32), out = Array::zeros({1}, DType::kF32);
  for (auto _ : state) kernels::copy(ctx, x, out);
}
BENCHMARK(copy_one);
void copy_one_without_table(benchmark::State& state) {
  KernelContext ctx;
  const Array x = Array::zeros({1}, DType::kF32), out = Array::zeros({1}, DType::kF32);
  for (auto _ : state) cpu::copy(ctx, x, out);
}
BENCHMARK(copy_one_without_table);

void empty_small(benchmark::State& state) {
  const std::shared_ptr<Allocator> allocator =
      state.range(0) == 0 ? plain_allocator() : make_pool_allocator();
  for (auto _ : state) benchmark::DoNotOptimize(Array::empty({16, 16}, DType::kF32, allocator));
}
BENCHMARK(empty_small)->Arg(0)->Arg(1);

void pool_block(benchmark::State& state) {
  const std::shared_ptr<Allocator> allocator = make_pool_allocator();
  for (auto _ : state) {
    void* data = allocator->allocate(1024);
    benchmark::DoNotOptimize(data);
    allocator->release(data, 1024);
  }
}
BENCHMARK(pool_block);

}  // namespace
}  // namespace tessera

BENCHMARK_MAIN();
