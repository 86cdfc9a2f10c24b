// Writes into an existing tensor, which keeps its placement.
#include "kernels/elementwise.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using ops::grad_like;

std::vector<Sample> one_operand(const Attrs& attrs = {}) {
  return {{.shapes = {{8, 6}}, .attrs = attrs}, {.shapes = {{5, 3}}, .attrs = attrs}};
}
std::vector<Sample> two_operands() {
  return {{.shapes = {{8, 6}, {8, 6}}}, {.shapes = {{5, 3}, {3}}}, {.shapes = {{2, 8}, {8}}}};
}

/// Nothing of the old values is left.
std::vector<Var> no_gradient(GradContext& c) {
  return std::vector<Var>(static_cast<std::size_t>(c.num_inputs()));
}

/// Copies convert between all dtypes.
StatusOr<std::vector<TensorMeta>> infer_copy(std::span<const TensorMeta> inputs,
                                             const Attrs& attrs) {
  const TensorMeta operands[] = {inputs[0], {.shape = inputs[1].shape, .dtype = inputs[0].dtype}};
  return ops::infer_in_place(operands, attrs);
}

void add_fills(OpTable& table) {
  table.must_add({.name = "zero_",
                  .doc = "Sets every element to 0.",
                  .args = {in("self")},
                  .rule = "* -> &A * | lin A | mono A | prod A",
                  .kernel = [](KernelCall& call) { kernels::fill(call.ctx, 0.0, call.outputs[0]); },
                  .infer = ops::infer_in_place,
                  .gradient = no_gradient,
                  .samples = one_operand()});
  std::vector<Sample> samples = one_operand({{"value", 0.75}});
  samples.push_back({.shapes = {{6, 7}}, .attrs = {{"value", 0.0}}});
  table.must_add({.name = "fill_",
                  .doc = "Sets every element to one number.",
                  .args = {in("self")},
                  .attrs = {ops::element_attr("value")},
                  .rule = "* -> &A * | lin A if value==0 | aff A | mono A | prod A if value==0 | "
                          "prod A if value==1",
                  .kernel =
                      [](KernelCall& call) {
                        kernels::fill(call.ctx, call.attrs.get_double("value"), call.outputs[0]);
                      },
                  .infer = ops::infer_in_place,
                  .gradient = no_gradient,
                  .samples = samples});
}

void add_updates(OpTable& table) {
  table.must_add({.name = "add_",
                  .doc = "self += other.",
                  .args = {in("self"), in("other")},
                  .rule = "*, * -> &A * | lin A+B",
                  .kernel =
                      [](KernelCall& call) {
                        kernels::binary(call.ctx, kernels::Binary::kAdd, call.inputs[0],
                                        call.inputs[1], call.outputs[0]);
                      },
                  .infer = ops::infer_in_place,
                  .gradient = [](GradContext& c) -> std::vector<Var> {
                    return {c.cotangent(0), grad_like(c, c.cotangent(0), 1)};
                  },
                  .declined = {"P(max), R; P(min), R: where other is infinite, a rank that holds "
                               "the opposite infinity of self gives NaN"},
                  .samples = two_operands()});
  // Jointly linear: the result is 0·self + other.
  table.must_add({.name = "copy_",
                  .doc = "Overwrites self with other, cast to self's dtype.",
                  .args = {in("self"), in("other")},
                  .rule = "*, * -> &A * | lin A+B | prod A*B",
                  .kernel =
                      [](KernelCall& call) {
                        const Array& target = call.outputs[0];
                        const Array source = ops::broadcast_view(call.inputs[1], target.shape());
                        kernels::copy(call.ctx, source, target);
                      },
                  .infer = infer_copy,
                  .gradient = [](GradContext& c) -> std::vector<Var> {
                    return {Var{}, grad_like(c, c.cotangent(0), 1)};
                  },
                  .declined = {"P(max), _; P(min), _: not monotone where self is BOOL, and the "
                               "notation has no guard on dtypes"},
                  .samples = two_operands()});
}

}  // namespace

void add_assign_ops(OpTable& table) {
  add_fills(table);
  add_updates(table);
}

}  // namespace tessera
