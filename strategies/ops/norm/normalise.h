// strategies/ops/norm/normalise.h: what layer, batch, group and instance norm share. Each takes x,
// and weight and bias or none, and gives ((x − mean)·rstd·weight + bias, mean, rstd); they differ
// in the dims that the statistics run over and that the parameters carry.
#pragma once

#include <string>
#include <vector>

#include "strategies/ops/schema.h"

namespace tessera::ops {

/// One norm on one shape. Dims are those of `view`, x's shape as the statistics see it.
struct NormGeometry {
  Shape view;
  std::vector<int> statistics;  ///< dims that mean and rstd run over
  std::vector<int> parameters;  ///< dims that weight and bias carry
};
using GeometryFn = NormGeometry (*)(const Attrs&, const Shape& x);

struct NormOp {
  std::string name, doc;
  std::string rule, grad_rule;
  GeometryFn geometry;
  Status (*check)(const Attrs&, const Shape& x);  ///< before geometry is asked
  std::vector<AttrDef> attrs;
  std::vector<std::string> lowered;             ///< factors of the statistics that may be cut
  std::vector<int> grad_finite = {1, 2, 3, 4};  ///< OpDef::finite of the backward op
  std::vector<std::string> declined;
  std::vector<Sample> samples;  ///< of (x, weight, bias)
};
/// Adds the norm and its backward op, NAME_grad(grad, input, mean, rstd, weight?) → gradients of
/// input, weight, bias.
void add_norm_op(OpTable& table, const NormOp& norm);

}  // namespace tessera::ops
