// kernels/index_search.h: places in sorted sequences, counts of values, elements chosen by a mask.
#pragma once

#include <vector>

#include "kernels/array.h"
#include "kernels/index.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

enum class Side : std::uint8_t { kLeft, kRight };
/// out (I64 or I32): how many elements of the ascending line come before each value: those less
/// than it (kLeft), or less or equal (kRight); NaN counts as largest. `sorted` is one line for all
/// values, or its lines along the last dim stand beside those of `values`.
void searchsorted(KernelContext& ctx, const Array& sorted, const Array& values, Side side,
                  const Array& out);
/// out[v] = how many of x are v, or the sum of their weights (null: none). out is I64 or the dtype
/// of the weights. An index outside [0, size of out) throws OutOfRange naming its position.
void bincount(KernelContext& ctx, const Array& x, const Array& weights, Absent absent,
              const Array& out);
/// Row-major positions of the elements that are not 0.
std::vector<std::int64_t> nonzero_positions(KernelContext& ctx, const Array& x);

}  // namespace kernels
}  // namespace tessera
