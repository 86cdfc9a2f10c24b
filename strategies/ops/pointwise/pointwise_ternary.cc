// Functions of three tensors, and forms of clamp, where and masked_fill.
#include <cmath>
#include <limits>

#include "kernels/elementwise.h"
#include "strategies/ops/pointwise/pointwise.h"

namespace tessera {
namespace {

using ops::double_attr;
using ops::grad_like;

Var scaled(GradContext& c, Var value, double factor) {
  return factor == 1.0 ? value : c.call("mul_scalar", {value}, {{"value", factor}});
}

std::vector<Var> lerp_gradient(GradContext& c) {
  const Var g = c.cotangent(0);
  const Var rest = c.call("rsub_scalar", {c.input(2)}, {{"value", 1.0}});
  const Var gap = c.call("sub", {c.input(1), c.input(0)});
  return {grad_like(c, c.call("mul", {g, rest}), 0),
          grad_like(c, c.call("mul", {g, c.input(2)}), 1),
          grad_like(c, c.call("mul", {g, gap}), 2)};
}

void add_lerp(OpTable& table) {
  const ArgDef self = in("self").floating(), end = in("end").floating();
  const std::string doc = "self + weight (end - self), exact at both ends.";
  ops::add_pointwise(
      table,
      {{.name = "lerp",
        .doc = doc,
        .rule = "*, *, * -> * | lin A+B | aff C",
        .args = {self, end, in("weight").floating()},
        .gradient = lerp_gradient,
        .saved_inputs = {0, 1, 2},
        .finite = {0, 1, 2}},
       {.name = "lerp_scalar",
        .doc = doc,
        .rule = "*, * -> * | lin A+B",
        .args = {self, end},
        .attrs = {double_attr("weight")},
        .attr_samples = {{{"weight", 0.3}}, {{"weight", -0.7}}, {{"weight", 1.4}}},
        .gradient = [](GradContext& c) -> std::vector<Var> {
          const double weight = c.attrs().get_double("weight");
          return {grad_like(c, scaled(c, c.cotangent(0), 1.0 - weight), 0),
                  grad_like(c, scaled(c, c.cotangent(0), weight), 1)};
        },
        .declined = {
            "R, P(max) -> P(max); R, P(min) -> P(min); P(max), R -> P(min); P(min), R -> P(max): "
            "the form that meets both ends exactly gives NaN where one is infinite"}}});
}

std::vector<Var> addcmul_gradient(GradContext& c) {
  const Var g = scaled(c, c.cotangent(0), c.attrs().get_double("value"));
  return {grad_like(c, c.cotangent(0), 0), grad_like(c, c.call("mul", {g, c.input(2)}), 1),
          grad_like(c, c.call("mul", {g, c.input(1)}), 2)};
}
std::vector<Var> addcdiv_gradient(GradContext& c) {
  const Var g = scaled(c, c.cotangent(0), c.attrs().get_double("value"));
  const Var first = c.call("div", {g, c.input(2)});
  const Var second =
      c.call("neg", {c.call("div", {c.call("mul", {first, c.input(1)}), c.input(2)})});
  return {grad_like(c, c.cotangent(0), 0), grad_like(c, first, 1), grad_like(c, second, 2)};
}

constexpr char kInfinitiesMeet[] =
    "P(max), R, R -> P(max); P(min), R, R -> P(min): where the product is infinite, a rank that "
    "holds the opposite infinity of self, as one without elements does, gives NaN";

void add_products(OpTable& table) {
  const std::vector<Attrs> values = {{}, {{"value", -0.5}}, {{"value", 2.0}}};
  const std::vector<ArgDef> args = {in("self"), in("tensor1"), in("tensor2")};
  table.must_add(ops::pointwise_op({.name = "addcmul",
                                    .doc = "self + value tensor1 tensor2.",
                                    .rule = "*, *, * -> * | lin A+B*C",
                                    .args = args,
                                    .attrs = {ops::element_attr("value", 1.0)},
                                    .attr_samples = values,
                                    .infer = ops::infer_elementwise,
                                    .gradient = addcmul_gradient,
                                    .saved_inputs = {1, 2},
                                    .declined = {kInfinitiesMeet}}));
  OpDef addcdiv = ops::pointwise_op({.name = "addcdiv",
                                     .doc = "self + value tensor1 / tensor2.",
                                     .rule = "*, *, * -> * | lin A+B",
                                     .args = args,
                                     .attrs = {double_attr("value", 1.0)},
                                     .attr_samples = values,
                                     .gradient = addcdiv_gradient,
                                     .saved_inputs = {1, 2},
                                     .finite = {2},
                                     .declined = {kInfinitiesMeet}});
  for (Sample& sample : addcdiv.samples) {
    sample.adjust = [](int operand, const Shape&, std::vector<double>& divisors) {
      for (double& value : divisors) value += operand == 2 ? std::copysign(0.4, value) : 0.0;
    };
  }
  addcdiv.samples.push_back(
      {.shapes = {{6, 7}, {6, 7}, {6, 7}}, .attrs = {{"value", 0.5}}, .differentiable = false});
  table.must_add(std::move(addcdiv));
}

void add_clamps(OpTable& table) {
  ops::add_pointwise(table, {{.name = "clamp_tensor",
                              .doc = "min(max(self, min), max) with bounds for each element; "
                                     "a NaN among the three wins, and an element shares its "
                                     "cotangent with a bound that it equals.",
                              .rule = "*, *, * -> * | mono ABC | max A,B | min A,C | min B,C",
                              .args = {in("self"), in("min"), in("max")},
                              .infer = ops::infer_elementwise}});

  const auto one_bound = [&](const char* name, const char* bound, bool lower) {
    AttrDef bound_attr = lower ? ops::lower_bound_attr(bound) : ops::upper_bound_attr(bound);
    bound_attr.default_value.reset();
    OpDef op = {.name = name,
                .doc = std::string(lower ? "max" : "min") + "(self, " + bound +
                       "); a NaN of either wins, and at the bound there is no slope.",
                .args = {in("self").numbers()},
                .attrs = {bound_attr},
                .rule = "* -> * | mono A",
                .infer = ops::infer_elementwise,
                .saved_inputs = {0},
                .samples = ops::samples_of({{{8, 6}}, {{5, 3}}})};
    op.kernel = [bound, lower](KernelCall& call) {
      constexpr double kInf = std::numeric_limits<double>::infinity();
      const double value = call.attrs.get_double(bound);
      kernels::clamp(call.ctx, call.inputs[0], lower ? value : -kInf, lower ? kInf : value,
                     call.outputs[0]);
    };
    op.gradient = [bound, lower](GradContext& c) -> std::vector<Var> {
      const Var inside = c.call(lower ? "gt_scalar" : "lt_scalar", {c.input(0)},
                                {{"value", c.attrs().get_double(bound)}});
      return {c.call("where_scalar", {inside, c.cotangent(0)}, {{"other", 0.0}})};
    };
    for (Sample& sample : op.samples) sample.attrs = {{bound, 0.137}};
    table.must_add(std::move(op));
  };
  one_bound("clamp_min", "min", true);
  one_bound("clamp_max", "max", false);
}

StatusOr<std::vector<TensorMeta>> require_mask(std::span<const TensorMeta> inputs, std::size_t mask,
                                               std::string_view name) {
  if (inputs[mask].dtype != DType::kBool) {
    return invalid_argument(std::string(name) + " is " + std::string(name_of(inputs[mask].dtype)) +
                            ", but must be BOOL");
  }
  return ops::infer_elementwise(inputs, {});
}

void add_where_scalar(OpTable& table) {
  table.must_add(
      {.name = "where_scalar",
       .doc = "self where condition, else the number other.",
       .args = {in("condition"), in("self")},
       .attrs = {ops::element_attr("other")},
       .rule = "*, * -> * | lin B if other==0 | aff B | mono B | prod B if other==0 | "
               "prod B if other==1",
       .kernel =
           [](KernelCall& call) {
             const Array filler = ops::scratch(call, {}, call.outputs[0].dtype());
             kernels::fill(call.ctx, call.attrs.get_double("other"), filler);
             kernels::where(call.ctx, call.inputs[0], call.inputs[1], filler, call.outputs[0]);
           },
       .infer = [](std::span<const TensorMeta> inputs, const Attrs&)
           -> StatusOr<std::vector<TensorMeta>> { return require_mask(inputs, 0, "condition"); },
       .gradient = [](GradContext& c) -> std::vector<Var> {
         const Var others = c.call("logical_not", {c.input(0)});
         const Var kept = c.call("masked_fill", {c.cotangent(0), others}, {{"value", 0.0}});
         return {Var{}, grad_like(c, kept, 1)};
       },
       .saved_inputs = {0},
       .declined =
           {"P(min), P(prod) -> P(prod): right where other is 0, but a clause has one kind"},
       .samples = {{.shapes = {{8, 6}, {8, 6}},
                    .attrs = {{"other", -0.25}},
                    .dtypes = {DType::kBool, DType::kF64}},
                   {.shapes = {{5, 3}, {3}},
                    .attrs = {{"other", 0.0}},
                    .dtypes = {DType::kBool, DType::kF64}},
                   {.shapes = {{8, 6}, {8, 6}},
                    .attrs = {{"other", 0.0}},
                    .dtypes = {DType::kBool, DType::kF64}}}});
}

void add_masked_fill_tensor(OpTable& table) {
  const std::vector<DType> dtypes = {DType::kF64, DType::kBool, DType::kF64};
  table.must_add(
      {.name = "masked_fill_tensor",
       .doc = "The one number in value where mask is true, else self.",
       .args = {in("self"), in("mask"), in("value")},
       .rule = "*, *,  -> * | lin A+C | mono AC | max A,C | min A,C | prod A*C",
       .kernel =
           [](KernelCall& call) {
             kernels::where(call.ctx, call.inputs[1], call.inputs[2], call.inputs[0],
                            call.outputs[0]);
           },
       .infer = [](std::span<const TensorMeta> inputs,
                   const Attrs&) -> StatusOr<std::vector<TensorMeta>> {
         if (!inputs[2].shape.empty()) {
           return invalid_argument("value has shape " + to_string(inputs[2].shape) +
                                   ", but must be 0-d");
         }
         TSR_ASSIGN_OR_RETURN(auto results, require_mask(inputs, 1, "mask"));
         if (is_floating(results[0].dtype) != is_floating(inputs[0].dtype) ||
             is_integer(results[0].dtype) != is_integer(inputs[0].dtype)) {
           return invalid_argument("value is " + std::string(name_of(inputs[2].dtype)) +
                                   ", which elements of " + std::string(name_of(inputs[0].dtype)) +
                                   " do not hold; cast with `to` first");
         }
         results[0].dtype = inputs[0].dtype;
         return results;
       },
       .gradient = [](GradContext& c) -> std::vector<Var> {
         const Attrs zero = {{"value", 0.0}};
         const Var others = c.call("logical_not", {c.input(1)});
         return {grad_like(c, c.call("masked_fill", {c.cotangent(0), c.input(1)}, zero), 0), Var{},
                 grad_like(c, c.call("masked_fill", {c.cotangent(0), others}, zero), 2)};
       },
       .saved_inputs = {1},
       .samples = {{.shapes = {{8, 6}, {8, 6}, {}}, .dtypes = dtypes},
                   {.shapes = {{5, 3}, {3}, {}}, .dtypes = dtypes}}});
}

}  // namespace

void add_pointwise_ternary_ops(OpTable& table) {
  add_lerp(table);
  add_products(table);
  add_clamps(table);
  add_where_scalar(table);
  add_masked_fill_tensor(table);
  ops::add_in_place_forms(table, {"lerp", "lerp_scalar", "addcmul", "addcdiv", "clamp_min",
                                  "clamp_max", "masked_fill_tensor"});
}

}  // namespace tessera
