// kernels/row_sums_checks.h: what the kernels of row_sums.h ask of their operands, on every device.
// Errors: InvalidArgument, naming the kernel.
#pragma once

#include "absl/strings/str_format.h"
#include "kernels/dtype_switch.h"
#include "kernels/row_sums.h"
#include "placement/status.h"

namespace tessera::kernels {

/// Calls f with tags of the rows' type and that of sums or cotangents, which is the same or the
/// type of computation.
template <class F>
void visit_row_sum_types(const char* kernel, DType rows, DType other, F&& f) {
  const auto with_rows = [&](auto row_tag) {
    using T = typename decltype(row_tag)::type;
    if (other == rows) return f(row_tag, row_tag);
    if (other == dtype_of<ComputeType<T>>()) return f(row_tag, TypeTag<ComputeType<T>>{});
    throw_dtype(kernel, other, "the rows' own, or F32 beside half precision");
  };
  if (rows == DType::kF64) return with_rows(TypeTag<double>{});
  if (rows == DType::kF32) return with_rows(TypeTag<float>{});
  if (rows == DType::kBF16) return with_rows(TypeTag<BFloat16>{});
  if (rows == DType::kF16) return with_rows(TypeTag<Float16>{});
  throw_dtype(kernel, rows, "F64, F32, BF16, F16");
}

inline void check_row_sum_operands(const char* kernel, const Array& rows, const Array& weights,
                                   const Array& tokens) {
  const bool fits = rows.ndim() == 2 && tokens.ndim() == 2 && rows.size(1) == tokens.size(1) &&
                    rows.is_contiguous() && tokens.is_contiguous();
  const DType sums = rows.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  const bool weighs =
      weights.is_null() || (weights.ndim() == 2 && weights.size(0) == tokens.size(0) &&
                            weights.dtype() == sums && weights.is_contiguous());
  if (fits && weighs) return;
  throw Error(invalid_argument(absl::StrFormat(
      "%s: rows %s %s, weights %s, tokens %s; wanted contiguous [N, D], [T, K] of %s and [T, D]",
      kernel, name_of(rows.dtype()), to_string(rows.shape()),
      weights.is_null() ? "none" : to_string(weights.shape()), to_string(tokens.shape()),
      name_of(sums))));
}

/// But for its values, which place_outside() is about.
inline void check_place_list(const char* kernel, const Array& places) {
  const bool fits = places.dtype() == DType::kI64 && places.is_contiguous();
  if (!fits) {
    throw Error(
        invalid_argument(absl::StrFormat("%s: places %s %s; wanted contiguous I64", kernel,
                                         name_of(places.dtype()), to_string(places.shape()))));
  }
}
inline Status place_outside(const char* kernel, std::int64_t place, std::int64_t position,
                            std::int64_t limit) {
  return out_of_range(absl::StrFormat("%s: place %d at position [%d] lies outside [-1, %d)", kernel,
                                      place, position, limit));
}

inline void check_row_sum_places(const Array& weights_TK, const Array& place_TK,
                                 const Array& out_TD) {
  if (place_TK.ndim() != 2 || place_TK.size(0) != out_TD.size(0) ||
      (!weights_TK.is_null() && weights_TK.shape() != place_TK.shape())) {
    throw Error(invalid_argument(
        absl::StrFormat("weighted_row_sum: places %s do not fit weights or %d tokens",
                        to_string(place_TK.shape()), out_TD.size(0))));
  }
}

inline void check_row_sum_grads(const Array& rows_ND, const Array& weights_TK, const Array& slot_N,
                                const RowSumGrads& grads) {
  if (slot_N.num_elements() != rows_ND.size(0) || grads.rows_ND.shape() != rows_ND.shape() ||
      grads.weights_TK.shape() != weights_TK.shape()) {
    throw Error(
        invalid_argument("weighted_row_sum_grad: gradients and slots must fit their operands"));
  }
}

}  // namespace tessera::kernels
