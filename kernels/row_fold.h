// kernels/row_fold.h: reductions of rows (the last dim) of mapped elements: counts, norms, moments.
// Formed in F64 in the order of the row, each row by one thread, so that results have the same bits
// on any number of threads. Any strides and dtypes.
#pragma once

#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

enum class RowFold : std::uint8_t {
  kSumNumbers,    ///< sum of what is not NaN
  kCountNumbers,  ///< how many are not NaN
  kCountNonzero,  ///< NaN is not zero
  kAny,           ///< 1 if one is not zero
  kAll,           ///< 1 if none is zero
  kSumAbs,
  kSumSquares,
  kSumAbsPower,  ///< Σ |x|^power
  kMaxAbs,       ///< NaN wins; 0 of none
  kMinAbs        ///< NaN wins; inf of none
};
struct RowFolding {
  RowFold fold;
  double power = 0.0;
};
/// x (…, n) → out (…), cast to its dtype.
void fold_rows(KernelContext& ctx, RowFolding folding, const Array& x, const Array& out);

/// x (…, n) → others (…, n): for each element the product of all others of its row, and totals (…):
/// the product of the row; both contiguous, in F64. Without division, so that zeros and infinities
/// are factors like others.
void products_of_others(KernelContext& ctx, const Array& x, const Array& others,
                        const Array& totals);

/// Count, mean and sum of squared deviations from it of each row of a floating x (…, n): out
/// (3, …) in F64. The mean of none is 0. Source: Chan, Golub, LeVeque.
void row_moments(KernelContext& ctx, const Array& x, const Array& out);
/// Moments (p, 3, …) of p parts of each row → moments (3, …) of the whole.
void combine_moments(KernelContext& ctx, const Array& parts, const Array& out);

}  // namespace kernels
}  // namespace tessera
