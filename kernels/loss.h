// kernels/loss.h: losses of an input against a target, element by element, and their slopes.
// Arrays have one shape and are floating; values are computed in F64.
#pragma once

#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

enum class Loss : std::uint8_t {
  kSquared,            ///< (x − t)²
  kAbsolute,           ///< |x − t|
  kSmoothAbsolute,     ///< d²/2β below β, d − β/2 above, of d = |x − t|
  kHuber,              ///< d²/2 below δ, δ (d − δ/2) above
  kCrossEntropy,       ///< −t log x − (1 − t) log(1 − x), logarithms at least −100
  kLogitCrossEntropy,  ///< the same of sigmoid(x)
  kSoftMargin,         ///< log(1 + exp(−t x))
  kDivergence,         ///< t (log t − x), 0 for t = 0
  kPoisson             ///< exp(x) − t x
};
/// Which operand a slope is taken of.
enum class LossOperand : std::uint8_t { kInput, kTarget };
struct LossForm {
  Loss loss;
  double parameter = 1.0;  ///< β, δ
};

void loss(KernelContext& ctx, LossForm form, const Array& input, const Array& target,
          const Array& out);
struct LossSlope {
  const Array& grad;
  const Array& input;
  const Array& target;
};
/// out = grad · d loss / d operand
void loss_grad(KernelContext& ctx, LossForm form, LossOperand operand, const LossSlope& arrays,
               const Array& out);

}  // namespace kernels
}  // namespace tessera
