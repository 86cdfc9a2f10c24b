// Arithmetic of a tensor and a number given as an attribute.

#include "kernels/elementwise.h"
#include "strategies/ops/pointwise/pointwise.h"

namespace tessera {
namespace {

using kernels::Binary;

template <Binary kOp>
void run_scalar(KernelCall& call) {
  kernels::binary_scalar(call.ctx, kOp, call.inputs[0], call.attrs.get_double("value"),
                         call.outputs[0]);
}

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

OpDef scalar_op(std::string name, std::string doc, std::string rule, Kernel kernel) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .args = {in("self").numbers()},
          .attrs = {ops::element_attr("value")},
          .rule = std::move(rule),
          .kernel = std::move(kernel),
          .infer = ops::infer_elementwise,
          .samples = scalar_samples(0.75)};
}

void add_affine(OpTable& table) {
  OpDef add = scalar_op("add_scalar", "Adds one number to every element.",
                        "* -> * | aff A | mono A", run_scalar<Binary::kAdd>);
  // Not linear: with P(sum) the number would be added on every rank. A 0-d tensor is kept on one.
  add.gradient = [](GradContext& c) -> std::vector<Var> { return {c.cotangent(0)}; };
  table.must_add(std::move(add));

  OpDef mul =
      scalar_op("mul_scalar", "Multiplies every element by one number.",
                "* -> * | lin A | mono A if value>0 | anti A if value<0", run_scalar<Binary::kMul>);
  mul.gradient = [](GradContext& c) -> std::vector<Var> {
    return {c.call("mul_scalar", {c.cotangent(0)}, {{"value", c.attrs().get_double("value")}})};
  };
  mul.declined = {"P(max) -> P(max); P(min) -> P(min): integers wrap at their limits"};
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

  OpDef div = scalar_op("div_scalar", "Divides every element by one number.",
                        "* -> * | lin A if value!=0 | mono A if value>0 | anti A if value<0",
                        run_scalar<Binary::kDiv>);
  div.infer = ops::infer_floating;
  div.gradient = [](GradContext& c) -> std::vector<Var> {
    return {c.call("div_scalar", {c.cotangent(0)}, {{"value", c.attrs().get_double("value")}})};
  };
  table.must_add(std::move(div));
}

void add_differences(OpTable& table) {
  OpDef sub = scalar_op("sub_scalar", "Takes one number from every element.",
                        "* -> * | aff A | mono A", run_scalar<Binary::kSub>);
  sub.gradient = [](GradContext& c) -> std::vector<Var> { return {c.cotangent(0)}; };
  table.must_add(std::move(sub));

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
  OpDef floor_divide =
      scalar_op("floor_divide_scalar", "Quotient rounded towards -inf; 0 or -1 by an infinity.",
                "* -> *", run_scalar<Binary::kFloorDivide>);
  floor_divide.declined = {
      "P(max) -> P(max); P(min) -> P(min): an infinity gives NaN, also on a rank that does not "
      "hold "
      "the extreme"};
  floor_divide.gradient = ops::zero_gradient;
  floor_divide.infer = infer_divided;
  floor_divide.samples = divided_samples();
  table.must_add(std::move(floor_divide));
  OpDef remainder = scalar_op("remainder_scalar", "Remainder of the sign of value. Source: Python.",
                              "* -> *", run_scalar<Binary::kRemainder>);
  remainder.gradient = [](GradContext& c) -> std::vector<Var> { return {c.cotangent(0)}; };
  remainder.infer = infer_divided;
  remainder.samples = divided_samples();
  OpDef fmod = remainder;
  fmod.name = "fmod_scalar";
  fmod.doc = "Remainder of the sign of self. Source: C.";
  fmod.kernel = ops::pointwise_kernel("fmod_scalar");
  fmod.declined = {"P(prod): remainders of factors do not multiply to that of the product"};
  table.must_add(std::move(remainder));
  table.must_add(std::move(fmod));
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
  table.must_add(
      {.name = "pow",
       .doc = "Each element to a power given as a number; zeros and infinities as C's pow has "
              "them.",
       .args = {in("self")},
       .attrs = {ops::double_attr("exponent")},
       .rule = "* -> *",
       .kernel =
           [](KernelCall& call) {
             kernels::binary_scalar(call.ctx, Binary::kPow, call.inputs[0],
                                    call.attrs.get_double("exponent"), call.outputs[0]);
           },
       .infer = ops::infer_floating,
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
                   {.shapes = {{4}}, .attrs = {{"exponent", 0.0}}}}});
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
