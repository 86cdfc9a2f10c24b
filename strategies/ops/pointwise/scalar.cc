// Arithmetic of a tensor and a number given as an attribute.

#include "kernels/elementwise.h"
#include "strategies/ops/pointwise/pointwise.h"

namespace tessera {
namespace {

using ops::PointwiseDef;

/// Integers have no quotient by 0.
StatusOr<std::vector<TensorMeta>> infer_divided(std::span<const TensorMeta> inputs,
                                                const Attrs& attrs) {
  if (!is_floating(inputs[0].dtype) && attrs.get_double("value") == 0.0) {
    return invalid_argument("value is 0, by which " + std::string(name_of(inputs[0].dtype)) +
                            " has no quotient");
  }
  return ops::infer_elementwise(inputs, attrs);
}

std::vector<Sample> scalar_samples(double value) {
  return {{.shapes = {{8, 6}}, .attrs = {{"value", value}}},
          {.shapes = {{5, 3}}, .attrs = {{"value", -value}}},
          {.shapes = {{}}, .attrs = {{"value", value}}}};
}

OpDef scalar_op(PointwiseDef def) {
  def.args = {in("self").numbers()};
  def.attrs = {ops::element_attr("value")};
  if (def.samples.empty()) def.samples = scalar_samples(0.75);
  return ops::pointwise_op(def);
}

/// By the same op as the call's, for one that is linear.
Gradient same_of_cotangent(std::string name) {
  return [name = std::move(name)](GradContext& c) -> std::vector<Var> {
    return {c.call(name, {c.cotangent(0)}, {{"value", c.attrs().get_double("value")}})};
  };
}

void add_affine(OpTable& table) {
  // Not linear: with P(sum) the number would be added on every rank. A 0-d tensor is kept on one.
  table.must_add(scalar_op({.name = "add_scalar",
                            .doc = "Adds one number to every element.",
                            .rule = "* -> * | aff A | mono A",
                            .infer = ops::infer_elementwise,
                            .gradient = ops::cotangent_gradient}));

  OpDef mul = scalar_op(
      {.name = "mul_scalar",
       .doc = "Multiplies every element by one number.",
       .rule = "* -> * | lin A | mono A if value>0 | anti A if value<0",
       .infer = ops::infer_elementwise,
       .gradient = same_of_cotangent("mul_scalar"),
       .declined = {"P(max) -> P(max); P(min) -> P(min): integers wrap at their limits"}});
  mul.samples.push_back({.shapes = {{8, 6}},
                         .attrs = {{"value", 3}},
                         .dtypes = {DType::kI64},
                         .below = {5},
                         .differentiable = false});
  OpDef mul_in_place = mul;
  mul_in_place.name = "mul_scalar_";
  mul_in_place.doc = "Multiplies every element by one number, in place.";
  mul_in_place.rule = "* -> &A * | lin A | mono A if value>0";
  table.must_add(std::move(mul));
  table.must_add(std::move(mul_in_place));

  table.must_add(
      scalar_op({.name = "div_scalar",
                 .doc = "Divides every element by one number.",
                 .rule = "* -> * | lin A if value!=0 | mono A if value>0 | anti A if value<0",
                 .gradient = same_of_cotangent("div_scalar")}));
}

void add_differences(OpTable& table) {
  table.must_add(scalar_op({.name = "sub_scalar",
                            .doc = "Takes one number from every element.",
                            .rule = "* -> * | aff A | mono A",
                            .infer = ops::infer_elementwise,
                            .gradient = ops::cotangent_gradient}));

  table.must_add(ops::pointwise_op(
      {.name = "rsub_scalar",
       .doc = "value - alpha self.",
       .rule = "* -> * | lin A if value==0 | aff A | anti A if alpha>0 | mono A if alpha<0",
       .attrs = {ops::element_attr("value"), ops::element_attr("alpha", 1.0)},
       .attr_samples = {{{"value", 0.75}}, {{"value", 0.0}}, {{"value", -1.0}, {"alpha", -2.0}}}}));
}

/// Values of both signs, and integers.
std::vector<Sample> divided_samples() {
  return {{.shapes = {{8, 6}}, .attrs = {{"value", 0.4137}}},
          {.shapes = {{5, 3}}, .attrs = {{"value", -0.7319}}},
          {.shapes = {{7, 6}},
           .attrs = {{"value", 3.0}},
           .dtypes = {DType::kI64},
           .below = {20},
           .differentiable = false}};
}

void add_divisions(OpTable& table) {
  const auto add = [&](PointwiseDef def) {
    def.rule = "* -> *";
    def.infer = infer_divided;
    def.samples = divided_samples();
    table.must_add(scalar_op(std::move(def)));
  };
  add({.name = "floor_divide_scalar",
       .doc = "Quotient rounded towards -inf; 0 or -1 by an infinity.",
       .gradient = ops::zero_gradient,
       .declined = {
           "P(max) -> P(max); P(min) -> P(min): an infinity gives NaN, also on a rank that "
           "does not hold the extreme"}});
  add({.name = "remainder_scalar",
       .doc = "Remainder of the sign of value. Source: Python.",
       .gradient = ops::cotangent_gradient});
  add({.name = "fmod_scalar",
       .doc = "Remainder of the sign of self. Source: C.",
       .gradient = ops::cotangent_gradient,
       .declined = {"P(prod): remainders of factors do not multiply to that of the product"}});
}

void add_power_of_number(OpTable& table) {
  table.must_add(ops::pointwise_op(
      {.name = "scalar_pow",
       .doc = "One number to the power of each element; of 0 without slope where that is not "
              "negative.",
       .rule = "* -> * | mono A if self>=1",
       .attrs = {ops::double_attr("self")},
       .attr_samples = {{{"self", 0.4}}, {{"self", 2.5}}, {{"self", 1.3}}},
       .declined = {"P(sum) -> P(prod): no notation for a sum that becomes a product",
                    "P(max) -> P(min); P(min) -> P(max): between 0 and 1, and a guard compares "
                    "with one number"}}));
}

void add_pow(OpTable& table) {
  ops::add_pointwise(
      table,
      {{.name = "pow",
        .function = "pow_scalar",
        .doc = "Each element to a power given as a number; zeros and infinities as C's pow has "
               "them.",
        .rule = "* -> *",
        .attrs = {ops::double_attr("exponent")},
        .gradient = [](GradContext& c) -> std::vector<Var> {
          const double exponent = c.attrs().get_double("exponent");
          if (exponent == 0.0) return {Var{}};  // x^0 is 1, at x = 0 too
          const Var power = c.call("pow", {c.input(0)}, {{"exponent", exponent - 1.0}});
          const Var slope = c.call("mul_scalar", {power}, {{"value", exponent}});
          return {c.call("mul", {c.cotangent(0), slope})};
        },
        .saved_inputs = {0},
        .declined = {"P(max) -> P(max); P(min) -> P(min); P(prod) -> P(prod): right on "
                     "positive elements only"},
        .samples = {{.shapes = {{8, 6}}, .attrs = {{"exponent", 3.0}}, .positive = true},
                    {.shapes = {{5, 3}}, .attrs = {{"exponent", -0.5}}, .positive = true},
                    {.shapes = {{2, 8}}, .attrs = {{"exponent", 2.0}}},
                    {.shapes = {{4}}, .attrs = {{"exponent", 0.0}}}}}});
}

void add_clamp(OpTable& table) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  table.must_add(
      {.name = "clamp",
       .doc = "min(max(x, min), max); a NaN among the three wins, and at a bound there is no "
              "slope.",
       .args = {in("self").numbers()},
       .attrs = {ops::lower_bound_attr("min"), ops::upper_bound_attr("max")},
       .rule = "* -> * | mono A",
       .kernel =
           [](KernelCall& call) {
             kernels::clamp(call.ctx, call.inputs[0], call.attrs.get_double("min"),
                            call.attrs.get_double("max"), call.outputs[0]);
           },
       .infer = ops::infer_elementwise,
       .gradient = [](GradContext& c) -> std::vector<Var> {
         // An infinite bound is none, of an infinite element either.
         const double low = c.attrs().get_double("min"), high = c.attrs().get_double("max");
         Var inside;
         if (low != -kInfinity) inside = c.call("gt_scalar", {c.input(0)}, {{"value", low}});
         if (high != kInfinity) {
           const Var below = c.call("lt_scalar", {c.input(0)}, {{"value", high}});
           inside = inside.defined() ? c.call("logical_and", {inside, below}) : below;
         }
         if (!inside.defined()) return {c.cotangent(0)};
         return {c.call("where_scalar", {inside, c.cotangent(0)}, {{"other", 0.0}})};
       },
       .saved_inputs = {0},
       .samples = {{.shapes = {{8, 6}}, .attrs = {{"min", -0.537}, {"max", 0.537}}},
                   {.shapes = {{5, 3}}, .attrs = {{"min", 0.137}}},
                   {.shapes = {{1, 8}}, .attrs = {{"max", 0.237}}}}});
}

}  // namespace

void add_scalar_ops(OpTable& table) {
  add_affine(table);
  add_differences(table);
  add_divisions(table);
  add_power_of_number(table);
  add_pow(table);
  add_clamp(table);
  OpDef pow = ops::in_place_form(value_or_throw(table.find("pow"))->def);
  pow.rule += " | aff A if exponent==0";  // ones, which every rank holds whole
  table.must_add(std::move(pow));
  ops::add_in_place_forms(table, {"add_scalar", "sub_scalar", "div_scalar", "clamp",
                                  "floor_divide_scalar", "remainder_scalar"});
}

}  // namespace tessera
