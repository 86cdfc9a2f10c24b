// Rows of routed tokens: sorting, permuting and weighted unpermuting 16,384 tokens of 2,048 columns
// to 6 of 64 experts each, beside floors of the same run: writing the permuted rows, or reading
// them. Arg 0 is the number of library threads.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "kernels/row_sums.h"
#include "kernels/select.h"
#include "kernels/stream_row.h"

namespace tessera {
namespace {

using namespace kernels;

constexpr std::int64_t kTokens = 16384, kDim = 2048, kTopK = 6, kExperts = 64;
constexpr std::int64_t kSlots = kTokens * kTopK;

/// Each token's experts are distinct: a step through all of them from a pseudo-random start.
struct RoutedRows {
  Array ids = Array::empty({kSlots}, DType::kI64);
  Array slots = Array::empty({kSlots}, DType::kI64);
  Array counts = Array::empty({kExperts}, DType::kI64);
  Array tokens = Array::empty({kSlots}, DType::kI64);
  Array places = Array::empty({kTokens, kTopK}, DType::kI64);
  Array weights = Array::empty({kTokens, kTopK}, DType::kF32);

  explicit RoutedRows(KernelContext& ctx) {
    std::uint64_t state = 1;
    for (std::int64_t slot = 0; slot < kSlots; ++slot) {
      if (slot % kTopK == 0) state = state * 6364136223846793005U + 1442695040888963407U;
      const auto start = static_cast<std::int64_t>(state >> 58);
      ids.data<std::int64_t>()[slot] = (start + slot % kTopK * 11) % kExperts;
    }
    sort_by_key(ctx, ids, kExperts, slots, counts);
    for (std::int64_t row = 0; row < kSlots; ++row) {
      const std::int64_t slot = slots.data<std::int64_t>()[row];
      tokens.data<std::int64_t>()[row] = slot / kTopK;
      places.data<std::int64_t>()[slot] = row;
    }
    fill(ctx, 0.25, weights);
  }
};

KernelContext context_of(const benchmark::State& state) {
  KernelContext ctx;
  ctx.threads = static_cast<int>(state.range(0));
  return ctx;
}

/// Values that are neither zeros, which some memories move several times faster than other data,
/// nor equal.
Array filled_rows(std::int64_t rows, std::int64_t columns, DType dtype) {
  KernelContext ctx;
  ctx.threads = 2;
  const Array values = Array::empty({rows, columns}, DType::kF32);
  std::uint64_t state = 7;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    values.data<float>()[i] = static_cast<float>(state >> 40) * 0x1p-23F - 1.0F;
  }
  if (dtype == DType::kF32) return values;
  const Array out = Array::empty({rows, columns}, dtype);
  copy(ctx, values, out);
  return out;
}

/// f(begin, end) over [0, count), in one piece for each thread.
template <class F>
void on_threads(std::int64_t threads, std::int64_t count, const F& f) {
  std::vector<std::jthread> helpers;
  for (std::int64_t i = 1; i < threads; ++i) {
    helpers.emplace_back([&, i] { f(count * i / threads, count * (i + 1) / threads); });
  }
  f(std::int64_t{0}, count / threads);
}

DType dtype_of_arg(const benchmark::State& state) {
  return state.range(1) == 0 ? DType::kF32 : DType::kBF16;
}

void sort_ids(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const RoutedRows rows(ctx);
  for (auto _ : state) sort_by_key(ctx, rows.ids, kExperts, rows.slots, rows.counts);
}
void select_experts(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const Array scores = filled_rows(kTokens, kExperts, DType::kF32);
  const Array values = Array::zeros({kTokens, kTopK}, DType::kF32);
  const Array ids = Array::zeros({kTokens, kTopK}, DType::kI64);
  for (auto _ : state) topk(ctx, scores, 1, Order::kDescending, values, ids);
}
BENCHMARK(select_experts)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(sort_ids)->Arg(1)->Unit(benchmark::kMillisecond)->UseRealTime();

void permute(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const RoutedRows rows(ctx);
  const Array x = filled_rows(kTokens, kDim, dtype_of_arg(state));
  const Array out = Array::zeros({kSlots, kDim}, dtype_of_arg(state));
  for (auto _ : state) index_select(ctx, x, 0, rows.tokens, Absent::kSkip, out);
}
void floor_of_permute(benchmark::State& state) {
  const Array out = Array::zeros({kSlots, kDim}, dtype_of_arg(state));
  const std::int64_t row_bytes = out.num_bytes() / kSlots;
  const Array row = filled_rows(1, kDim, dtype_of_arg(state));
  for (auto _ : state) {
    on_threads(state.range(0), kSlots, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        stream_bytes(out.bytes() + r * row_bytes, row.bytes(), static_cast<std::size_t>(row_bytes));
      }
      finish_streams();
    });
  }
}
void unpermute(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const RoutedRows rows(ctx);
  const Array in = filled_rows(kSlots, kDim, dtype_of_arg(state));
  const Array out = Array::zeros({kTokens, kDim}, dtype_of_arg(state));
  for (auto _ : state) weighted_row_sum(ctx, in, rows.weights, rows.places, out);
}
void unpermute_grad(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const RoutedRows rows(ctx);
  const DType dtype = dtype_of_arg(state);
  const Array in = filled_rows(kSlots, kDim, dtype), grad = filled_rows(kTokens, kDim, dtype);
  const RowSumGrads out = {.rows_ND = Array::zeros({kSlots, kDim}, dtype),
                           .weights_TK = Array::zeros({kTokens, kTopK}, DType::kF32)};
  for (auto _ : state) weighted_row_sum_grad(ctx, in, rows.weights, rows.slots, grad, out);
}
void permute_grad(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const RoutedRows rows(ctx);
  const Array grad = filled_rows(kSlots, kDim, dtype_of_arg(state));
  const Array out = Array::zeros({kTokens, kDim}, dtype_of_arg(state));
  for (auto _ : state) weighted_row_sum(ctx, grad, Array(), rows.places, out);
}
void floor_of_unpermute(benchmark::State& state) {
  const Array in = filled_rows(kSlots, kDim, dtype_of_arg(state));
  for (auto _ : state) {
    on_threads(state.range(0), in.num_bytes() / 8, [&](std::int64_t begin, std::int64_t end) {
      const auto* words = reinterpret_cast<const std::uint64_t*>(in.bytes());
      std::uint64_t sum = 0;
      for (std::int64_t i = begin; i < end; ++i) sum += words[i];
      benchmark::DoNotOptimize(sum);
    });
  }
}
#define TSR_ROWS(name)                \
  BENCHMARK(name)                     \
      ->ArgsProduct({{1, 2}, {0, 1}}) \
      ->ArgNames({"threads", "bf16"}) \
      ->Unit(benchmark::kMillisecond) \
      ->UseRealTime()
TSR_ROWS(permute);
TSR_ROWS(floor_of_permute);
TSR_ROWS(unpermute);
TSR_ROWS(unpermute_grad);
TSR_ROWS(permute_grad);
TSR_ROWS(floor_of_unpermute);
#undef TSR_ROWS

}  // namespace
}  // namespace tessera

BENCHMARK_MAIN();
