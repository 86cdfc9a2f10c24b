// strategies/ops/view/view_window.h: ops that move elements along some dims: any cut of the other
// dims passes, and on one cut dim each rank fetches what its share of the result is made of.
#pragma once

#include <functional>
#include <vector>

#include "strategies/rules/op.h"

namespace tessera::ops {

/// The dims that a call moves elements along. Dims of the operand are the last of the result.
struct MovedDims {
  /// From the front, each once.
  std::function<StatusOr<std::vector<int>>(const Attrs&, std::size_t ndim)> dims;
  /// For intervals `result` of the dim at `position` of that list, of `size` in the operand: what
  /// is fetched.
  std::function<std::vector<Interval>(const Attrs& global, std::size_t position, std::int64_t size,
                                      const std::vector<Interval>& result)>
      windows;
  /// Makes the result of call.inputs[0], which was fetched along operand dim `dim`.
  void (*finish)(KernelCall& call, int dim) = nullptr;
};
/// Sets strategies, localize and lowerings. At most six dims may be moved.
void use_windows(OpDef& def, const MovedDims& moved);
/// The dims that a local call moves, from the front.
std::vector<int> moved_dims(const Attrs& local_attrs);

/// Elements `order` of dim `dim`, in that order.
Array taken(KernelCall& call, const Array& x, int dim, const std::vector<std::int64_t>& order);

}  // namespace tessera::ops
