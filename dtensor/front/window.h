// dtensor/front/window.h: typed functions of the ops in strategies/ops/window/. Each throws Error,
// naming what was seen and what is allowed, for operands and attributes that its op does not take,
// before any collective.
// Made by scripts/op_pages from the op table; changes by hand are lost.
// clang-format off
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dtensor/dtensor.h"
#include "dtensor/keep_dim.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Averages of windows. Takes self: 1 to 63 dims. Rule: *w -> *w | w~ | lin A
DTensor adaptive_avg_pool1d(const DTensor& self, const Shape& output_size,
    const Site& site = Site::current());
/// Averages of windows. Takes self: 2 to 63 dims. Rule: *hw -> *hw | h~ w~ | lin A
DTensor adaptive_avg_pool2d(const DTensor& self, const Shape& output_size,
    const Site& site = Site::current());
/// Largest elements of windows that share out the dim, and where they stand. Takes self: 1 to 63
/// dims. Rule: *w -> *w, *w int | w~
std::pair<DTensor, DTensor> adaptive_max_pool1d(const DTensor& self, const Shape& output_size,
    const Site& site = Site::current());
/// Largest elements of windows that share out the dim, and where they stand. Takes self: 2 to 63
/// dims. Rule: *hw -> *hw, *hw int | h~ w~
std::pair<DTensor, DTensor> adaptive_max_pool2d(const DTensor& self, const Shape& output_size,
    const Site& site = Site::current());
struct AvgPool1dOptions {
  Shape stride = {};
  Shape padding = {};
  bool ceil_mode = false;
  bool count_include_pad = true;
  std::int64_t divisor_override = 0;
};
/// Averages of windows. Takes self: 1 to 63 dims. Rule: *w -> *w | w~ | lin A
DTensor avg_pool1d(const DTensor& self, const Shape& kernel_size,
    const AvgPool1dOptions& options = {}, const Site& site = Site::current());
struct AvgPool2dOptions {
  Shape stride = {};
  Shape padding = {};
  bool ceil_mode = false;
  bool count_include_pad = true;
  std::int64_t divisor_override = 0;
};
/// Averages of windows. Takes self: 2 to 63 dims. Rule: *hw -> *hw | h~ w~ | lin A
DTensor avg_pool2d(const DTensor& self, const Shape& kernel_size,
    const AvgPool2dOptions& options = {}, const Site& site = Site::current());
struct Conv1dOptions {
  Shape stride = {};
  Shape padding = {};
  Shape dilation = {};
  std::int64_t groups = 1;
};
/// Convolution of [n, c, …] with weight [o, c / groups, …], plus bias [o]. Takes input:
/// floating; weight: dtype of input; bias: dtype of input; groups: at least 1. Rule: b(gc)w,
/// (go)cj, (go)? -> b(go)w | c:sum w~ j! | lin A*B+C
DTensor conv1d(const DTensor& input, const DTensor& weight, const DTensor& bias = {},
    const Conv1dOptions& options = {}, const Site& site = Site::current());
struct Conv2dOptions {
  Shape stride = {};
  Shape padding = {};
  Shape dilation = {};
  std::int64_t groups = 1;
};
/// Convolution of [n, c, …] with weight [o, c / groups, …], plus bias [o]. Takes input:
/// floating; weight: dtype of input; bias: dtype of input; groups: at least 1. Rule: b(gc)hw,
/// (go)cij, (go)? -> b(go)hw | c:sum h~ w~ i! j! | lin A*B+C
DTensor conv2d(const DTensor& input, const DTensor& weight, const DTensor& bias = {},
    const Conv2dOptions& options = {}, const Site& site = Site::current());
struct ConvTranspose1dOptions {
  Shape stride = {};
  Shape padding = {};
  Shape dilation = {};
  std::int64_t groups = 1;
  Shape output_padding = {};
};
/// Transposed convolution of [n, c, …] with weight [c, o / groups, …], plus bias. Takes input:
/// floating; weight: dtype of input; bias: dtype of input; groups: at least 1. Rule: b(gc)w,
/// (gc)oj, (go)? -> b(go)w | c:sum w~ j! | lin A*B+C
DTensor conv_transpose1d(const DTensor& input, const DTensor& weight, const DTensor& bias = {},
    const ConvTranspose1dOptions& options = {}, const Site& site = Site::current());
struct ConvTranspose2dOptions {
  Shape stride = {};
  Shape padding = {};
  Shape dilation = {};
  std::int64_t groups = 1;
  Shape output_padding = {};
};
/// Transposed convolution of [n, c, …] with weight [c, o / groups, …], plus bias. Takes input:
/// floating; weight: dtype of input; bias: dtype of input; groups: at least 1. Rule: b(gc)hw,
/// (gc)oij, (go)? -> b(go)hw | c:sum h~ w~ i! j! | lin A*B+C
DTensor conv_transpose2d(const DTensor& input, const DTensor& weight, const DTensor& bias = {},
    const ConvTranspose2dOptions& options = {}, const Site& site = Site::current());
struct MaxPool1dOptions {
  Shape stride = {};
  Shape padding = {};
  Shape dilation = {};
  bool ceil_mode = false;
};
/// Largest elements of windows. Takes self: 1 to 63 dims. Rule: *w -> *w | w~ | max A
DTensor max_pool1d(const DTensor& self, const Shape& kernel_size,
    const MaxPool1dOptions& options = {}, const Site& site = Site::current());
struct MaxPool1dWithIndicesOptions {
  Shape stride = {};
  Shape padding = {};
  Shape dilation = {};
  bool ceil_mode = false;
};
/// Largest elements of windows, and where in the plane they stand; the first of equals, of NaN the
/// last. Takes self: 1 to 63 dims. Rule: *w -> *w, *w int | w~
std::pair<DTensor, DTensor> max_pool1d_with_indices(const DTensor& self, const Shape& kernel_size,
    const MaxPool1dWithIndicesOptions& options = {}, const Site& site = Site::current());
struct MaxPool2dOptions {
  Shape stride = {};
  Shape padding = {};
  Shape dilation = {};
  bool ceil_mode = false;
};
/// Largest elements of windows. Takes self: 2 to 63 dims. Rule: *hw -> *hw | h~ w~ | max A
DTensor max_pool2d(const DTensor& self, const Shape& kernel_size,
    const MaxPool2dOptions& options = {}, const Site& site = Site::current());
struct MaxPool2dWithIndicesOptions {
  Shape stride = {};
  Shape padding = {};
  Shape dilation = {};
  bool ceil_mode = false;
};
/// Largest elements of windows, and where in the plane they stand; the first of equals, of NaN the
/// last. Takes self: 2 to 63 dims. Rule: *hw -> *hw, *hw int | h~ w~
std::pair<DTensor, DTensor> max_pool2d_with_indices(const DTensor& self, const Shape& kernel_size,
    const MaxPool2dWithIndicesOptions& options = {}, const Site& site = Site::current());

}  // namespace tessera
