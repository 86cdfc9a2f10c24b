// kernels/select_checks.h: what the kernels of select.h ask of their operands, on every device.
// Errors: InvalidArgument, naming the kernel.
#pragma once

#include <algorithm>
#include <string_view>

#include "absl/strings/str_format.h"
#include "kernels/dtype_switch.h"
#include "kernels/strided_loop.h"
#include "placement/status.h"

namespace tessera::kernels {

inline void check_selected(std::string_view kernel, const Array& x, const Array& values,
                           const Array& indices) {
  require_shape(kernel, "indices", indices, values.shape());
  if (values.dtype() != x.dtype()) throw_dtype(kernel, values.dtype(), name_of(x.dtype()));
  if (indices.dtype() != DType::kI64) throw_dtype(kernel, indices.dtype(), "I64 for indices");
}
inline void check_topk(const Array& x, int dim, const Array& values, const Array& indices) {
  require_dim("topk", x, dim);
  check_selected("topk", x, values, indices);
  Shape expected = x.shape();
  const auto d = static_cast<std::size_t>(dim);
  if (values.ndim() == x.ndim()) expected[d] = std::min(values.shape()[d], x.shape()[d]);
  require_shape("topk", "values", values, expected);
}
inline void check_sort(const Array& x, int dim, const Array& values, const Array& indices) {
  require_dim("sort", x, dim);
  check_selected("sort", x, values, indices);
  require_shape("sort", "values", values, x.shape());
}

inline void check_sort_by_key(const Array& keys_N, std::int64_t num_keys,
                              const Array& permutation_N, const Array& counts_E) {
  if (!is_index(keys_N.dtype())) throw_dtype("sort_by_key", keys_N.dtype(), "I64, I32 for keys");
  for (const Array* out : {&permutation_N, &counts_E}) {
    if (out->dtype() != DType::kI64) throw_dtype("sort_by_key", out->dtype(), "I64 for outputs");
  }
  if (keys_N.ndim() != 1) {
    throw Error(invalid_argument("sort_by_key: the keys have shape " + to_string(keys_N.shape()) +
                                 ", expected one dim"));
  }
  require_shape("sort_by_key", "permutation", permutation_N, keys_N.shape());
  require_shape("sort_by_key", "counts", counts_E, {num_keys});
}
/// The error for a key that is none.
inline Status bad_key(std::int64_t key, std::int64_t position, std::int64_t num_keys) {
  return out_of_range(absl::StrFormat("sort_by_key: key %d at position [%d] lies outside [0, %d)",
                                      key, position, num_keys));
}

}  // namespace tessera::kernels
