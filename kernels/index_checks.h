// kernels/index_checks.h: what the kernels of index.h, index_search.h and index_tuple.h ask of
// their operands but for the values of an index, on every device. Errors: InvalidArgument, naming
// the kernel.
#pragma once

#include "absl/strings/str_format.h"
#include "kernels/index_check.h"
#include "kernels/index_tuple.h"
#include "kernels/strided_loop.h"

namespace tessera::kernels {

/// `smaller` fits into `larger` in every dim but `dim`.
inline void require_within(std::string_view kernel, const Array& smaller, const Array& larger,
                           int dim) {
  bool good = smaller.ndim() == larger.ndim();
  for (int d = 0; good && d < larger.ndim(); ++d) {
    good = d == dim || smaller.size(d) <= larger.size(d);
  }
  if (good) return;
  throw Error(invalid_argument(
      absl::StrFormat("%s: index shape %s does not fit shape %s outside dim %d", to_absl(kernel),
                      to_string(smaller.shape()), to_string(larger.shape()), dim)));
}

inline void check_gather(const Array& x, int dim, const Array& index, const Array& out) {
  require_dim("gather", x, dim);
  require_within("gather", index, x, dim);
  require_shape("gather", "output", out, index.shape());
  if (out.dtype() != x.dtype()) throw_dtype("gather", out.dtype(), name_of(x.dtype()));
}

inline void check_scatter(std::string_view kernel, const Array& out, int dim, const Array& index,
                          const Array& src) {
  require_dim(kernel, out, dim);
  require_within(kernel, index, out, dim);
  if (src.ndim() != out.ndim()) require_shape(kernel, "src", src, index.shape());
  for (int d = 0; d < index.ndim(); ++d) {
    if (src.size(d) < index.size(d)) require_shape(kernel, "src", src, index.shape());
  }
  if (src.dtype() != out.dtype()) throw_dtype(kernel, src.dtype(), name_of(out.dtype()));
}

/// The first `shape` elements of every dim.
inline Array corner(const Array& x, const Shape& shape) {
  return x.as_strided(shape, x.strides(), x.offset());
}

/// x's shape with `count` entries along `dim`.
inline Shape with_size(const Array& x, int dim, std::int64_t count) {
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(dim)] = count;
  return shape;
}

/// For rows along `dim` of `whole` by a 1-D index, which `part` has all of.
inline void check_rows(std::string_view kernel, const Array& whole, int dim, const Array& index,
                       const Array& part) {
  require_dim(kernel, whole, dim);
  if (index.ndim() != 1) {
    throw Error(invalid_argument(absl::StrFormat("%s: the index has shape %s, expected one dim",
                                                 to_absl(kernel), to_string(index.shape()))));
  }
  require_shape(kernel, "the operand by rows", part, with_size(whole, dim, index.size(0)));
  if (part.dtype() != whole.dtype()) throw_dtype(kernel, part.dtype(), name_of(whole.dtype()));
}

/// rows is ids' shape and then D.
inline void check_embedding(std::string_view kernel, const Array& weight_VD, const Array& ids,
                            const Array& rows) {
  if (weight_VD.ndim() != 2) {
    throw Error(invalid_argument(absl::StrFormat("%s: the weight has shape %s, expected two dims",
                                                 to_absl(kernel), to_string(weight_VD.shape()))));
  }
  Shape expected = ids.shape();
  expected.push_back(weight_VD.size(1));
  require_shape(kernel, "the operand by ids", rows, expected);
}

inline void check_permute_rows(const Array& x_TD, const Array& tok_N, const Array& out_ND) {
  if (x_TD.ndim() != 2) {
    throw Error(invalid_argument("permute_rows: x has shape " + to_string(x_TD.shape()) +
                                 ", expected two dims"));
  }
  check_rows("permute_rows", x_TD, 0, tok_N, out_ND);
}

inline void check_searchsorted(const Array& sorted, const Array& values, const Array& out) {
  const bool one_line = sorted.ndim() == 1;
  bool fits = sorted.ndim() > 0 && (one_line || sorted.ndim() == values.ndim());
  for (int d = 0; fits && !one_line && d + 1 < sorted.ndim(); ++d) {
    fits = sorted.size(d) == values.size(d);
  }
  if (!fits) {
    throw Error(invalid_argument(absl::StrFormat(
        "searchsorted: the sorted sequence %s must have one dim, or all dims of values %s but the "
        "last",
        to_string(sorted.shape()), to_string(values.shape()))));
  }
  require_shape("searchsorted", "the result", out, values.shape());
}

/// check(index, IndexUse) looks at the values of each index, before what follows it is checked.
template <class Check>
void check_tuple(std::string_view kernel, const Array& x, const IndexTuple& tuple, Absent absent,
                 const Array& result, const Check& check) {
  for (std::size_t k = 0; k < tuple.dims.size(); ++k) {
    const Array& index = tuple.indices[k];
    if (index.dtype() != DType::kI64) throw_dtype(kernel, index.dtype(), "I64 for an index");
    require_shape(kernel, "an index", index, tuple.indices[0].shape());
    check(index, IndexUse{kernel, x.size(tuple.dims[k]), absent});
  }
  require_shape(kernel, "the operand by indices", result,
                tuple_shape(x.shape(), tuple.dims, tuple.indices[0].shape()));
  if (result.dtype() != x.dtype()) throw_dtype(kernel, result.dtype(), name_of(x.dtype()));
}

}  // namespace tessera::kernels
