// Pointwise functions of one tensor. Only functions that are defined everywhere carry P(max): the
// other ranks' values lie below and may leave the domain of log or sqrt; those of P(min) lie above.
#include "kernels/elementwise.h"
#include "strategies/ops/pointwise/pointwise.h"

namespace tessera {
namespace {

using kernels::Unary;

template <Unary kOp>
void run_unary(KernelCall& call) {
  kernels::unary(call.ctx, kOp, call.inputs[0], call.outputs[0]);
}

std::vector<Sample> pointwise_samples() {
  return {{.shapes = {{8, 6}}}, {.shapes = {{5, 3}}}, {.shapes = {{1, 8, 2}}}};
}
std::vector<Sample> positive_samples() {
  std::vector<Sample> samples = pointwise_samples();
  for (Sample& sample : samples) sample.positive = true;
  return samples;
}

/// grad · f(saved) for a derivative that is one op of a saved value.
Var times(GradContext& c, Var value, double factor = 1.0) {
  Var grad = c.call("mul", {c.cotangent(0), value});
  return factor == 1.0 ? grad : c.call("mul_scalar", {grad}, {{"value", factor}});
}

OpDef unary(std::string name, std::string doc, std::string rule, Kernel kernel) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .args = {in("self")},
          .rule = std::move(rule),
          .kernel = std::move(kernel),
          .infer = ops::infer_floating,
          .samples = pointwise_samples()};
}

void add_sign_functions(OpTable& table) {
  OpDef neg = ops::of_numbers(
      unary("neg", "Minus each element.", "* -> * | lin A | anti A", run_unary<Unary::kNeg>));
  neg.infer = ops::infer_elementwise;
  neg.gradient = [](GradContext& c) -> std::vector<Var> {
    return {c.call("neg", {c.cotangent(0)})};
  };
  table.must_add(std::move(neg));

  OpDef abs = ops::of_numbers(
      unary("abs", "Magnitude of each element.", "* -> * | prod A", run_unary<Unary::kAbs>));
  abs.infer = ops::infer_elementwise;
  abs.saved_inputs = {0};
  abs.gradient = [](GradContext& c) -> std::vector<Var> {
    return {times(c, c.call("sign", {c.input(0)}))};
  };
  table.must_add(std::move(abs));

  OpDef sign = unary("sign", "-1, 0 or 1 by the sign.", "* -> * | prod A", run_unary<Unary::kSign>);
  sign.declined = {"P(max); P(min): sign(NaN) is 0, so NaN would not win over the ranks"};
  sign.infer = ops::infer_elementwise;
  sign.gradient = [](GradContext&) -> std::vector<Var> { return {Var{}}; };
  table.must_add(std::move(sign));
}

void add_rounding(OpTable& table) {
  OpDef floor = unary("floor", "Largest integer that is not above.", "* -> * | mono A",
                      run_unary<Unary::kFloor>);
  floor.gradient = [](GradContext&) -> std::vector<Var> { return {Var{}}; };
  table.must_add(std::move(floor));
  OpDef ceil = unary("ceil", "Smallest integer that is not below.", "* -> * | mono A",
                     run_unary<Unary::kCeil>);
  ceil.gradient = [](GradContext&) -> std::vector<Var> { return {Var{}}; };
  table.must_add(std::move(ceil));
}

void add_exponentials(OpTable& table) {
  OpDef exp =
      unary("exp", "e to the power of each element.", "* -> * | mono A", run_unary<Unary::kExp>);
  exp.declined = {"P(sum) -> P(prod): no notation for a sum that becomes a product"};
  exp.saved_outputs = {0};
  exp.gradient = [](GradContext& c) -> std::vector<Var> { return {times(c, c.output(0))}; };
  table.must_add(std::move(exp));

  OpDef log = unary("log", "Natural logarithm.", "* -> * | min A", run_unary<Unary::kLog>);
  log.saved_inputs = {0};
  log.samples = positive_samples();
  log.gradient = [](GradContext& c) -> std::vector<Var> {
    return {c.call("div", {c.cotangent(0), c.input(0)})};
  };
  table.must_add(std::move(log));

  OpDef sin = unary("sin", "Sine of each element, in radians.", "* -> *", run_unary<Unary::kSin>);
  sin.saved_inputs = {0};
  sin.gradient = [](GradContext& c) -> std::vector<Var> {
    return {times(c, c.call("cos", {c.input(0)}))};
  };
  table.must_add(std::move(sin));
  OpDef cos = unary("cos", "Cosine of each element, in radians.", "* -> *", run_unary<Unary::kCos>);
  cos.saved_inputs = {0};
  cos.gradient = [](GradContext& c) -> std::vector<Var> {
    return {times(c, c.call("sin", {c.input(0)}), -1.0)};
  };
  table.must_add(std::move(cos));
}

void add_powers(OpTable& table) {
  OpDef square =
      unary("square", "Each element times itself.", "* -> * | prod A", run_unary<Unary::kSquare>);
  square.infer = ops::infer_elementwise;
  square.saved_inputs = {0};
  square.gradient = [](GradContext& c) -> std::vector<Var> { return {times(c, c.input(0), 2.0)}; };
  table.must_add(std::move(square));

  OpDef sqrt = unary("sqrt", "Square root.", "* -> * | min A", run_unary<Unary::kSqrt>);
  sqrt.samples = positive_samples();
  sqrt.saved_outputs = {0};
  sqrt.gradient = [](GradContext& c) -> std::vector<Var> {
    const Var quotient = c.call("div", {c.cotangent(0), c.output(0)});
    return {c.call("mul_scalar", {quotient}, {{"value", 0.5}})};
  };
  table.must_add(std::move(sqrt));

  OpDef rsqrt = unary("rsqrt", "One over the square root.", "* -> *", run_unary<Unary::kRsqrt>);
  rsqrt.samples = positive_samples();
  rsqrt.declined = {"P(min) -> P(max): decreasing on positive elements only"};
  rsqrt.saved_outputs = {0};
  rsqrt.gradient = [](GradContext& c) -> std::vector<Var> {
    const Var squared = c.call("square", {c.output(0)});
    return {times(c, c.call("mul", {squared, c.output(0)}), -0.5)};
  };
  table.must_add(std::move(rsqrt));

  OpDef reciprocal = unary("reciprocal", "One over each element.", "* -> * | prod A",
                           run_unary<Unary::kReciprocal>);
  reciprocal.samples = positive_samples();
  reciprocal.declined = {"P(min) -> P(max): decreasing on positive elements only"};
  reciprocal.saved_outputs = {0};
  reciprocal.gradient = [](GradContext& c) -> std::vector<Var> {
    return {times(c, c.call("square", {c.output(0)}), -1.0)};
  };
  table.must_add(std::move(reciprocal));
}

void add_truth_functions(OpTable& table) {
  OpDef logical_not = unary("logical_not", "True where the element is zero or false.", "* -> *",
                            run_unary<Unary::kLogicalNot>);
  logical_not.infer = ops::infer_predicate;
  logical_not.declined = {
      "P(max); P(min): decreasing for BOOL only, and the notation has no guard on dtypes"};
  logical_not.samples = {{.shapes = {{8, 6}}, .dtypes = {DType::kBool}, .differentiable = false},
                         {.shapes = {{5, 3}}, .dtypes = {DType::kBool}, .differentiable = false}};
  table.must_add(std::move(logical_not));
  OpDef isnan =
      unary("isnan", "True where the element is not a number.", "* -> *", run_unary<Unary::kIsNan>);
  isnan.infer = ops::infer_predicate;
  for (Sample& sample : isnan.samples) sample.differentiable = false;
  table.must_add(std::move(isnan));
}

void add_copies(OpTable& table) {
  OpDef clone =
      unary("clone", "A copy in a new contiguous storage.", "* -> * | lin A | mono A | prod A",
            [](KernelCall& call) { kernels::copy(call.ctx, call.inputs[0], call.outputs[0]); });
  clone.infer = ops::infer_elementwise;
  clone.gradient = [](GradContext& c) -> std::vector<Var> { return {c.cotangent(0)}; };
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
