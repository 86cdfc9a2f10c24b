// kernels/optimizer.h: fused optimizer updates on one rank's shards.
#pragma once

#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

struct AdamWOptions {
  double lr = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
  std::int64_t step = 1;    ///< 1 for the first update
  double grad_scale = 1.0;  ///< clip factor, applied to the gradient on the way in
};
/// p ← p(1 − lr·weight_decay); m, v updated; p −= lr·m̂/(√v̂ + eps). In place on param, m, v.
void adamw(KernelContext& ctx, const AdamWOptions& options, const Array& param, const Array& grad,
           const Array& m, const Array& v);

}  // namespace kernels
}  // namespace tessera
