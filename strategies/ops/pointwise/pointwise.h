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

/// Runs the function of that name of kernels/pointwise.h, which computes in F64, with all
/// attributes as numbers; else that of the lists of kernels/elementwise.h, which compute in the
/// operands' own type. "f_scalar" of those takes the first attribute as f's second operand.
Kernel pointwise_kernel(const std::string& name);
/// Cotangents by the functions "name'0", "name'1" … of the saved operands.
Gradient pointwise_gradient(std::string name);
/// No cotangent, where the function is constant almost everywhere.
std::vector<Var> zero_gradient(GradContext& context);

/// Where sample values must lie; operands are drawn from about −1.5 to 1.5.
struct Range {
  double low = -1.5;
  double high = 1.5;
};
/// The operand's cotangent, where the gradient reads one value.
using BySaved = Var (*)(GradContext& context, const Var& saved);
/// One op of broadcasting operands, computed by the function of its name.
struct PointwiseDef {
  std::string name;
  std::string function = {};  ///< where it is not the op's name
  std::string doc;
  std::string rule;
  std::vector<ArgDef> args = {};  ///< none: self, other, third
  std::vector<AttrDef> attrs = {};
  std::vector<Attrs> attr_samples = {};  ///< taken in turn; none: the defaults
  Infer infer = infer_floating;
  Gradient gradient = nullptr;  ///< none: by the next two, or by slopes of the op's name, if any
  BySaved by_input = nullptr;   ///< what reaches the operand, by that operand
  BySaved by_output = nullptr;  ///< the same by the result
  std::vector<int> saved_inputs = {};  ///< what `gradient` reads
  std::vector<int> saved_outputs = {};
  Range range = {};
  std::vector<int> finite = {};  ///< OpDef::finite
  std::vector<std::string> declined = {};
  std::vector<Sample> samples = {};  ///< none: even ones, uneven ones and ones of 3 dims
};
OpDef pointwise_op(const PointwiseDef& def);
void add_pointwise(OpTable& table, std::initializer_list<PointwiseDef> defs);
/// The same for integers: samples in [0, below) of I64, I32 and U8.
OpDef integer_op(const PointwiseDef& def, std::int64_t below);

/// Moves drawn values to `range`.
void move_to(Range range, std::vector<double>& values);
/// grad · value · factor, for a derivative that is one op of a saved value.
Var times(GradContext& context, Var value, double factor = 1.0);
/// The cotangent itself.
std::vector<Var> cotangent_gradient(GradContext& context);
/// One sample for each of the shapes.
std::vector<Sample> samples_of(const std::vector<std::vector<Shape>>& shapes);

/// The op in place on operand 0: named with a trailing `_`, result `&A`. Its gradient is dropped
/// where it reads that operand, which is gone.
OpDef in_place_form(const OpDef& functional);
/// Adds the in-place forms of ops that the table holds.
void add_in_place_forms(OpTable& table, std::initializer_list<std::string_view> functionals);

}  // namespace tessera::ops
