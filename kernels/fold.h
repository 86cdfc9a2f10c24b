// kernels/fold.h: element by element folds of several ranks' data, as all backends of the runtime
// form them. A fold goes in a given order in the accumulation type (BF16 in F32), so its bits do
// not depend on who folds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/stream_row.h"
#include "placement/api.h"
#include "placement/dtype.h"
#include "placement/plan.h"

namespace tessera TSR_API {

/// Errors: InvalidArgument for kAvg of a type without fractions.
Status check_fold(DType dtype, ReduceOp op);
/// kAvg is a sum divided by `divisor`; other kinds do not divide.
Fold fold_by(ReduceOp op, std::int64_t divisor) noexcept;

/// dst[i] = srcs[0][i] ∘ srcs[1][i] ∘ … for i in [0, n), then divided. NaN wins max and min; a sum
/// of BOOL is "or". dst may be one of the sources. Requires one source at least.
void fold(DType dtype, const Fold& how, std::span<const std::byte* const> srcs, std::byte* dst,
          std::int64_t n);

/// Where a fold goes: the same n elements to each of the targets.
struct FoldTargets {
  std::span<std::byte* const> targets;
  std::int64_t elements = 0;
  kernels::Stores stores = kernels::Stores::kCached;
};
/// The same to several targets, in pieces that stay in the cache; targets may be sources. After
/// streams the caller calls kernels::finish_streams().
void fold_to(DType dtype, const Fold& how, std::span<const std::byte* const> srcs,
             const FoldTargets& to);

/// The same piecewise, where sources cover the target unevenly: identities, then combine() in
/// order, then store(). Units: bytes of one accumulator element.
std::int64_t accumulator_size(DType dtype) noexcept;
void fill_identity(DType dtype, const Fold& how, std::byte* accumulator, std::int64_t n);
void combine(DType dtype, const Fold& how, std::byte* accumulator, const std::byte* src,
             std::int64_t n);
void store(DType dtype, const Fold& how, const std::byte* accumulator, std::byte* dst,
           std::int64_t n);

/// Elements of `dtype` that change nothing in a fold: −0.0 for a sum, −inf (or the lowest) for max.
void fill_identity_elements(DType dtype, ReduceOp op, std::byte* dst, std::int64_t n);

}  // namespace tessera
