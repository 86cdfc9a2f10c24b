// kernels/scan.h: running folds along a dim, and how ranks that hold one interval of it each join
// them: a part is the fold of what a rank holds, a carry the fold of all parts before it.
#pragma once

#include "kernels/array.h"
#include "kernels/reduce.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

enum class Scan : std::uint8_t { kSum, kProd, kLogSumExp };

/// out_i = fold of x_0 … x_i along `dim`, formed in F64 (integers in I64).
void scan(KernelContext& ctx, Scan fold, const Array& x, int dim, const Array& out);
/// out_i = x_i + … + x_last along `dim`, formed likewise: what an element of a running sum is part
/// of.
void sum_back(KernelContext& ctx, const Array& x, int dim, const Array& out);
/// Parts (p, other dims...): out_i = fold(parts[0] … parts[count − 1], out_i).
void carry_scan(KernelContext& ctx, Scan fold, const Array& parts, std::int64_t count, int dim,
                const Array& out);

/// The extreme so far and its index; NaN counts as it, and the last of equals wins (as torch has
/// it).
void scan_extreme(KernelContext& ctx, Extreme which, const Array& x, int dim, const Array& values,
                  const Array& indices);
/// Parts (p, other dims...) with their indices, −1 for a part of no element.
struct ExtremeParts {
  const Array& values;
  const Array& indices;
  std::int64_t count;  ///< how many come before
};
void carry_extreme(KernelContext& ctx, Extreme which, const ExtremeParts& parts, int dim,
                   const Array& values, const Array& indices);

/// The gradient of a log-sum-exp scan in two halves, none of whose exponents is positive.
/// s_i = Σ_{j ≥ i} grad_j exp(result_i − result_j), of this rank's elements:
void log_scan_sums(KernelContext& ctx, const Array& grad, const Array& result, int dim,
                   const Array& sums);
/// grad_x_i = exp(x_i − result_i) (s_i + what the parts from `next` on add), in place of s. Parts
/// (p, other dims...) hold each rank's first result and the s of it, -0.0 of a rank without
/// elements, in F64.
struct LogScan {
  const Array& x;
  const Array& result;
};
struct LogScanParts {
  const Array& results;
  const Array& sums;
  std::int64_t next;
};
void log_scan_grad(KernelContext& ctx, const LogScan& scan, const LogScanParts& parts, int dim,
                   const Array& sums);

}  // namespace kernels
}  // namespace tessera
