// Figures of the kernels that take a training step's time, in GFLOP/s (or GB/s), on one thread and
// two.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/matmul.h"
#include "kernels/norm.h"

namespace tessera {
namespace {

constexpr DType kDtypes[] = {DType::kF32, DType::kBF16, DType::kF64};

KernelContext context_of(const benchmark::State& state) {
  KernelContext ctx;
  ctx.threads = static_cast<int>(state.range(0));
  return ctx;
}
DType dtype_of(benchmark::State& state) {
  const DType dtype = kDtypes[state.range(1)];
  state.SetLabel(std::string(name_of(dtype)));
  return dtype;
}

Array sample(const Shape& shape, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(num_elements(shape)));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>(i * 7919 % 1000) / 500.0 - 1.0;
  return Array::from_values(shape, dtype, values);
}

void report(benchmark::State& state, const char* name, double each) {
  state.counters[name] =
      benchmark::Counter(each * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void square(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const DType dtype = dtype_of(state);
  const std::int64_t n = state.range(2);
  const Array a = sample({n, n}, dtype), b = sample({n, n}, dtype), c = Array::empty({n, n}, dtype);
  for (auto _ : state) kernels::matmul(ctx, a, b, c);
  const auto size = static_cast<double>(n);
  report(state, "GFLOP/s", 2 * size * size * size);
}

/// Eight experts with ragged counts, and weights stored [E, N, K] as a model keeps them.
struct Grouped {
  Array x, w, counts, out;
  double flops;

  Grouped(const benchmark::State& state, DType dtype) {
    const std::int64_t k = state.range(2), n = state.range(3);
    const std::vector<double> rows = {700, 312, 511, 37, 900, 640, 0, 996};
    x = sample({4096, k}, dtype);
    w = sample({8, n, k}, dtype).transpose(1, 2);
    counts = Array::from_values({8}, DType::kI64, rows);
    out = sample({4096, n}, dtype);
    flops = 2.0 * 4096 * static_cast<double>(k * n);
  }
};

void grouped(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const Grouped data(state, dtype_of(state));
  for (auto _ : state) kernels::grouped_matmul(ctx, data.x, data.w, data.counts, data.out);
  report(state, "GFLOP/s", data.flops);
}
void grouped_weight_grad(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const Grouped data(state, dtype_of(state));
  const Array grad_w =
      Array::zeros(data.w.shape(), data.w.dtype());  // its pages are there before the clock runs
  for (auto _ : state) {
    kernels::grouped_matmul_weight_grad(ctx, data.x, data.out, data.counts, grad_w);
  }
  report(state, "GFLOP/s", data.flops);
}

/// The debug model's attention: dims (B, H, L, E) over memory (B, L, H, E).
struct Heads {
  static constexpr std::int64_t kBatch = 4, kHeads = 16, kLength = 512, kQk = 192, kV = 128;
  Array q, k, v, out, lse, grad;
  kernels::AttentionOptions options;

  explicit Heads(DType dtype) {
    q = sample({kBatch, kLength, kHeads, kQk}, dtype).transpose(1, 2);
    k = sample({kBatch, kLength, kHeads, kQk}, dtype).transpose(1, 2);
    v = sample({kBatch, kLength, kHeads, kV}, dtype).transpose(1, 2);
    out = sample({kBatch, kLength, kHeads, kV}, dtype).transpose(1, 2);
    grad = sample({kBatch, kLength, kHeads, kV}, dtype).transpose(1, 2);
    lse = Array::empty({kBatch, kHeads, kLength}, accumulation_type(dtype));
    options.scale = 0.07;
  }
  /// Of one product over the pairs that the causal bound leaves, per width of the vectors.
  static double pair_flops(double width) {
    return 1.0 * kBatch * kHeads * kLength * (kLength + 1) * width;
  }
};

void attention_forward(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const Heads h(dtype_of(state));
  for (auto _ : state) kernels::attention(ctx, h.q, h.k, h.v, h.options, h.out, h.lse);
  report(state, "GFLOP/s", Heads::pair_flops(Heads::kQk + Heads::kV));
}
void attention_backward(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const Heads h(dtype_of(state));
  kernels::attention(ctx, h.q, h.k, h.v, h.options, h.out, h.lse);
  const auto like = [](const Array& x) {
    return Array::empty(x.transpose(1, 2).shape(), x.dtype()).transpose(1, 2);
  };
  const kernels::AttentionGradients grads{like(h.q), like(h.k), like(h.v)};
  for (auto _ : state) {
    kernels::attention_grad(ctx, h.grad, h.q, h.k, h.v, h.out, h.lse, h.options, grads);
  }
  report(state, "GFLOP/s", Heads::pair_flops(3 * Heads::kQk + 2 * Heads::kV));
}

constexpr std::int64_t kRows = 2048, kWidth = 256;

void rms_norm(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const DType dtype = dtype_of(state);
  const Array x = sample({kRows, kWidth}, dtype), weight = sample({kWidth}, dtype);
  const Array out = sample({kRows, kWidth}, dtype),
              rstd = Array::empty({kRows}, accumulation_type(dtype));
  for (auto _ : state) kernels::rms_norm(ctx, x, weight, 1e-5, out, rstd);
  report(state, "GB/s", static_cast<double>(x.num_bytes() + out.num_bytes()));
}
void rms_norm_backward(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const DType dtype = dtype_of(state);
  const Array x = sample({kRows, kWidth}, dtype), weight = sample({kWidth}, dtype);
  const Array grad = sample({kRows, kWidth}, dtype),
              rstd = Array::empty({kRows}, accumulation_type(dtype));
  const Array grad_x = sample({kRows, kWidth}, dtype), grad_weight = sample({kWidth}, dtype);
  kernels::rms_norm(ctx, x, weight, 1e-5, grad_x, rstd);
  for (auto _ : state) kernels::rms_norm_grad(ctx, grad, x, rstd, weight, grad_x, grad_weight);
  report(state, "GB/s", static_cast<double>(x.num_bytes() + grad.num_bytes() + grad_x.num_bytes()));
}
void softmax(benchmark::State& state) {
  KernelContext ctx = context_of(state);
  const DType dtype = dtype_of(state);
  const Array x = sample({kRows, state.range(2)}, dtype),
              out = sample({kRows, state.range(2)}, dtype);
  for (auto _ : state) kernels::softmax(ctx, x, -1, out);
  report(state, "GB/s", static_cast<double>(x.num_bytes() + out.num_bytes()));
}

// Arguments: threads, dtype, then sizes.
BENCHMARK(square)->ArgsProduct({{1, 2}, {0, 1, 2}, {16, 128, 1024}})->UseRealTime();
BENCHMARK(grouped)->ArgsProduct({{1, 2}, {0, 1}, {256}, {256}})->UseRealTime();
BENCHMARK(grouped)->ArgsProduct({{1, 2}, {0, 1}, {2048}, {1408}})->UseRealTime();
BENCHMARK(grouped_weight_grad)->ArgsProduct({{1, 2}, {0, 1}, {256}, {256}})->UseRealTime();
BENCHMARK(grouped_weight_grad)->ArgsProduct({{1, 2}, {0, 1}, {2048}, {1408}})->UseRealTime();
BENCHMARK(attention_forward)->ArgsProduct({{1, 2}, {0, 1, 2}})->UseRealTime();
BENCHMARK(attention_backward)->ArgsProduct({{1, 2}, {0, 1, 2}})->UseRealTime();
BENCHMARK(rms_norm)->ArgsProduct({{1, 2}, {0, 1}})->UseRealTime();
BENCHMARK(rms_norm_backward)->ArgsProduct({{1, 2}, {0, 1}})->UseRealTime();
BENCHMARK(softmax)->ArgsProduct({{1, 2}, {0, 1}, {8, 2048}})->UseRealTime();

}  // namespace
}  // namespace tessera

BENCHMARK_MAIN();
