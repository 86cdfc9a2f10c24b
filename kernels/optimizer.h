// kernels/optimizer.h: fused optimizer updates on one rank's shards, and what steers them: values
// that change from step to step lie on the device, so that a step needs nothing of the host.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

/// Where weight decay acts: on the parameter itself (AdamW), or as part of the gradient (Adam, L2).
enum class WeightDecay : std::uint8_t { kDecoupled, kInGradient };

struct AdamWOptions {
  double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  std::int64_t step = 1;    ///< 1 for the first update
  double grad_scale = 1.0;  ///< clip factor, applied to the gradient on the way in
  WeightDecay decay = WeightDecay::kDecoupled;
};
/// p ← p(1 − lr·weight_decay); m, v updated; p −= lr·m̂/(√v̂ + eps). In place on param, m, v.
void adamw(KernelContext& ctx, const AdamWOptions& options, const Array& param, const Array& grad,
           const Array& m, const Array& v);

struct SgdOptions {
  double lr = 0, momentum = 0, dampening = 0, weight_decay = 0;
  enum class Momentum : std::uint8_t { kPlain, kNesterov } form = Momentum::kPlain;
  std::int64_t step = 1;    ///< 1 for the first update, which the buffer takes undamped
  double grad_scale = 1.0;  ///< clip factor, applied to the gradient on the way in
};
/// g ← g + weight_decay·p; with momentum b ← momentum·b + (1 − dampening)·g and g ← b, or
/// g + momentum·b for Nesterov; p −= lr·g. In place on param and buffer, which is null without
/// momentum.
void sgd(KernelContext& ctx, const SgdOptions& options, const Array& param, const Array& grad,
         const Array& buffer);

/// Places of a steering array: F64 (kSize), dense.
struct Steering {
  enum Place : std::uint8_t {
    kLr,         ///< before a group's own factor
    kGradScale,  ///< the clip factor
    kStep,       ///< 1 for the first update
    kGo,         ///< 0: nothing is updated
    kSize
  };
};

struct AdamWArrays {
  Array param, grad, m, v;
};
/// adamw() on each, on a device in one launch for all that are dense. lr and grad_scale count on
/// top of the steering's; step is the steering's.
void adamw_all(KernelContext& ctx, const AdamWOptions& options, std::span<const AdamWArrays> all,
               const Array& steering);
struct SgdArrays {
  Array param, grad, buffer;  ///< the last null without momentum
};
/// sgd() on each, likewise: a launch for those with a buffer, one for those without.
void sgd_all(KernelContext& ctx, const SgdOptions& options, std::span<const SgdArrays> all,
             const Array& steering);

/// When gradients are clipped, and when a step goes on.
struct StepLimits {
  double norm_type = 2.0;        ///< p of the gradients' norm; infinity: the largest
  double max_norm = 1.0;         ///< above which they are scaled down
  std::int64_t rows_bound = -1;  ///< of rows_needed; -1: none
};
/// What a step's passes came to. All F64, dense.
struct StepSums {
  Array schedule;          ///< at least (2): lr, and the number of the step
  Array sums;              ///< (2): the loss, and Σ|g|^p of all gradients, or the largest |g|
  Array rows_needed = {};  ///< rows that each layer needed; null where none is bounded
};
/// The norm, F64 (1), and the steering: the step goes on where loss and norm are finite and no
/// layer needed more rows than the bound; min(1, max_norm / (norm + 1e-6)) is its clip factor.
void steer_step(KernelContext& ctx, const StepLimits& limits, const StepSums& sums,
                const Array& norm, const Array& steering);

struct BiasUpdate {
  double coefficient = 0;
  bool centred = false;
};
/// bias_E += coefficient · sign(mean(counts) − counts), less the mean of that where it is centred;
/// unchanged where the steering says not to go on. counts_E: I64; bias_E: F32 or F64; dense.
void balance_bias(KernelContext& ctx, const BiasUpdate& update, const Array& counts_E,
                  const Array& steering, const Array& bias_E);

}  // namespace kernels
}  // namespace tessera
