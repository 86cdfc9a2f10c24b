// Softmax and its logarithm along a dim. Where the dim is cut, two small reductions join the ranks'
// maxima and sums.
#include <utility>

#include "kernels/elementwise.h"
#include "kernels/norm.h"
#include "kernels/reduce.h"
#include "strategies/ops/schema.h"
#include "strategies/ops/steps.h"

namespace tessera {
namespace {

using kernels::Binary;

/// `x` reduced along the dim attribute, which stays with size 1.
Array reduced(KernelCall& call, ReduceOp op, const Array& x) {
  const int dims[] = {ops::kernel_dim(call, x)};
  const Array out = ops::scratch(call, ops::keep_dims(x.shape(), dims), x.dtype());
  kernels::reduce(call.ctx, op, x, dims, out);
  return out;
}

void local_max(KernelCall& call) {
  call.outputs[0] = reduced(call, ReduceOp::kMax, call.inputs[0]);
}

/// (x, max) → x − max in the op's output, Σ exp of it.
void local_shifted_sum(KernelCall& call) {
  const Array& shifted = call.outputs[0];
  kernels::binary(call.ctx, Binary::kSub, call.inputs[0], call.inputs[1], shifted);
  const Array powers = ops::scratch(call, shifted.shape(), shifted.dtype());
  kernels::unary(call.ctx, kernels::Unary::kExp, shifted, powers);
  call.outputs[1] = reduced(call, ReduceOp::kSum, powers);
}

void finish_softmax(KernelCall& call) {
  const Array& out = call.outputs[0];
  kernels::unary(call.ctx, kernels::Unary::kExp, out, out);
  kernels::binary(call.ctx, Binary::kDiv, out, call.inputs[0], out);
}

void finish_log_softmax(KernelCall& call) {
  const Array log_sum = ops::scratch(call, call.inputs[0].shape(), call.inputs[0].dtype());
  kernels::unary(call.ctx, kernels::Unary::kLog, call.inputs[0], log_sum);
  kernels::binary(call.ctx, Binary::kSub, call.outputs[0], log_sum, call.outputs[0]);
}

void add_softmax(ops::Steps& steps, ops::Steps::Value x, Kernel finish) {
  const auto maxima = steps.value(), sums = steps.value(), result = steps.result();
  steps.local({x}, {maxima}, local_max);
  steps.all_reduce({maxima}, ReduceOp::kMax);
  steps.local({x, maxima}, {result, sums}, local_shifted_sum);
  steps.all_reduce({sums}, ReduceOp::kSum);
  steps.local({sums}, {result}, std::move(finish));
}
template <void (*kFinish)(KernelCall&)>
std::vector<LoweringStep> forward_steps(const Attrs&) {
  ops::Steps steps(1, 1);
  add_softmax(steps, steps.operand(0), kFinish);
  return std::move(steps).take();
}

/// softmin is softmax of −x.
Array negated(KernelCall& call) {
  const Array& x = call.inputs[0];
  const Array out = ops::scratch(call, x.shape(), x.dtype());
  kernels::unary(call.ctx, kernels::Unary::kNeg, x, out);
  return out;
}
void local_negated(KernelCall& call) { call.outputs[0] = negated(call); }

std::vector<LoweringStep> softmin_steps(const Attrs&) {
  ops::Steps steps(1, 1);
  const auto negative = steps.value();
  steps.local({steps.operand(0)}, {negative}, local_negated);
  add_softmax(steps, negative, finish_softmax);
  return std::move(steps).take();
}

/// Σ grad·out along the dim.
void local_dot(KernelCall& call) {
  const Array product = ops::scratch(call, call.inputs[0].shape(), call.inputs[0].dtype());
  kernels::binary(call.ctx, Binary::kMul, call.inputs[0], call.inputs[1], product);
  call.outputs[0] = reduced(call, ReduceOp::kSum, product);
}

/// (grad, out, dot) → out·(grad − dot)
void finish_softmax_grad(KernelCall& call) {
  const Array& result = call.outputs[0];
  kernels::binary(call.ctx, Binary::kSub, call.inputs[0], call.inputs[2], result);
  kernels::binary(call.ctx, Binary::kMul, result, call.inputs[1], result);
}

/// Σ grad along the dim.
void local_sum(KernelCall& call) {
  call.outputs[0] = reduced(call, ReduceOp::kSum, call.inputs[0]);
}

/// (grad, out, sum) → grad − exp(out)·sum
void finish_log_softmax_grad(KernelCall& call) {
  const Array& result = call.outputs[0];
  kernels::unary(call.ctx, kernels::Unary::kExp, call.inputs[1], result);
  kernels::binary(call.ctx, Binary::kMul, result, call.inputs[2], result);
  kernels::binary(call.ctx, Binary::kSub, call.inputs[0], result, result);
}

/// kStart: a sum along the dim; kFinish gets it too.
template <void (*kStart)(KernelCall&), void (*kFinish)(KernelCall&)>
std::vector<LoweringStep> grad_steps(const Attrs&) {
  ops::Steps steps(2, 1);
  const auto grad = steps.operand(0), out = steps.operand(1), sum = steps.value();
  steps.local({grad, out}, {sum}, kStart);
  steps.all_reduce({sum}, ReduceOp::kSum);
  steps.local({grad, out, sum}, {steps.result()}, kFinish);
  return std::move(steps).take();
}

void run_log_softmax_grad(KernelCall& call) {
  const Array sum = reduced(call, ReduceOp::kSum, call.inputs[0]);
  const Array inputs[] = {call.inputs[0], call.inputs[1], sum};
  KernelCall finish{call.ctx, inputs, call.attrs, call.outputs};
  finish_log_softmax_grad(finish);
}

std::vector<Sample> samples(std::size_t operands) {
  return {{.shapes = std::vector<Shape>(operands, {8, 6}), .attrs = {{"dim", 1}}},
          {.shapes = std::vector<Shape>(operands, {5, 3}), .attrs = {{"dim", 0}}},
          {.shapes = std::vector<Shape>(operands, {2, 8, 3}), .attrs = {{"dim", -2}}}};
}

OpDef forward(std::string name, std::string doc, Kernel kernel) {
  const std::string grad_name = name + "_grad";
  OpDef def = {.name = std::move(name),
               .doc = std::move(doc),
               .args = {in("self")},
               .attrs = {ops::int_attr("dim")},
               .rule = "*r@dim -> *r | r!",
               .kernel = std::move(kernel),
               .infer = ops::infer_floating,
               .gradient = [grad_name](GradContext& c) -> std::vector<Var> {
                 return {c.call(grad_name, {c.cotangent(0), c.output(0)},
                                {{"dim", c.attrs().get_int("dim")}})};
               },
               .saved_outputs = {0},
               .samples = samples(1)};
  ops::take_scalars_as_lines(def);
  return def;
}

OpDef backward(std::string name, Kernel kernel) {
  OpDef def = {.name = name + "_grad",
               .doc = "Cotangent of " + name + "'s operand.",
               .args = {in("grad").floating(), in("result").floating().with_shape_of(0)},
               .attrs = {ops::int_attr("dim")},
               .rule = "*r@dim, *r@dim -> *r | r! | lin A",
               .kernel = std::move(kernel),
               .infer = ops::infer_floating,
               .finite = {1},
               .samples = samples(2)};
  ops::take_scalars_as_lines(def);
  return def;
}

}  // namespace

void add_softmax_ops(OpTable& table) {
  OpDef softmax = forward("softmax", "exp(x) over its sum along a dim.", [](KernelCall& call) {
    kernels::softmax(call.ctx, call.inputs[0], ops::kernel_dim(call, call.inputs[0]),
                     call.outputs[0]);
  });
  softmax.lowerings = {{"r", "all-reduce of maxima and of sums", forward_steps<finish_softmax>}};
  table.must_add(std::move(softmax));
  OpDef softmin = forward("softmin", "exp(-x) over its sum along a dim.", [](KernelCall& call) {
    kernels::softmax(call.ctx, negated(call), ops::kernel_dim(call, call.inputs[0]),
                     call.outputs[0]);
  });
  softmin.gradient = [](GradContext& c) -> std::vector<Var> {
    return {c.call("neg", {c.call("softmax_grad", {c.cotangent(0), c.output(0)},
                                  {{"dim", c.attrs().get_int("dim")}})})};
  };
  softmin.lowerings = {{"r", "all-reduce of maxima and of sums", softmin_steps}};
  table.must_add(std::move(softmin));
  OpDef softmax_grad = backward("softmax", [](KernelCall& call) {
    kernels::softmax_grad(call.ctx, call.inputs[0], call.inputs[1],
                          ops::kernel_dim(call, call.inputs[0]), call.outputs[0]);
  });
  softmax_grad.lowerings = {
      {"r", "all-reduce of grad times result", grad_steps<local_dot, finish_softmax_grad>}};
  table.must_add(std::move(softmax_grad));

  OpDef log_softmax =
      forward("log_softmax", "Logarithm of softmax along a dim.", [](KernelCall& call) {
        kernels::log_softmax(call.ctx, call.inputs[0], ops::kernel_dim(call, call.inputs[0]),
                             call.outputs[0]);
      });
  log_softmax.lowerings = {
      {"r", "all-reduce of maxima and of sums", forward_steps<finish_log_softmax>}};
  table.must_add(std::move(log_softmax));
  OpDef log_softmax_grad = backward("log_softmax", run_log_softmax_grad);
  log_softmax_grad.lowerings = {
      {"r", "all-reduce of the sums of grad", grad_steps<local_sum, finish_log_softmax_grad>}};
  table.must_add(std::move(log_softmax_grad));
}

}  // namespace tessera
