// Attention and its gradients on the device against the processor's.
#include "kernels/attention.h"

#include <limits>

#include "kernels/elementwise.h"
#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

using namespace kernels;

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Sizes {
  std::int64_t batch, heads, queries, keys, depth, width;
};
Sizes sizes_of(TwinMaker& make) {
  const auto size = [&](std::int64_t most) {
    return make.number(0, 20) == 0 ? 0 : make.number(1, most);
  };
  return {size(2), size(3), size(40), size(40), size(20), size(30)};
}
Shape queries_by(const Sizes& s, std::int64_t last) { return {s.batch, s.heads, s.queries, last}; }
Shape keys_by(const Sizes& s, std::int64_t last) { return {s.batch, s.heads, s.keys, last}; }
DType sum_type(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

/// `value` in a random row of some heads.
void put(OnDevice& on, TwinMaker& make, const Twins& x, double value) {
  if (x.host.num_elements() == 0) return;
  const std::int64_t row = make.number(0, x.host.size(2) - 1);
  const std::int64_t col = make.number(0, x.host.size(3) - 1);
  const auto part = [&](const Array& array) {
    return array.slice(2, row, row + 1).slice(3, col, col + 1);
  };
  KernelContext cpu;
  fill(cpu, value, part(x.host));
  fill(on.ctx, value, part(x.device));
}

double tolerance_for(DType dtype) { return (is_half(dtype) ? 2 : 10) * tolerance_of(dtype); }

struct GradientTwins {
  Twins q, k, v, grad, out, lse, grad_q, grad_k, grad_v;
};
void check_gradients(OnDevice& on, const GradientTwins& t, const AttentionOptions& options,
                     double tolerance) {
  CHECK(compare(on, t.grad_q, tolerance, [&](KernelContext& ctx, bool device) {
          attention_grad(ctx, side(t.grad, device), side(t.q, device), side(t.k, device),
                         side(t.v, device), side(t.out, device), side(t.lse, device), options,
                         {side(t.grad_q, device), side(t.grad_k, device), side(t.grad_v, device)});
        }) == "");
  CHECK(difference(fetch(on, t.grad_k.device), t.grad_k.host, tolerance) == "");
  CHECK(difference(fetch(on, t.grad_v.device), t.grad_v.host, tolerance) == "");
}

}  // namespace

TEST_CASE("attention is the same on the device", "[device][attention]") {
  OnDevice on;
  TwinMaker make(on, 61);
  for (int i = 0; i < 300; ++i) {
    const Sizes s = sizes_of(make);
    const DType dtype = any_of(make, kFloating);
    const Twins q = make.mild(queries_by(s, s.depth), dtype),
                k = make.mild(keys_by(s, s.depth), dtype),
                v = make.mild(keys_by(s, s.width), dtype),
                out = make.output(queries_by(s, s.width), dtype),
                lse = make.output({s.batch, s.heads, s.queries}, sum_type(dtype));
    // Rows that do not see such a key are as if it were not there.
    for (const double value : {kInf, -kInf, std::numeric_limits<double>::quiet_NaN()}) {
      if (make.number(0, 4) == 0) put(on, make, v, value);
      if (make.number(0, 4) == 0) put(on, make, k, value);
    }
    const AttentionOptions options{.scale = make.number(0, 1) == 0 ? 0.3 : 2.0,
                                   .causal = make.number(0, 3) != 0,
                                   .causal_offset = make.number(-20, 30)};
    CAPTURE(i, s.batch, s.heads, s.queries, s.keys, s.depth, s.width, name_of(dtype),
            options.causal, options.causal_offset);
    CHECK(compare(on, out, tolerance_for(dtype), [&](KernelContext& ctx, bool device) {
            attention(ctx, side(q, device), side(k, device), side(v, device), options,
                      side(out, device), side(lse, device));
          }) == "");
    CHECK(difference(fetch(on, lse.device), lse.host, 10 * tolerance_of(lse.host.dtype())) == "");
  }
}

TEST_CASE("attention under a mask is the same on the device", "[device][attention]") {
  OnDevice on;
  TwinMaker make(on, 62);
  for (int i = 0; i < 300; ++i) {
    const Sizes s = sizes_of(make);
    const DType dtype = any_of(make, kFloating);
    const Twins q = make.mild(queries_by(s, s.depth), dtype),
                k = make.mild(keys_by(s, s.depth), dtype),
                v = make.mild(keys_by(s, s.width), dtype),
                out = make.output(queries_by(s, s.width), dtype),
                lse = make.output({s.batch, s.heads, s.queries}, sum_type(dtype));
    const DType of_mask = make.number(0, 1) == 0 ? DType::kBool : any_of(make, kFloating);
    const Shape whole = queries_by(s, s.keys);
    // Booleans with whole rows that see nothing; numbers with NaN and infinities among them.
    const Twins mask = make.broadcast(whole, of_mask);
    if (of_mask == DType::kBool && mask.host.ndim() == 4 && mask.host.size(2) > 0) {
      KernelContext cpu;
      fill(cpu, 0.0, mask.host.slice(2, 0, 1));
      fill(on.ctx, 0.0, mask.device.slice(2, 0, 1));
    }
    CAPTURE(i, s.batch, s.heads, s.queries, s.keys, s.depth, s.width, name_of(dtype),
            name_of(of_mask), mask.host.shape());
    CHECK(compare(on, out, tolerance_for(dtype), [&](KernelContext& ctx, bool device) {
            masked_attention(ctx, side(q, device), side(k, device), side(v, device),
                             side(mask, device), 0.5, side(out, device), side(lse, device));
          }) == "");
    CHECK(difference(fetch(on, lse.device), lse.host, 10 * tolerance_of(lse.host.dtype())) == "");
  }
}

TEST_CASE("gradients of attention are the same on the device", "[device][attention]") {
  OnDevice on;
  TwinMaker make(on, 63);
  for (int i = 0; i < 300; ++i) {
    const Sizes s = sizes_of(make);
    const DType dtype = any_of(make, kFloating);
    const Shape of_q = queries_by(s, s.depth), of_k = keys_by(s, s.depth),
                of_v = keys_by(s, s.width), of_out = queries_by(s, s.width);
    const Twins q = make.mild(of_q, dtype), k = make.mild(of_k, dtype), v = make.mild(of_v, dtype),
                grad = make.mild(of_out, dtype), out = make.mild(of_out, dtype),
                lse = make.mild({s.batch, s.heads, s.queries}, sum_type(dtype));
    const Twins grad_q = make.output(of_q, dtype), grad_k = make.output(of_k, dtype),
                grad_v = make.output(of_v, dtype);
    const AttentionOptions options{
        .scale = 0.3, .causal = make.number(0, 3) != 0, .causal_offset = make.number(-20, 30)};
    // The log-sums and results that belong to them.
    for (const bool device : {false, true}) {
      KernelContext cpu;
      attention(device ? on.ctx : cpu, side(q, device), side(k, device), side(v, device), options,
                side(out, device), side(lse, device));
    }
    const double tolerance = (is_half(dtype) ? 4 : 20) * tolerance_of(dtype);
    CAPTURE(i, s.batch, s.heads, s.queries, s.keys, s.depth, s.width, name_of(dtype),
            options.causal, options.causal_offset);
    check_gradients(on, {q, k, v, grad, out, lse, grad_q, grad_k, grad_v}, options, tolerance);
  }
}

// Of such a card's library takes them (kernels/attention_plan.h): their values are finite.
TEST_CASE("attention of long sequences is the same on the device, and its gradients",
          "[device][attention]") {
  OnDevice on;
  TwinMaker make(on, 66);
  for (int i = 0; i < 24; ++i) {
    const DType dtype = kFloating[i % std::size(kFloating)];
    const std::int64_t least = is_half(dtype) ? 64 : 128, even = is_half(dtype) ? 8 : 1;
    const Sizes s{make.number(1, 2),
                  make.number(1, 2),
                  make.number(least, 150),
                  make.number(least, 150),
                  even * make.number(1, 32 / even),
                  even * make.number(1, 32 / even)};
    const auto dense = [&](const Shape& shape, DType of) {
      const Twins view = make.mild(shape, of);
      if (!is_half(dtype)) return view;
      KernelContext cpu;
      return Twins{contiguous(cpu, view.host), contiguous(on.ctx, view.device)};
    };
    const Shape of_q = queries_by(s, s.depth), of_k = keys_by(s, s.depth),
                of_v = keys_by(s, s.width), of_out = queries_by(s, s.width);
    const Twins q = dense(of_q, dtype), k = dense(of_k, dtype), v = dense(of_v, dtype),
                grad = dense(of_out, dtype), out = dense(of_out, dtype),
                lse = dense({s.batch, s.heads, s.queries}, sum_type(dtype));
    const Twins grad_q = dense(of_q, dtype), grad_k = dense(of_k, dtype),
                grad_v = dense(of_v, dtype);
    const std::int64_t offsets[] = {0, s.keys - s.queries, s.keys, -9};
    const AttentionOptions options{
        .scale = 0.3, .causal = i % 5 != 0, .causal_offset = offsets[i % 4]};
    CAPTURE(i, s.heads, s.queries, s.keys, s.depth, s.width, name_of(dtype), options.causal,
            options.causal_offset);
    CHECK(compare(on, out, tolerance_for(dtype), [&](KernelContext& ctx, bool device) {
            attention(ctx, side(q, device), side(k, device), side(v, device), options,
                      side(out, device), side(lse, device));
          }) == "");
    CHECK(difference(fetch(on, lse.device), lse.host,
                     is_half(dtype) ? 1e-4 : 10 * tolerance_of(dtype)) == "");
    const double tolerance = (is_half(dtype) ? 4 : 20) * tolerance_of(dtype);
    check_gradients(on, {q, k, v, grad, out, lse, grad_q, grad_k, grad_v}, options, tolerance);
  }
}

// Of several rounds of scratch, of queries and of heads, all gradients.
TEST_CASE("gradients of attention have the same bits each time", "[device][attention]") {
  OnDevice on;
  TwinMaker make(on, 64);
  const std::int64_t rows = GENERATE(8, 35, 90);
  const Shape shape{2, 2, rows, 16};
  const Twins x = make.mild(shape, DType::kF32), lse = make.mild({2, 2, rows}, DType::kF32);
  std::vector<std::vector<double>> before;
  for (int round = 0; round < 2; ++round) {
    const AttentionGradients grads{make.output(shape, DType::kF32).device,
                                   make.output(shape, DType::kF32).device,
                                   make.output(shape, DType::kF32).device};
    attention_grad(on.ctx, x.device, x.device, x.device, x.device, x.device, lse.device, {}, grads);
    std::vector<std::vector<double>> now;
    for (const Array& grad : {grads.q, grads.k, grads.v})
      now.push_back(fetch(on, grad).to_vector());
    if (round > 0) CHECK(now == before);
    before = now;
  }
}

TEST_CASE("attention refuses what the processor refuses", "[device][attention]") {
  OnDevice on;
  TwinMaker make(on, 65);
  const Twins q = make.mild({1, 2, 3, 4}, DType::kF32), k = make.mild({1, 2, 5, 4}, DType::kF32),
              v = make.mild({1, 2, 5, 6}, DType::kF32),
              out = make.output({1, 2, 3, 6}, DType::kF32),
              lse = make.output({1, 2, 3}, DType::kF32);
  const auto attend = [&](const Twins& keys, const Twins& result, const Twins& sums) {
    return compare(on, result, 1e-5, [&](KernelContext& ctx, bool device) {
      attention(ctx, side(q, device), side(keys, device), side(v, device), {}, side(result, device),
                side(sums, device));
    });
  };
  CHECK(attend(k, out, lse) == "");
  CHECK(attend(v, out, lse) == "");
  CHECK(attend(make.mild({1, 2, 5, 4}, DType::kF16), out, lse) == "");
  CHECK(attend(k, make.output({1, 2, 3, 5}, DType::kF32), lse) == "");
  CHECK(attend(k, out, make.output({1, 2, 3}, DType::kF64)) == "");
  CHECK(compare(on, out, 1e-5, [&](KernelContext& ctx, bool device) {
          attention_grad(ctx, side(out, device), side(q, device), side(k, device), side(v, device),
                         side(out, device), side(lse, device), {},
                         {side(q, device), side(v, device), side(v, device)});
        }) == "");
}

}  // namespace tessera::testing
