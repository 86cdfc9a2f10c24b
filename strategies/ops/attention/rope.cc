// Rotary position embedding: adjacent pairs of the last dim turn by an angle of their position.
#include "kernels/norm.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

StatusOr<std::vector<TensorMeta>> infer_rope(std::span<const TensorMeta> inputs, const Attrs&) {
  const Shape& x = inputs[0].shape;
  const std::size_t ndim = x.size();
  const Shape table = ndim < 3 ? Shape{} : Shape{x[ndim - 3], x[ndim - 1] / 2};
  if (ndim < 3 || x[ndim - 1] % 2 != 0 || inputs[1].shape != table || inputs[2].shape != table) {
    return invalid_argument("x " + to_string(x) + ", cos " + to_string(inputs[1].shape) + ", sin " +
                            to_string(inputs[2].shape) +
                            ": need [.., l, h, e] with even e, and tables [l, e/2]");
  }
  return std::vector<TensorMeta>{inputs[0]};
}

/// One table's cotangent: products of pairs summed over heads and leading dims.
Var table_grad(GradContext& c, Var products, int operand) {
  const int heads = static_cast<int>(c.shape(products).size()) - 2;
  const Var per_position = c.call("sum", {products}, {{"dim", Shape{heads}}});
  return ops::grad_like(c, per_position, operand);
}

/// Even or odd elements of the last dim.
Var half(GradContext& c, Var x, std::int64_t which) {
  const Var pairs =
      c.call("unflatten", {x}, {{"dim", -1}, {"sizes", Shape{c.shape(x).back() / 2, 2}}});
  return c.call("select", {pairs}, {{"dim", -1}, {"index", which}});
}

std::vector<Var> rope_gradient(GradContext& c) {
  std::vector<Var> grads(3);
  const Var grad = c.cotangent(0);
  const bool inverse = c.attrs().get_bool("inverse");
  if (c.needs(0)) {
    grads[0] = c.call("rope", {grad, c.input(1), c.input(2)}, {{"inverse", !inverse}});
  }
  if (!c.needs(1) && !c.needs(2)) return grads;
  const Var a = half(c, c.input(0), 0);
  const Var b = half(c, c.input(0), 1);
  const Var grad_a = half(c, grad, 0);
  const Var grad_b = half(c, grad, 1);
  const Var same = c.call("add", {c.call("mul", {grad_a, a}), c.call("mul", {grad_b, b})});
  const Var crossed = c.call("sub", {c.call("mul", {grad_b, a}), c.call("mul", {grad_a, b})});
  if (c.needs(1)) grads[1] = table_grad(c, same, 1);
  if (c.needs(2)) {
    grads[2] = table_grad(c, inverse ? c.call("neg", {crossed}) : crossed, 2);
  }
  return grads;
}

}  // namespace

void add_rope_ops(OpTable& table) {
  table.must_add(
      {.name = "rope",
       .doc = "Pairs (a, b) of x [.., l, h, e] turned by tables cos, sin [l, e/2]; `inverse` turns "
              "back.",
       .args = {in("x").floating(), in("cos").floating(), in("sin").floating()},
       .attrs = {ops::bool_attr("inverse", false)},
       .rule = "*lhe, lk, lk -> *lhe | e! k! | lin A*B+A*C",
       .kernel =
           [](KernelCall& call) {
             const auto rotation = call.attrs.get_bool("inverse") ? kernels::Rotation::kInverse
                                                                  : kernels::Rotation::kForward;
             kernels::rope(call.ctx, call.inputs[0], call.inputs[1], call.inputs[2], rotation,
                           call.outputs[0]);
           },
       .infer = infer_rope,
       .gradient = rope_gradient,
       .saved_inputs = {0, 1, 2},
       .declined = {"S(3), S(1), S(1): only where each cut falls between pairs; heads "
                    "are the dim to cut"},
       .samples = {{.shapes = {{2, 8, 3, 4}, {8, 2}, {8, 2}}},
                   {.shapes = {{6, 7, 6, 12}, {7, 6}, {7, 6}}, .differentiable = false},
                   {.shapes = {{5, 8, 2}, {5, 1}, {5, 1}}, .attrs = {{"inverse", true}}}}});
}

}  // namespace tessera
