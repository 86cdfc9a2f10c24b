// Pointwise functions of one tensor. Only functions that are defined everywhere carry P(max): the
// other ranks' values lie below and may leave the domain of log or sqrt; those of P(min) lie above.
#include "kernels/elementwise.h"
#include "strategies/ops/pointwise/pointwise.h"

namespace tessera {
namespace {

using ops::PointwiseDef;
using ops::times;

const char kIncreasing[] = "* -> * | mono A";

std::vector<Sample> pointwise_samples(bool positive = false) {
  std::vector<Sample> samples = ops::samples_of({{{8, 6}}, {{5, 3}}, {{1, 8, 2}}});
  for (Sample& sample : samples) sample.positive = positive;
  return samples;
}

void add_all(OpTable& table, std::initializer_list<PointwiseDef> defs) {
  for (PointwiseDef def : defs) {
    if (def.samples.empty()) def.samples = pointwise_samples();
    table.must_add(ops::pointwise_op(def));
  }
}

void add_sign_functions(OpTable& table) {
  add_all(table,
          {{.name = "neg",
            .doc = "Minus each element.",
            .rule = "* -> * | lin A | anti A",
            .args = {in("self").numbers()},
            .infer = ops::infer_elementwise,
            .gradient = [](GradContext& c) -> std::vector<Var> {
              return {c.call("neg", {c.cotangent(0)})};
            }},
           {.name = "abs",
            .doc = "Magnitude of each element.",
            .rule = "* -> * | prod A",
            .args = {in("self").numbers()},
            .infer = ops::infer_elementwise,
            .by_input = [](GradContext& c, const Var& x) { return times(c, c.call("sign", {x})); }},
           {.name = "sign",
            .doc = "-1, 0 or 1 by the sign.",
            .rule = "* -> * | prod A",
            .infer = ops::infer_elementwise,
            .gradient = ops::zero_gradient,
            .declined = {"P(max); P(min): sign(NaN) is 0, so NaN would not win over the ranks"}}});
}

void add_rounding(OpTable& table) {
  add_all(table, {{.name = "floor",
                   .doc = "Largest integer that is not above.",
                   .rule = kIncreasing,
                   .gradient = ops::zero_gradient},
                  {.name = "ceil",
                   .doc = "Smallest integer that is not below.",
                   .rule = kIncreasing,
                   .gradient = ops::zero_gradient}});
}

void add_exponentials(OpTable& table) {
  add_all(table,
          {{.name = "exp",
            .doc = "e to the power of each element.",
            .rule = kIncreasing,
            .by_output = [](GradContext& c, const Var& y) { return times(c, y); },
            .declined = {"P(sum) -> P(prod): no notation for a sum that becomes a product"}},
           {.name = "log",
            .doc = "Natural logarithm.",
            .rule = "* -> * | min A",
            .by_input =
                [](GradContext& c, const Var& x) {
                  return c.call("div", {c.cotangent(0), x});
                },
            .samples = pointwise_samples(/*positive=*/true)},
           {.name = "sin",
            .doc = "Sine of each element, in radians.",
            .rule = "* -> *",
            .by_input = [](GradContext& c, const Var& x) { return times(c, c.call("cos", {x})); }},
           {.name = "cos",
            .doc = "Cosine of each element, in radians.",
            .rule = "* -> *",
            .by_input = [](GradContext& c, const Var& x) {
              return times(c, c.call("sin", {x}), -1.0);
            }}});
}

void add_powers(OpTable& table) {
  const std::vector<Sample> positive = pointwise_samples(/*positive=*/true);
  const std::vector<std::string> declined = {
      "P(min) -> P(max): decreasing on positive elements only"};
  add_all(table, {{.name = "square",
                   .doc = "Each element times itself.",
                   .rule = "* -> * | prod A",
                   .infer = ops::infer_elementwise,
                   .by_input = [](GradContext& c, const Var& x) { return times(c, x, 2.0); }},
                  {.name = "sqrt",
                   .doc = "Square root.",
                   .rule = "* -> * | min A",
                   .by_output =
                       [](GradContext& c, const Var& y) {
                         const Var quotient = c.call("div", {c.cotangent(0), y});
                         return c.call("mul_scalar", {quotient}, {{"value", 0.5}});
                       },
                   .samples = positive},
                  {.name = "rsqrt",
                   .doc = "One over the square root.",
                   .rule = "* -> *",
                   .by_output =
                       [](GradContext& c, const Var& y) {
                         const Var squared = c.call("square", {y});
                         return times(c, c.call("mul", {squared, y}), -0.5);
                       },
                   .declined = declined,
                   .samples = positive},
                  {.name = "reciprocal",
                   .doc = "One over each element.",
                   .rule = "* -> * | prod A",
                   .by_output = [](GradContext& c,
                                   const Var& y) { return times(c, c.call("square", {y}), -1.0); },
                   .declined = declined,
                   .samples = positive}});
}

void add_truth_functions(OpTable& table) {
  add_all(
      table,
      {{.name = "logical_not",
        .doc = "True where the element is zero or false.",
        .rule = "* -> *",
        .infer = ops::infer_predicate,
        .declined =
            {"P(max); P(min): decreasing for BOOL only, and the notation has no guard on dtypes"},
        .samples = {{.shapes = {{8, 6}}, .dtypes = {DType::kBool}},
                    {.shapes = {{5, 3}}, .dtypes = {DType::kBool}}}},
       {.name = "isnan",
        .function = "is_nan",
        .doc = "True where the element is not a number.",
        .rule = "* -> *",
        .infer = ops::infer_predicate}});
}

void add_copies(OpTable& table) {
  OpDef clone = {
      .name = "clone",
      .doc = "A copy in a new contiguous storage.",
      .args = {in("self")},
      .rule = "* -> * | lin A | mono A | prod A",
      .kernel = [](KernelCall& call) { kernels::copy(call.ctx, call.inputs[0], call.outputs[0]); },
      .infer = ops::infer_elementwise,
      .gradient = ops::cotangent_gradient,
      .samples = pointwise_samples()};
  OpDef contiguous = clone;
  contiguous.name = "contiguous";
  contiguous.doc =
      "The same values in a contiguous storage: the tensor itself where it is contiguous.";
  contiguous.is_view = true;
  contiguous.view_order = OpDef::ViewOrder::kRowMajorOrCopy;
  contiguous.kernel = [](KernelCall& call) {
    call.outputs[0] = kernels::contiguous(call.ctx, call.inputs[0]);
  };
  table.must_add(std::move(clone));
  table.must_add(std::move(contiguous));
}

}  // namespace

void add_unary_ops(OpTable& table) {
  add_sign_functions(table);
  add_rounding(table);
  add_exponentials(table);
  add_powers(table);
  add_truth_functions(table);
  add_copies(table);
  ops::add_in_place_forms(table, {"neg", "abs", "sign", "floor", "ceil", "exp", "log", "sin", "cos",
                                  "square", "sqrt", "rsqrt", "reciprocal"});
}

}  // namespace tessera
