// kernels/product_checks.h: what the kernels of matmul.h ask of their operands, on every device;
// check_product_dtypes() has their dtypes. Errors: InvalidArgument, naming the kernel and the
// shapes.
#pragma once

#include <algorithm>

#include "absl/strings/str_format.h"
#include "kernels/array.h"
#include "placement/status.h"

namespace tessera::kernels {

inline std::int64_t rows_of(const Array& x) { return x.size(x.ndim() - 2); }
inline std::int64_t cols_of(const Array& x) { return x.size(x.ndim() - 1); }

inline void check_product_shapes(const Array& a, const Array& b, const Array& out) {
  bool fits = a.ndim() >= 2 && b.ndim() >= 2 && out.ndim() == std::max(a.ndim(), b.ndim());
  fits =
      fits && cols_of(a) == rows_of(b) && rows_of(out) == rows_of(a) && cols_of(out) == cols_of(b);
  for (const Array* x : {&a, &b}) {
    for (int dim = 0; fits && dim < x->ndim() - 2; ++dim) {
      const std::int64_t wanted = out.size(dim + out.ndim() - x->ndim());
      fits = x->size(dim) == wanted || x->size(dim) == 1;
    }
  }
  if (fits) return;
  throw Error(invalid_argument(
      absl::StrFormat("matmul: %s · %s into %s; wanted [..., m, k] · [..., k, n] into [..., m, n] "
                      "with leading dims "
                      "that broadcast to the result's",
                      to_string(a.shape()), to_string(b.shape()), to_string(out.shape()))));
}

inline void check_grouped_shapes(const char* op, const Array& x, const Array& w,
                                 const Array& counts, const Array& y) {
  const bool fits = x.ndim() == 2 && w.ndim() == 3 && y.ndim() == 2 && counts.ndim() == 1 &&
                    counts.dtype() == DType::kI64 && counts.size(0) == w.size(0) &&
                    x.size(0) == y.size(0) && x.size(1) == w.size(1) && y.size(1) == w.size(2);
  if (fits) return;
  throw Error(invalid_argument(
      absl::StrFormat("%s: rows %s and %s, weights %s, counts %s %s; wanted [T, K] and [T, N], [E, "
                      "K, N] and I64 [E]",
                      op, to_string(x.shape()), to_string(y.shape()), to_string(w.shape()),
                      name_of(counts.dtype()), to_string(counts.shape()))));
}

/// The error for a group of `rows` rows that begins at row `begin` of `total_rows`.
inline Status bad_count(const char* op, std::int64_t group, std::int64_t rows, std::int64_t begin,
                        std::int64_t total_rows) {
  return out_of_range(absl::StrFormat(
      "%s: counts[%d] = %d after %d rows; counts must be >= 0 and add up to at most the %d rows "
      "given",
      op, group, rows, begin, total_rows));
}

}  // namespace tessera::kernels
