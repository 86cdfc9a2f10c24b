// kernels/optimizer_update.h: what an optimizer's step does to one element, and what it asks of its
// operands, on every device. C is F64 or F32, the type of the update.
#pragma once

#include <cmath>
#include <string>

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

/// With what the steering says of this step.
template <class Options>
TSR_HOST_DEVICE inline Options steered(Options options, const double* steering) {
  options.lr *= steering[Steering::kLr];
  options.grad_scale *= steering[Steering::kGradScale];
  options.step = static_cast<std::int64_t>(steering[Steering::kStep]);
  return options;
}

/// The update's factors, computed once in F64.
template <class C>
struct AdamWFactors {
  AdamWFactors() = default;
  TSR_HOST_DEVICE explicit AdamWFactors(const AdamWOptions& options)
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
  C step_size, root_correction;
};

template <class C>
struct SgdFactors {
  SgdFactors() = default;
  TSR_HOST_DEVICE explicit SgdFactors(const SgdOptions& options)
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
  C of_buffer, of_grad;
};

/// The norm of gradients from Σ|g|^p.
TSR_HOST_DEVICE inline double norm_of(double power, double norm_type) {
  if (norm_type == 2.0) return std::sqrt(power);
  if (norm_type == 1.0 || std::isinf(norm_type)) return power;
  return std::pow(power, 1.0 / norm_type);
}
TSR_HOST_DEVICE inline double clip_factor_of(double norm, double max_norm) {
  const double factor = max_norm / (norm + 1e-6);
  return factor < 1.0 ? factor : 1.0;
}
/// steer_step(), of plain pointers.
struct StepSteering {
  StepLimits limits;
  const double *schedule, *sums, *rows_needed;
  std::int64_t layers;
  double *norm, *steering;

  TSR_HOST_DEVICE void operator()() const {
    *norm = norm_of(sums[1], limits.norm_type);
    bool go = std::isfinite(sums[0]) && std::isfinite(*norm);
    for (std::int64_t layer = 0; layer < layers && limits.rows_bound >= 0; ++layer) {
      go = go && rows_needed[layer] <= static_cast<double>(limits.rows_bound);
    }
    steering[Steering::kLr] = schedule[0];
    steering[Steering::kGradScale] = clip_factor_of(*norm, limits.max_norm);
    steering[Steering::kStep] = schedule[1];
    steering[Steering::kGo] = go ? 1.0 : 0.0;
  }
};

/// How far each expert is from the mean load.
struct LoadGaps {
  BiasUpdate update;
  const std::int64_t* counts;
  std::int64_t num_experts;

  TSR_HOST_DEVICE double total() const {
    double sum = 0;
    for (std::int64_t e = 0; e < num_experts; ++e) sum += static_cast<double>(counts[e]);
    return sum;
  }
  TSR_HOST_DEVICE int sign(std::int64_t expert, double mean) const {
    const double gap = mean - static_cast<double>(counts[expert]);
    return (gap > 0) - (gap < 0);
  }
  /// What is taken from each step, so that all add up to nothing.
  TSR_HOST_DEVICE double centre(double mean) const {
    if (!update.centred) return 0;
    std::int64_t sum = 0;
    for (std::int64_t e = 0; e < num_experts; ++e) sum += sign(e, mean);
    return update.coefficient * static_cast<double>(sum) / static_cast<double>(num_experts);
  }
};

inline void require_f64_list(const char* kernel, const char* name, const Array& list,
                             std::int64_t least) {
  if (list.dtype() != DType::kF64) throw_dtype(kernel, list.dtype(), "F64");
  if (list.is_contiguous() && list.num_elements() >= least) return;
  throw Error(invalid_argument(std::string(kernel) + ": " + name + " has shape " +
                               to_string(list.shape()) + "; at least " + std::to_string(least) +
                               " elements, dense, are needed"));
}
inline void check_steer_step(const StepSums& sums, const Array& norm, const Array& steering) {
  require_f64_list("steer_step", "schedule", sums.schedule, 2);
  require_f64_list("steer_step", "sums", sums.sums, 2);
  if (!sums.rows_needed.is_null()) {
    require_f64_list("steer_step", "rows_needed", sums.rows_needed, 0);
  }
  require_f64_list("steer_step", "norm", norm, 1);
  require_f64_list("steer_step", "steering", steering, Steering::kSize);
}
inline void check_balance_bias(const Array& counts_E, const Array& steering, const Array& bias_E) {
  require_f64_list("balance_bias", "steering", steering, Steering::kSize);
  if (bias_E.dtype() != DType::kF32 && bias_E.dtype() != DType::kF64) {
    throw_dtype("balance_bias", bias_E.dtype(), "F32 or F64");
  }
  require_shape("balance_bias", "bias", bias_E, counts_E.shape());
  if (counts_E.dtype() != DType::kI64) throw_dtype("balance_bias", counts_E.dtype(), "I64 counts");
  if (counts_E.is_contiguous() && bias_E.is_contiguous()) return;
  throw Error(invalid_argument("balance_bias: counts and bias must be dense"));
}

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
