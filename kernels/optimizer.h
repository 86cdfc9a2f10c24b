// kernels/optimizer.h: fused optimizer updates on one rank's shards.
#pragma once

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

}  // namespace kernels
}  // namespace tessera
