// kernels/row_select.h: one element of each row (the last dim) by its rank in the row's order, with
// its I64 index. Ascending, NaN above all; of equals the lower index comes first.
#pragma once

#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

enum class NanRows : std::uint8_t {
  kWin,   ///< a row that holds NaN gives its first NaN
  kSkip,  ///< only numbers count; a row of none gives NaN
};

/// The k-th smallest (k from 1) of x (…, n) → values, indices (…). Requires 1 <= k <= n.
void kth_value(KernelContext& ctx, const Array& x, std::int64_t k, const Array& values,
               const Array& indices);
/// The lower of the two in the middle where n is even. Requires n >= 1.
void median(KernelContext& ctx, NanRows nan, const Array& x, const Array& values,
            const Array& indices);
/// The value that occurs most often, the smallest of such, at its last occurrence. Requires n >= 1.
void mode(KernelContext& ctx, const Array& x, const Array& values, const Array& indices);

/// Counts of x's elements in `out`'s size of equal bins over [low, high], the last one closed;
/// others, and NaN, do not count.
void histogram(KernelContext& ctx, const Array& x, double low, double high, const Array& out);

}  // namespace kernels
}  // namespace tessera
