// dtensor/ops.h: the tensor API: a typed function for every op, by rule-driven dispatch, recorded
// for autograd. Most are made from the op table (dtensor/front/); here stand those that are more
// than one op. Every function throws Error on bad shapes or placements, before any collective.
// Names and attributes are ATen's.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "dtensor/dtensor.h"
#include "dtensor/front/activation.h"
#include "dtensor/front/attention.h"
#include "dtensor/front/create.h"
#include "dtensor/front/gradients.h"
#include "dtensor/front/in_place.h"
#include "dtensor/front/index.h"
#include "dtensor/front/loss.h"
#include "dtensor/front/norm.h"
#include "dtensor/front/pointwise.h"
#include "dtensor/front/product.h"
#include "dtensor/front/reduce.h"
#include "dtensor/front/view.h"
#include "dtensor/front/window.h"
#include "dtensor/keep_dim.h"
#include "placement/api.h"
#include "strategies/rules/attrs.h"

namespace tessera TSR_API {

/// Any op of the runtime's table, by name (also a user's own).
std::vector<DTensor> call(Runtime& runtime, std::string_view op, std::span<const DTensor> operands,
                          const Attrs& attrs = {}, const Site& site = Site::current());

/// Any op, its results written into `outs`, which keep their placements (out=). An op that cannot
/// give exactly those is refused before anything moves, with the rows that would work.
void call_into(std::span<const DTensor> outs, std::string_view op,
               std::span<const DTensor> operands, const Attrs& attrs = {},
               const Site& site = Site::current());

/// a (…, m, k), b (…, k, n) → (…, m, n). Leading dims broadcast; a vector is a row on the left, a
/// column on the right, and leaves no dim behind.
DTensor matmul(const DTensor& a, const DTensor& b, const Site& site = Site::current());
/// to(), or x itself where it has the dtype.
DTensor cast(const DTensor& x, DType dtype, const Site& site = Site::current());
/// Parts of these sizes along a dim, which they must add up to.
std::vector<DTensor> split(const DTensor& x, const Shape& sizes, std::int64_t dim,
                           const Site& site = Site::current());

/// Where random values come from, each by its global index.
struct RandomArgs {
  std::uint64_t seed = 0;
  std::string_view stream = {};  ///< a name, see kernels/random.h
};
DTensor& uniform_(DTensor& x, double low, double high, const RandomArgs& random);
DTensor& normal_(DTensor& x, double mean, double std, const RandomArgs& random);
struct TruncatedNormal {
  double mean = 0, std = 1, low = -2, high = 2;  ///< absolute bounds
};
DTensor& truncated_normal_(DTensor& x, const TruncatedNormal& args, const RandomArgs& random);

}  // namespace tessera
