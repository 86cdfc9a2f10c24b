// kernels/norm_checks.h: what the kernels of norm.h ask of their operands, on every device.
// Errors: InvalidArgument, naming the kernel.
#pragma once

#include "absl/strings/str_format.h"
#include "kernels/lines.h"
#include "placement/status.h"

namespace tessera::kernels {

/// `dim` from 0; out has x's shape.
inline int checked_dim(const char* op, int dim, const Array& x, const Array& out) {
  check_shape(op, "out", out, x.shape());
  const StatusOr<int> normal = normalize_dim(dim, x.ndim());
  return value_or_throw(normal);
}

inline void check_norm(const char* op, const Array& x, const Array& weight, const Array& rstd) {
  if (x.ndim() == 0) check_shape(op, "x", x, {1});
  const int last = x.ndim() - 1;
  check_shape(op, "weight", weight, {x.size(last)});
  check_shape(op, "rstd", rstd, without_dim(x.shape(), last));
}

/// The shape of the rows of (..., V) logits.
inline Shape rows_shape(const char* op, const Array& logits) {
  if (logits.ndim() == 0) check_shape(op, "logits", logits, {1});
  require_floating(op, logits.dtype());
  return without_dim(logits.shape(), logits.ndim() - 1);
}

/// The error for a target id that is none, at a row-major position.
inline Status bad_target(const char* op, std::int64_t id, std::int64_t position,
                         std::int64_t classes) {
  return out_of_range(absl::StrFormat(
      "%s: target %d at position %d; ids go from 0 to %d, and -1 for one held elsewhere", op, id,
      position, classes - 1));
}
inline void check_target_dtype(const char* op, const Array& target) {
  if (!is_index(target.dtype())) throw_dtype(op, target.dtype(), "I64, I32 for target ids");
}

inline void check_rope(const Array& x, const Array& cos, const Array& sin, const Array& out) {
  const int ndim = x.ndim();
  if (ndim < 3 || x.size(ndim - 1) % 2 != 0) {
    throw Error(invalid_argument(
        absl::StrFormat("rope: x %s; wanted [..., L, H, E] with an even E", to_string(x.shape()))));
  }
  const Shape table = {x.size(ndim - 3), x.size(ndim - 1) / 2};
  check_shape("rope", "cos", cos, table);
  check_shape("rope", "sin", sin, table);
  check_shape("rope", "out", out, x.shape());
}

}  // namespace tessera::kernels
