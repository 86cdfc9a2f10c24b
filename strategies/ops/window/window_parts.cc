#include "strategies/ops/window/window_parts.h"

#include <algorithm>

#include "strategies/ops/product/product.h"
#include "strategies/rules/held_part.h"

namespace tessera::ops {

std::int64_t window_attr(const Attrs& attrs, std::string_view name, int dim,
                         std::int64_t otherwise) {
  const Shape list = attrs.get_ints_or(name, {});
  if (list.empty()) return otherwise;
  return list.size() == 1 ? list[0] : list[static_cast<std::size_t>(dim)];
}

Status check_window_attr(const Attrs& attrs, std::string_view name, int num_dims,
                         std::int64_t least) {
  const Shape list = attrs.get_ints_or(name, {});
  const bool counted =
      list.empty() || list.size() == 1 || static_cast<int>(list.size()) == num_dims;
  const auto fits = [least](std::int64_t value) { return value >= least && value <= kMostWindow; };
  if (counted && std::all_of(list.begin(), list.end(), fits)) return absl::OkStatus();
  return invalid_argument(std::string(name) + " is " + to_string(list) + "; need one entry, or " +
                          std::to_string(num_dims) + ", of at least " + std::to_string(least) +
                          " and below 2^31");
}

Interval local_interval(const OperandView& view, int dim) {
  const std::vector<Interval> held = held_part(view, dim).held;
  return held.empty() ? Interval{} : held.front();
}

std::vector<Interval> one_interval(Interval interval) {
  if (interval.start >= interval.stop) return {};
  return {interval};
}

kernels::WindowDim gathering(kernels::WindowDim window, Interval outs) {
  window.out_start = outs.start;
  window.in_start = window.inputs_of(outs).start;
  return window;
}

kernels::WindowDim scattering(kernels::WindowDim window, Interval ins) {
  window.in_start = ins.start;
  window.out_start = window.outputs_of(ins).start;
  return window;
}

std::string window_letter(int dim, int num_dims) { return dim + 1 == num_dims ? "w" : "h"; }

Array as_planes(const Array& x, int num_dims) {
  return num_dims == 2 ? x : with_unit_dim(x, x.ndim() - 1);
}

}  // namespace tessera::ops
