// kernels/reduce_folds.h: how two values of a reduction become one, and what a reduction asks of
// its operands, on every device.
#pragma once

#include <limits>
#include <span>
#include <type_traits>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_format.h"
#include "kernels/array.h"
#include "kernels/dtype_switch.h"
#include "kernels/fold_functions.h"
#include "placement/status.h"

namespace tessera::kernels {

/// Sums and products of floating values form in F64, of others in I64; extremes in the type itself.
template <class T>
using SumType = std::conditional_t<is_floating(dtype_of<T>()), double, std::int64_t>;

template <class T>
struct SumFold {
  using Value = SumType<T>;
  static constexpr Value kIdentity = 0;
  TSR_HOST_DEVICE static Value apply(Value a, Value b) { return folds::Sum::of(a, b); }
};
template <class T>
struct ProdFold {
  using Value = SumType<T>;
  static constexpr Value kIdentity = 1;
  TSR_HOST_DEVICE static Value apply(Value a, Value b) { return folds::Prod::of(a, b); }
};
/// What every value of T is at least (BOOL is 0 or 1).
template <class T>
constexpr ComputeType<T> lowest_of() {
  using C = ComputeType<T>;
  if constexpr (std::is_same_v<T, bool>) return C{0};
  if constexpr (std::is_floating_point_v<C>) return -std::numeric_limits<C>::infinity();
  return std::numeric_limits<C>::min();
}
template <class T>
constexpr ComputeType<T> highest_of() {
  using C = ComputeType<T>;
  if constexpr (std::is_same_v<T, bool>) return C{1};
  if constexpr (std::is_floating_point_v<C>) return std::numeric_limits<C>::infinity();
  return std::numeric_limits<C>::max();
}
template <class T>
struct MaxFold {
  using Value = ComputeType<T>;
  static constexpr Value kIdentity = lowest_of<T>();
  TSR_HOST_DEVICE static Value apply(Value a, Value b) { return folds::Max::of(a, b); }
};
template <class T>
struct MinFold {
  using Value = ComputeType<T>;
  static constexpr Value kIdentity = highest_of<T>();
  TSR_HOST_DEVICE static Value apply(Value a, Value b) { return folds::Min::of(a, b); }
};

/// Calls f with what folds by `op`: a template of the type of the elements.
template <class F>
void with_reduce_fold(ReduceOp op, const F& f) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return f.template operator()<SumFold>();
    case ReduceOp::kMax:
      return f.template operator()<MaxFold>();
    case ReduceOp::kMin:
      return f.template operator()<MinFold>();
    case ReduceOp::kProd:
      return f.template operator()<ProdFold>();
  }
}

/// Marks of the dims to reduce. Errors: InvalidArgument for a dim that does not exist.
inline absl::InlinedVector<bool, 6> reduced_marks(const Array& x, std::span<const int> dims) {
  absl::InlinedVector<bool, 6> marks(static_cast<std::size_t>(x.ndim()), false);
  for (const int dim : dims) {
    if (dim < 0 || dim >= x.ndim()) {
      throw Error(invalid_argument(
          absl::StrFormat("reduce: dim %d of an array of shape %s", dim, to_string(x.shape()))));
    }
    marks[static_cast<std::size_t>(dim)] = true;
  }
  return marks;
}

/// The output keeps reduced dims as 1 or lacks them.
inline void check_output(const Array& x, const absl::InlinedVector<bool, 6>& marks,
                         const Array& out) {
  Shape kept;
  Shape dropped;
  for (std::size_t d = 0; d < marks.size(); ++d) {
    kept.push_back(marks[d] ? 1 : x.shape()[d]);
    if (!marks[d]) dropped.push_back(x.shape()[d]);
  }
  if (out.shape() != kept && out.shape() != dropped) {
    throw Error(invalid_argument(
        absl::StrFormat("reduce: the output has shape %s, expected %s or %s",
                        to_string(out.shape()), to_string(dropped), to_string(kept))));
  }
}

}  // namespace tessera::kernels
