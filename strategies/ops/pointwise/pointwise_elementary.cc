// Elementary and special functions of one tensor. Only functions that are defined everywhere carry
// P(max): the other ranks' values lie below and may leave the domain; those of P(min) lie above.
#include <limits>

#include "kernels/pointwise.h"
#include "strategies/ops/pointwise/pointwise.h"

namespace tessera {
namespace {

using ops::PointwiseDef;

const char kPlain[] = "* -> *";
const char kIncreasing[] = "* -> * | mono A";
const char kIncreasingAbove[] = "* -> * | min A";

void add_trigonometry(OpTable& table) {
  constexpr ops::Range kUnit = {-0.95, 0.95};
  ops::add_pointwise(
      table,
      {{.name = "tan", .doc = "Tangent, in radians.", .rule = kPlain, .range = {-4.0, 4.0}},
       {.name = "asin", .doc = "Inverse sine, in radians.", .rule = kPlain, .range = kUnit},
       {.name = "acos", .doc = "Inverse cosine, in radians.", .rule = kPlain, .range = kUnit},
       {.name = "atan", .doc = "Inverse tangent, in radians.", .rule = kIncreasing},
       {.name = "sinh", .doc = "Hyperbolic sine.", .rule = kIncreasing},
       {.name = "cosh", .doc = "Hyperbolic cosine.", .rule = kPlain},
       {.name = "asinh", .doc = "Inverse hyperbolic sine.", .rule = kIncreasing},
       {.name = "acosh",
        .doc = "Inverse hyperbolic cosine.",
        .rule = kIncreasingAbove,
        .range = {1.1, 4.0}},
       {.name = "atanh", .doc = "Inverse hyperbolic tangent.", .rule = kPlain, .range = kUnit},
       {.name = "deg2rad", .doc = "Degrees as radians.", .rule = "* -> * | lin A | mono A"},
       {.name = "rad2deg", .doc = "Radians as degrees.", .rule = "* -> * | lin A | mono A"},
       {.name = "sinc", .doc = "sin(pi x) / (pi x), 1 at 0.", .rule = kPlain}});
}

void add_exponentials(OpTable& table) {
  constexpr ops::Range kPositive = {0.2, 4.0};
  const std::string product =
      "P(sum) -> P(prod): no notation for a sum that becomes a product, which overflows sooner";
  ops::add_pointwise(table,
                     {{.name = "exp2",
                       .doc = "2 to the power of each element.",
                       .rule = kIncreasing,
                       .declined = {product}},
                      {.name = "expm1", .doc = "exp(x) - 1, exact near 0.", .rule = kIncreasing},
                      {.name = "log2",
                       .doc = "Logarithm to the base 2.",
                       .rule = kIncreasingAbove,
                       .range = kPositive},
                      {.name = "log10",
                       .doc = "Logarithm to the base 10.",
                       .rule = kIncreasingAbove,
                       .range = kPositive},
                      {.name = "log1p",
                       .doc = "log(1 + x), exact near 0.",
                       .rule = kIncreasingAbove,
                       .range = {-0.8, 3.0}},
                      {.name = "logit",
                       .doc = "log(x / (1 - x)) of x held between eps and 1 - eps; not held where "
                              "eps is negative.",
                       .rule = "* -> * | mono A if eps>=0",
                       .attrs = {ops::double_attr("eps", -1.0)},
                       .attr_samples = {{}, {{"eps", 0.0001}}, {{"eps", 0.2}}},
                       .range = {0.05, 0.95}}});
}

void add_special(OpTable& table) {
  ops::add_pointwise(table, {{.name = "erf", .doc = "Error function.", .rule = kIncreasing},
                             {.name = "erfc", .doc = "1 - erf(x).", .rule = "* -> * | anti A"},
                             {.name = "erfinv",
                              .doc = "Inverse of the error function.",
                              .rule = kPlain,
                              .range = {-0.9, 0.9}},
                             {.name = "lgamma",
                              .doc = "Logarithm of the gamma function's magnitude.",
                              .rule = kPlain,
                              .range = {0.3, 4.0}},
                             {.name = "digamma",
                              .doc = "Derivative of lgamma.",
                              .rule = kPlain,
                              .range = {0.4, 3.0},
                              .declined = {"P(min) -> P(min): increasing between two poles only"}},
                             {.name = "i0",
                              .doc = "Modified Bessel function of the first kind, order 0.",
                              .rule = kPlain}});
}

void add_rounding(OpTable& table) {
  constexpr ops::Range kWide = {-4.7, 4.9};
  const std::vector<ArgDef> numbers = {in("self").numbers()};
  for (PointwiseDef def : {PointwiseDef{.name = "trunc", .doc = "The whole part, towards 0."},
                           PointwiseDef{.name = "round",
                           .doc = "The nearest whole number, halves to the even one."}}) {
    def.rule = kIncreasing;
    def.args = numbers;
    def.infer = ops::infer_elementwise;
    def.range = kWide;
    OpDef op = ops::pointwise_op(def);
    op.gradient = ops::zero_gradient;  // beside the steps, which samples may meet
    table.must_add(std::move(op));
  }
  ops::add_pointwise(
      table, {{.name = "frac", .doc = "What trunc takes away.", .rule = kPlain, .range = kWide},
              {.name = "positive",
               .doc = "The same values.",
               .rule = "* -> * | lin A | mono A | prod A",
               .args = numbers,
               .infer = ops::infer_elementwise}});
}

/// A number of the result's dtype that is meant where the attribute is left out.
AttrDef double_attr_or_none(std::string name) {
  return {std::move(name), AttrDef::Type::kDouble, AttrValue{std::monostate{}}};
}

double largest_of(DType dtype) {
  if (dtype == DType::kF64) return std::numeric_limits<double>::max();
  if (dtype == DType::kF16) return 65504.0;
  const double largest = std::numeric_limits<float>::max();
  return dtype == DType::kBF16 ? 0x1.fep127 : largest;
}

void run_nan_to_num(KernelCall& call) {
  const double largest = largest_of(call.outputs[0].dtype());
  const double params[] = {call.attrs.get_double("nan"),
                           call.attrs.get_double_or("posinf", largest),
                           call.attrs.get_double_or("neginf", -largest)};
  kernels::pointwise(call.ctx, kernels::pointwise_function("nan_to_num"), call.inputs, params,
                     call.outputs[0]);
}

void add_nan_to_num(OpTable& table) {
  OpDef op = ops::pointwise_op(
      {.name = "nan_to_num",
       .doc = "Numbers for NaN and the infinities; by default 0 and the largest finite ones.",
       .rule = kPlain,
       .attrs = {ops::double_attr("nan", 0.0), double_attr_or_none("posinf"),
                 double_attr_or_none("neginf")},
       .attr_samples = {{}, {{"nan", 0.5}, {"posinf", 2.0}, {"neginf", -2.0}}, {{"nan", -1.0}}},
       .infer = ops::infer_elementwise,
       .by_input =
           [](GradContext& c, const Var& x) {
             return c.call("pointwise_grad", {c.cotangent(0), x}, {{"function", "nan_to_num'0"}});
           },
       .declined = {"P(sum); P(avg): infinite summands become finite ones",
                    "P(max); P(min): a NaN wins over the ranks, and becomes a number",
                    "P(prod): 0 times an infinity is NaN, and the infinity has become finite"}});
  op.kernel = run_nan_to_num;
  table.must_add(std::move(op));
}

void add_tests(OpTable& table) {
  const auto test = [&](std::string name, std::string doc, std::vector<std::string> declined) {
    OpDef op = ops::pointwise_op({.name = std::move(name),
                                  .doc = std::move(doc),
                                  .rule = kPlain,
                                  .infer = ops::infer_predicate,
                                  .declined = std::move(declined)});
    constexpr double kInf = std::numeric_limits<double>::infinity();
    for (Sample& sample : op.samples) {
      sample.adjust = [](int, const Shape&, std::vector<double>& values) {
        for (std::size_t i = 0; i < values.size(); i += 3) values[i] = i % 2 == 0 ? kInf : -kInf;
      };
    }
    table.must_add(std::move(op));
  };
  test("signbit", "True where the sign is negative, of -0 and NaN too.",
       {"P(max); P(min): a NaN wins over the ranks whatever its sign, and of 0 and -0 either"});
  test("isinf", "True where the element is infinite.",
       {"P(sum) -> P(max); P(avg) -> P(max); P(prod) -> P(max): two infinite summands may give "
        "NaN"});
  test("isfinite", "True where the element is neither infinite nor NaN.",
       {"P(sum) -> P(min); P(avg) -> P(min); P(prod) -> P(min): finite summands may overflow"});
  test("isposinf", "True where the element is +inf.",
       {"P(max); P(min): a NaN on one rank would win, and is not +inf",
        "P(sum) -> P(max); P(avg) -> P(max): an infinite summand may meet another, and give NaN"});
  test("isneginf", "True where the element is -inf.",
       {"P(max); P(min): a NaN on one rank would win, and is not -inf",
        "P(sum) -> P(max); P(avg) -> P(max): an infinite summand may meet another, and give NaN"});
}

}  // namespace

void add_pointwise_elementary_ops(OpTable& table) {
  add_trigonometry(table);
  add_exponentials(table);
  add_special(table);
  add_rounding(table);
  add_nan_to_num(table);
  add_tests(table);
  ops::add_in_place_forms(table, {"tan", "atan", "exp2", "expm1", "log2", "log10", "log1p", "erf",
                                  "trunc", "round", "frac", "nan_to_num"});
}

}  // namespace tessera
