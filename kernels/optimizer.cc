#include "kernels/optimizer.h"

#include <cmath>

#include "kernels/block_map.h"
#include "kernels/kernel_table.h"
#include "kernels/parallel_loop.h"
#include "kernels/vector_math.h"
#include "kernels/vector_sqrt.h"

namespace tessera::kernels {
namespace {

/// factor·x, but -0, which changes no sum, where the factor is 0: what is not to be taken counts
/// for nothing, whatever it is (a state before the first step, an infinite number).
template <class C>
[[gnu::always_inline]] inline C taken(C factor, C x) {
  return factor == C{0} ? C{-0.0} : factor * x;
}

/// The update's factors, computed once in F64.
template <class C>
struct AdamWFactors {
  explicit AdamWFactors(const AdamWOptions& options)
      : keep(static_cast<C>(options.decay == WeightDecay::kDecoupled
                                ? 1.0 - options.lr * options.weight_decay
                                : 1.0)),
        in_gradient(
            static_cast<C>(options.decay == WeightDecay::kInGradient ? options.weight_decay : 0.0)),
        beta1(static_cast<C>(options.beta1)),
        one_minus_beta1(static_cast<C>(1.0 - options.beta1)),
        beta2(static_cast<C>(options.beta2)),
        one_minus_beta2(static_cast<C>(1.0 - options.beta2)),
        eps(static_cast<C>(options.eps)),
        grad_scale(static_cast<C>(options.grad_scale)) {
    const auto step = static_cast<double>(options.step);
    step_size = static_cast<C>(options.lr / (1.0 - std::pow(options.beta1, step)));
    root_correction = static_cast<C>(1.0 / std::sqrt(1.0 - std::pow(options.beta2, step)));
  }
  C keep, in_gradient, beta1, one_minus_beta1, beta2, one_minus_beta2, eps, grad_scale;
  C step_size{}, root_correction{};
};

/// One piece of at most kStagedElements: everything stays in the first-level cache between the two
/// loops.
template <class C>
void update_piece(const AdamWFactors<C>& f, const C* const* in, C* const* out, std::int64_t n) {
  alignas(64) C roots[kStagedElements];
  const C* param = in[0];
  const C* grad = in[1];
  const C* old_m = in[2];
  const C* old_v = in[3];
  C* new_param = out[0];
  C* m = out[1];
  C* v = out[2];
  const auto update_moments = [&](const auto& decay) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      const C g = grad[i] * f.grad_scale + decay(param[i]);
      m[i] = f.beta1 * old_m[i] + f.one_minus_beta1 * g;
      v[i] = f.beta2 * old_v[i] + f.one_minus_beta2 * g * g;
    }
  };
  if (f.in_gradient == C{0}) {
    update_moments([](C) { return C{0}; });
  } else {
    update_moments([&f](C p) { return f.in_gradient * p; });
  }
  square_roots(v, roots, n);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const C denominator = roots[i] * f.root_correction + f.eps;
    new_param[i] = param[i] * f.keep - f.step_size * (m[i] / denominator);
  }
}

template <class C>
void update_dense(const AdamWFactors<C>& f, C* const* arrays, std::int64_t begin,
                  std::int64_t end) {
  for (std::int64_t i = begin; i < end; i += kStagedElements) {
    C* out[] = {arrays[0] + i, arrays[2] + i, arrays[3] + i};
    const C* in[] = {arrays[0] + i, arrays[1] + i, arrays[2] + i, arrays[3] + i};
    update_piece(f, in, out, std::min(kStagedElements, end - i));
  }
}

template <class C>
struct SgdFactors {
  explicit SgdFactors(const SgdOptions& options)
      : lr(static_cast<C>(options.lr)),
        momentum(static_cast<C>(options.step == 1 ? 0.0 : options.momentum)),
        take(static_cast<C>(options.step == 1 ? 1.0 : 1.0 - options.dampening)),
        decay(static_cast<C>(options.weight_decay)),
        grad_scale(static_cast<C>(options.grad_scale)) {
    const bool nesterov = options.form == SgdOptions::Momentum::kNesterov;
    of_buffer = nesterov ? static_cast<C>(options.momentum) : C{1};
    of_grad = nesterov ? C{1} : C{0};
  }
  C lr, momentum, take, decay, grad_scale;
  C of_buffer{}, of_grad{};
};

template <class C>
void run_sgd(KernelContext& ctx, const SgdFactors<C>& f, const Array& param, const Array& grad) {
  BlockMap<C, 1, 2>("sgd", {&param, &param, &grad})
      .run(ctx.threads, [&f](const C* const* in, C* const* out, std::int64_t n) {
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) {
          const C g = in[1][i] * f.grad_scale + taken(f.decay, in[0][i]);
          out[0][i] = in[0][i] - f.lr * g;
        }
      });
}

template <class C>
void run_sgd_with_momentum(KernelContext& ctx, const SgdFactors<C>& f, const Array& param,
                           const Array& grad, const Array& buffer) {
  BlockMap<C, 2, 3>("sgd", {&param, &buffer, &param, &grad, &buffer})
      .run(ctx.threads, [&f](const C* const* in, C* const* out, std::int64_t n) {
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) {
          const C p = in[0][i];
          const C g = in[1][i] * f.grad_scale + taken(f.decay, p);
          const C b = taken(f.momentum, in[2][i]) + f.take * g;
          out[1][i] = b;
          out[0][i] = p - f.lr * (taken(f.of_grad, g) + f.of_buffer * b);
        }
      });
}

}  // namespace

void cpu::sgd(KernelContext& ctx, const SgdOptions& options, const Array& param, const Array& grad,
              const Array& buffer) {
  require_floating("sgd", param.dtype());
  require_shape("sgd", "grad", grad, param.shape());
  if (!buffer.is_null()) require_shape("sgd", "buffer", buffer, param.shape());
  const DType compute = param.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  visit_compute_type(compute, [&]<class C>(TypeTag<C>) {
    if constexpr (std::is_floating_point_v<C>) {
      const SgdFactors<C> factors(options);
      if (buffer.is_null()) return run_sgd(ctx, factors, param, grad);
      run_sgd_with_momentum(ctx, factors, param, grad, buffer);
    }
  });
}

void cpu::adamw(KernelContext& ctx, const AdamWOptions& options, const Array& param,
                const Array& grad, const Array& m, const Array& v) {
  require_floating("adamw", param.dtype());
  require_shape("adamw", "grad", grad, param.shape());
  require_shape("adamw", "m", m, param.shape());
  require_shape("adamw", "v", v, param.shape());
  const DType state = param.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  for (const Array* array : {&m, &v}) {
    if (array->dtype() == state || array->dtype() == DType::kBF16) continue;
    throw_dtype("adamw", array->dtype(), "BF16 or F32 state (F64 for F64)");
  }
  visit_compute_type(state, [&]<class C>(TypeTag<C>) {
    if constexpr (std::is_floating_point_v<C>) {
      const AdamWFactors<C> factors(options);
      const bool dense = param.dtype() == state && same_dense(grad, param) &&
                         same_dense(m, param) && same_dense(v, param);
      if (dense) {
        C* arrays[] = {param.data<C>(), grad.data<C>(), m.data<C>(), v.data<C>()};
        parallel_ranges(ctx.threads, param.num_elements(), 8192, 1,
                        [&](std::int64_t begin, std::int64_t end) {
                          update_dense(factors, arrays, begin, end);
                        });
        return;
      }
      const auto update = [&](const C* const* in, C* const* out, std::int64_t n) {
        for (std::int64_t i = 0; i < n; i += kStagedElements) {
          const C* inputs[] = {in[0] + i, in[1] + i, in[2] + i, in[3] + i};
          C* outputs[] = {out[0] + i, out[1] + i, out[2] + i};
          update_piece(factors, inputs, outputs, std::min(kStagedElements, n - i));
        }
      };
      BlockMap<C, 3, 4>("adamw", {&param, &m, &v, &param, &grad, &m, &v}).run(ctx.threads, update);
    }
  });
}

}  // namespace tessera::kernels
