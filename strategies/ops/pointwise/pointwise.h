// strategies/ops/pointwise/pointwise.h: how op definitions of pointwise functions are written: the
// kernel and the gradient come from the function's name, the attributes are its numbers in declared
// order.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "strategies/ops/schema.h"

namespace tessera::ops {

/// Runs kernels::pointwise_function(name) on all operands with all attributes as numbers.
Kernel pointwise_kernel(std::string name);
/// Cotangents by the functions "name'0", "name'1" … of the saved operands.
Gradient pointwise_gradient(std::string name);
/// No cotangent, where the function is constant almost everywhere.
std::vector<Var> zero_gradient(GradContext& context);

/// Where sample values must lie; operands are drawn from about −1.5 to 1.5.
struct Range {
  double low = -1.5;
  double high = 1.5;
};
/// One op of `operands` broadcasting operands named self, other …, computed by the function of its
/// name, with a gradient where slopes of that name exist. Samples are even, uneven and of 3 dims.
struct PointwiseDef {
  std::string name;
  std::string doc;
  std::string rule;
  std::vector<AttrDef> attrs = {};
  std::vector<Attrs> attr_samples = {};  ///< taken in turn; none: the defaults
  Infer infer = infer_floating;
  Range range = {};
  std::vector<std::string> declined = {};
};
OpDef pointwise_op(const PointwiseDef& def);
/// The same for integers: samples in [0, below) of I64, I32 and U8.
OpDef integer_op(const PointwiseDef& def, std::int64_t below);

/// Moves drawn values to `range`.
void move_to(Range range, std::vector<double>& values);
/// One sample for each of the shapes.
std::vector<Sample> samples_of(const std::vector<std::vector<Shape>>& shapes);

/// The op in place on operand 0: named with a trailing `_`, result `&A`. Its gradient is dropped
/// where it reads that operand, which is gone.
OpDef in_place_form(const OpDef& functional);
/// Adds the in-place forms of ops that the table holds.
void add_in_place_forms(OpTable& table, std::initializer_list<std::string_view> functionals);

}  // namespace tessera::ops
