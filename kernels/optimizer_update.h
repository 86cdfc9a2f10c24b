// kernels/optimizer_update.h: what an optimizer's step does to one element, and what it asks of its
// operands, on every device. C is F64 or F32, the type of the update.
#pragma once

#include <cmath>

#include "kernels/dtype_switch.h"
#include "kernels/host_device.h"
#include "kernels/optimizer.h"
#include "kernels/strided_loop.h"

namespace tessera::kernels {

/// factor·x, but -0, which changes no sum, where the factor is 0: what is not to be taken counts
/// for nothing, whatever it is (a state before the first step, an infinite number).
template <class C>
[[gnu::always_inline]] TSR_HOST_DEVICE inline C taken(C factor, C x) {
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

inline void check_sgd(const Array& param, const Array& grad, const Array& buffer) {
  require_floating("sgd", param.dtype());
  require_shape("sgd", "grad", grad, param.shape());
  if (!buffer.is_null()) require_shape("sgd", "buffer", buffer, param.shape());
}

inline void check_adamw(const Array& param, const Array& grad, const Array& m, const Array& v) {
  require_floating("adamw", param.dtype());
  require_shape("adamw", "grad", grad, param.shape());
  require_shape("adamw", "m", m, param.shape());
  require_shape("adamw", "v", v, param.shape());
  const DType state = param.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  for (const Array* array : {&m, &v}) {
    if (array->dtype() == state || array->dtype() == DType::kBF16) continue;
    throw_dtype("adamw", array->dtype(), "BF16 or F32 state (F64 for F64)");
  }
}

}  // namespace tessera::kernels
