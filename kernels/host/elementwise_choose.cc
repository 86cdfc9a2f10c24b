#include <cmath>
#include <limits>

#include "kernels/elementwise_ops.h"
#include "kernels/host/block_map.h"
#include "kernels/kernel_table.h"

namespace tessera::kernels {

using namespace functions;

namespace {

template <class C>
void swiglu_block(const C* const* in, C* const* out, std::int64_t n) {
  const C* gate = in[0];
  const C* up = in[1];
  C* to = out[0];
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) to[i] = Silu::apply(gate[i]) * up[i];
}

template <class C>
void swiglu_grad_block(const C* const* in, C* const* out, std::int64_t n) {
  const C* grad = in[0];
  const C* gate = in[1];
  const C* up = in[2];
  C* grad_gate = out[0];
  C* grad_up = out[1];
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const C s = Sigmoid::apply(gate[i]);
    const C g = grad[i];
    const C u = up[i];
    const C x = gate[i];
    grad_gate[i] = g * u * (s * mul_add(x, C{1} - s, C{1}));
    grad_up[i] = g * (x * s);
  }
}

}  // namespace

void cpu::clamp(KernelContext& ctx, const Array& x, double low, double high, const Array& out) {
  if (is_floating(x.dtype()) && (std::isnan(low) || std::isnan(high))) {
    return cpu::fill(ctx, std::numeric_limits<double>::quiet_NaN(), out);
  }
  visit_compute_type(x.dtype(), [&]<class C>(TypeTag<C>) {
    const C least = lower_bound_of<C>(low);
    const C most = upper_bound_of<C>(high);
    BlockMap<C, 1, 1>("clamp", {&out, &x})
        .run(ctx.threads, [least, most](const C* const* in, C* const* to, std::int64_t n) {
          const C* from = in[0];
          C* target = to[0];
#pragma omp simd
          for (std::int64_t i = 0; i < n; ++i) {
            const C value = from[i] < least ? least : from[i];
            target[i] = value > most ? most : value;
          }
        });
  });
}

void cpu::where(KernelContext& ctx, const Array& condition, const Array& a, const Array& b,
                const Array& out) {
  require_bool("where", condition);
  visit_compute_type(promote(a.dtype(), b.dtype()), [&]<class C>(TypeTag<C>) {
    BlockMap<C, 1, 3>("where", {&out, &condition, &a, &b})
        .run(ctx.threads, [](const C* const* in, C* const* to, std::int64_t n) {
          const C* chosen = in[0];
          const C* yes = in[1];
          const C* no = in[2];
          C* target = to[0];
#pragma omp simd
          for (std::int64_t i = 0; i < n; ++i) target[i] = chosen[i] != C{0} ? yes[i] : no[i];
        });
  });
}

void cpu::masked_fill(KernelContext& ctx, const Array& x, const Array& mask, double value,
                      const Array& out) {
  require_bool("masked_fill", mask);
  visit_compute_type(x.dtype(), [&]<class C>(TypeTag<C>) {
    const C filler = x.dtype() == DType::kBool ? static_cast<C>(value != 0.0) : convert<C>(value);
    BlockMap<C, 1, 2>("masked_fill", {&out, &x, &mask})
        .run(ctx.threads, [filler](const C* const* in, C* const* to, std::int64_t n) {
          const C* from = in[0];
          const C* masked = in[1];
          C* target = to[0];
#pragma omp simd
          for (std::int64_t i = 0; i < n; ++i) target[i] = masked[i] != C{0} ? filler : from[i];
        });
  });
}

void cpu::swiglu(KernelContext& ctx, const Array& gate, const Array& up, const Array& out) {
  const DType dtype = promote(gate.dtype(), up.dtype());
  require_floating("swiglu", dtype);
  visit_compute_type(dtype, [&]<class C>(TypeTag<C>) {
    if constexpr (std::is_floating_point_v<C>) {
      BlockMap<C, 1, 2>("swiglu", {&out, &gate, &up}).run(ctx.threads, swiglu_block<C>);
    }
  });
}

void cpu::swiglu_grad(KernelContext& ctx, const Array& grad, const Array& gate, const Array& up,
                      const Array& grad_gate, const Array& grad_up) {
  const DType dtype = promote(grad.dtype(), promote(gate.dtype(), up.dtype()));
  require_floating("swiglu_grad", dtype);
  visit_compute_type(dtype, [&]<class C>(TypeTag<C>) {
    if constexpr (std::is_floating_point_v<C>) {
      BlockMap<C, 2, 3>("swiglu_grad", {&grad_gate, &grad_up, &grad, &gate, &up})
          .run(ctx.threads, swiglu_grad_block<C>);
    }
  });
}

}  // namespace tessera::kernels
