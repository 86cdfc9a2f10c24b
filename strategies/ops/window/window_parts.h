// strategies/ops/window/window_parts.h: sliding windows on tensors whose windowed dims are cut:
// what a rank needs of its neighbours (a halo), and where its arrays stand. A window reads its
// input side and writes its output side; one of them is what a rank computes.
#pragma once

#include <string>
#include <string_view>

#include "kernels/window.h"
#include "strategies/rules/op.h"

namespace tessera::ops {

/// Entry `dim` of a list with one entry for all windowed dims, or one each; `otherwise` where
/// empty.
std::int64_t window_attr(const Attrs& attrs, std::string_view name, int dim,
                         std::int64_t otherwise);
/// No window is larger, and none moves farther: positions fit 64 bits.
inline constexpr std::int64_t kMostWindow = (std::int64_t{1} << 31) - 1;
/// Errors: InvalidArgument unless each list has no, one or `num_dims` entries from `least` to
/// kMostWindow.
Status check_window_attr(const Attrs& attrs, std::string_view name, int num_dims,
                         std::int64_t least);

/// The interval that `view`'s rank holds of a dim that is cut in order of coord.
Interval local_interval(const OperandView& view, int dim);
/// As kWindow steps take it.
std::vector<Interval> one_interval(Interval interval);

/// The whole tensors' sizes, and both sides' first positions, for a rank that computes...
/// ...its outputs from the inputs that they read;
kernels::WindowDim gathering(kernels::WindowDim window, Interval outs);
/// ...its inputs' cotangents from the outputs that read them.
kernels::WindowDim scattering(kernels::WindowDim window, Interval ins);

/// The letter of windowed dim `dim` of `num_dims` in rules: w is the last, h the one before.
std::string window_letter(int dim, int num_dims);
/// `x` with dims for height and width at its end: one of size 1 is put in where it has no height.
Array as_planes(const Array& x, int num_dims);

}  // namespace tessera::ops
