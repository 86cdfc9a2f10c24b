// Everything about one op: schema, rule, kernel, gradient, samples. From the rule the engine
// derives which placements fit, what comes out, what has to move, and proves all of it on the
// samples.
#include "lora_delta.h"

#include "kernels/elementwise.h"
#include "kernels/matmul.h"

using namespace tessera;

namespace {

/// One rank's share: it sees local arrays, and knows no mesh.
void lora_kernel(KernelCall& call) {
  const Array& x_TK = call.inputs[0];
  const Array& down_RK = call.inputs[1];
  const Array& up_NR = call.inputs[2];
  const Array& out_TN = call.outputs[0];
  const Array low_TR =
      Array::empty({x_TK.size(0), down_RK.size(0)}, out_TN.dtype(), call.ctx.allocator);
  kernels::matmul(call.ctx, x_TK, down_RK.transpose(0, 1), low_TR);
  kernels::matmul(call.ctx, low_TR, up_NR.transpose(0, 1), out_TN);
  kernels::binary_scalar(call.ctx, kernels::Binary::kMul, out_TN, call.attrs.get_double("scale"),
                         out_TN);
}

/// Made of ops, so it runs on cut tensors by their rules.
std::vector<Var> lora_gradient(GradContext& c) {
  const Var x_TK = c.input(0), down_RK = c.input(1), up_NR = c.input(2);
  const auto transposed = [&](Var m) {
    return c.call("transpose", {m}, {{"dim0", std::int64_t{0}}, {"dim1", std::int64_t{1}}});
  };
  const Var grad_TN =
      c.call("mul_scalar", {c.cotangent(0)}, {{"value", c.attrs().get_double("scale")}});
  const Var low_TR = c.call("matmul", {x_TK, transposed(down_RK)});
  const Var grad_low_TR = c.call("matmul", {grad_TN, up_NR});
  return {c.call("matmul", {grad_low_TR, down_RK}),
          c.call("matmul", {transposed(grad_low_TR), x_TK}),
          c.call("matmul", {transposed(grad_TN), low_TR})};
}

}  // namespace

Status add_lora_delta(OpTable& table) {
  return table.add(
      {.name = "lora_delta",
       .doc = "What a low-rank adapter adds to a projection: scale times x down^T up^T.",
       .args = {in("x"), in("down"), in("up")},
       .attrs = {{"scale", AttrDef::Type::kDouble, AttrValue{1.0}}},
       .rule = TSR_RULE("tk, rk, nr -> tn | k:sum r:sum | lin A*B*C"),
       .kernel = lora_kernel,
       .gradient = lora_gradient,
       .saved_inputs = {0, 1, 2},
       .samples = {{.shapes = {{8, 6}, {6, 6}, {7, 6}}, .attrs = {{"scale", 0.5}}},
                   {.shapes = {{5, 3}, {2, 3}, {7, 2}}},
                   {.shapes = {{1, 4}, {1, 4}, {3, 1}}, .attrs = {{"scale", -2.0}}}}});
}

DTensor lora_delta(const DTensor& x, const DTensor& down, const DTensor& up, double scale,
                   const Site& site) {
  const DTensor operands[] = {x, down, up};
  return call(x.runtime(), "lora_delta", operands, {{"scale", scale}}, site)[0];
}
