// kernels/extreme.h: which of two values arg_extreme prefers and what it asks of its operands, on
// every device.
#pragma once

#include "absl/strings/str_format.h"
#include "kernels/dtype_switch.h"
#include "kernels/reduce.h"
#include "kernels/strided_loop.h"
#include "placement/status.h"

namespace tessera::kernels {

/// Whether `value` is more of an extreme than the best before it; NaN is most.
template <Extreme Which, class C>
TSR_HOST_DEVICE bool beats(C value, C best) {
  if (best != best) return false;
  return value != value || (Which == Extreme::kMax ? value > best : value < best);
}

inline void require_extreme_outputs(const Array& x, int dim, const Array& values,
                                    const Array& indices) {
  Shape kept = x.shape();
  kept[static_cast<std::size_t>(dim)] = 1;
  Shape dropped = x.shape();
  dropped.erase(dropped.begin() + dim);
  for (const Array* out : {&values, &indices}) {
    if (out->is_null() || out->shape() == kept || out->shape() == dropped) continue;
    throw Error(invalid_argument(
        absl::StrFormat("arg_extreme: an output has shape %s, expected %s or %s",
                        to_string(out->shape()), to_string(dropped), to_string(kept))));
  }
  if (!values.is_null() && values.dtype() != x.dtype()) {
    throw_dtype("arg_extreme", values.dtype(), "the input's dtype for values");
  }
  if (indices.dtype() != DType::kI64)
    throw_dtype("arg_extreme", indices.dtype(), "I64 for indices");
}

/// False where there is nothing to write. Errors: InvalidArgument.
inline bool check_arg_extreme(const Array& x, int dim, const Array& values, const Array& indices) {
  require_dim("arg_extreme", x, dim);
  require_extreme_outputs(x, dim, values, indices);
  if (indices.num_elements() == 0) return false;
  if (x.size(dim) == 0) {
    throw Error(invalid_argument(
        absl::StrFormat("arg_extreme: dim %d of shape %s is empty", dim, to_string(x.shape()))));
  }
  return true;
}

}  // namespace tessera::kernels
