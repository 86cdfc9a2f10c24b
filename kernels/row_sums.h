// kernels/row_sums.h: sums of rows picked by an index, each sum in a fixed order: how rows of
// several experts become one token again.
// Rows and slots are inverse lists: slot token·K + k holds row place_TK[token, k], row n belongs to
// slot slot_N[n]; −1 is none.
#pragma once

#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

/// out[t] = Σ_k weights[t, k] · rows[place[t, k]], k ascending; places of −1 add nothing. Weights
/// may be null (all 1), else F64 for F64 rows and F32 for others: the type of the sums. Shapes:
/// rows_ND, weights_TK, place_TK (I64), out_TD (the rows' dtype, or that of the sums); all
/// contiguous. Errors: InvalidArgument for other shapes or dtypes; OutOfRange for a place outside.
void weighted_row_sum(KernelContext& ctx, const Array& rows_ND, const Array& weights_TK,
                      const Array& place_TK, const Array& out_TD);

/// What both operands of weighted_row_sum() get from `grad_TD`: grad_rows[n] = weight · grad of its
/// token (0 without a slot), grad_weights[slot] = rows · grad (0 without a row).
struct RowSumGrads {
  Array rows_ND;
  Array weights_TK;
};
void weighted_row_sum_grad(KernelContext& ctx, const Array& rows_ND, const Array& weights_TK,
                           const Array& slot_N, const Array& grad_TD, const RowSumGrads& grads);

}  // namespace kernels
}  // namespace tessera
