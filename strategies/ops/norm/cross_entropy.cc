// Cross-entropy over classes that may be cut across ranks: logits are never gathered.
#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "kernels/index_check.h"
#include "kernels/norm.h"
#include "strategies/ops/schema.h"
#include "strategies/ops/steps.h"
#include "strategies/rules/held_part.h"

namespace tessera {
namespace {

using kernels::Binary;
using kernels::Unary;

StatusOr<std::vector<TensorMeta>> infer_cross_entropy(std::span<const TensorMeta> inputs,
                                                      const Attrs&) {
  const Shape& logits = inputs[0].shape;
  const Shape& target = inputs[1].shape;
  if (logits.empty() || target != Shape(logits.begin(), logits.end() - 1) ||
      !is_index(inputs[1].dtype)) {
    return invalid_argument("logits " + to_string(logits) + " and target " + to_string(target) +
                            " of " + std::string(name_of(inputs[1].dtype)) +
                            ": target must be class ids for all but the last dim of logits");
  }
  const TensorMeta row = {target, accumulation_type(inputs[0].dtype)};
  return std::vector<TensorMeta>{row, row};
}

StatusOr<std::vector<TensorMeta>> infer_cross_entropy_grad(std::span<const TensorMeta> inputs,
                                                           const Attrs& attrs) {
  const TensorMeta forward[] = {inputs[1], inputs[2]};
  TSR_ASSIGN_OR_RETURN(const auto results, infer_cross_entropy(forward, attrs));
  if (inputs[0].shape != results[0].shape || inputs[3].shape != results[0].shape) {
    return invalid_argument("grad " + to_string(inputs[0].shape) + " and lse " +
                            to_string(inputs[3].shape) + ", but logits " +
                            to_string(inputs[1].shape) + " have losses " +
                            to_string(results[0].shape));
  }
  return std::vector<TensorMeta>{inputs[1]};
}

/// (max, Σ exp(x − max), target logit) → loss, lse.
void finish(KernelCall& call) {
  const Array& loss = call.outputs[0];
  const Array& lse = call.outputs[1];
  kernels::unary(call.ctx, Unary::kLog, call.inputs[1], lse);
  kernels::binary(call.ctx, Binary::kAdd, lse, call.inputs[0], lse);
  kernels::binary(call.ctx, Binary::kSub, lse, call.inputs[2], loss);
}

Array row_scratch(KernelCall& call) {
  const Array& logits = call.inputs[0];
  return ops::scratch(call, Shape(logits.shape().begin(), logits.shape().end() - 1),
                      accumulation_type(logits.dtype()));
}

/// The kernels take -1 for a class of another rank, of which there is none where rows are whole.
void check_targets(KernelCall& call, const char* op, const Array& logits, const Array& target) {
  kernels::check_indices(call.ctx, target, {op, logits.size(logits.ndim() - 1), call.absent});
}

void run_cross_entropy(KernelCall& call) {
  check_targets(call, "cross_entropy", call.inputs[0], call.inputs[1]);
  const Array rows[] = {row_scratch(call), row_scratch(call), row_scratch(call)};
  kernels::row_max(call.ctx, call.inputs[0], rows[0]);
  kernels::row_sum_exp(call.ctx, call.inputs[0], rows[0], rows[1]);
  kernels::row_target(call.ctx, call.inputs[0], call.inputs[1], rows[2]);
  KernelCall last{call.ctx, rows, call.attrs, call.outputs};
  finish(last);
}

void local_max(KernelCall& call) {
  call.outputs[0] = row_scratch(call);
  kernels::row_max(call.ctx, call.inputs[0], call.outputs[0]);
}

void local_sum_exp(KernelCall& call) {
  call.outputs[0] = row_scratch(call);
  kernels::row_sum_exp(call.ctx, call.inputs[0], call.inputs[1], call.outputs[0]);
}

/// Class ids as positions in this rank's classes; −1 where another rank holds them.
Array local_classes(KernelCall& call, const OperandView& logits, const Array& target) {
  const Array ids = ops::scratch(call, target.shape(), DType::kI64);
  const kernels::HeldPart classes = held_part(logits, logits.spec->ndim() - 1);
  const auto refuse = [count = classes.size](std::int64_t at, std::int64_t id) {
    return out_of_range("cross_entropy: target " + std::to_string(id) + " at position " +
                        std::to_string(at) + ", but there are " + std::to_string(count) +
                        " classes");
  };
  kernels::localize(call.ctx, target, classes, {}, refuse, ids);
  return ids;
}

void local_target(KernelCall& call) {
  const Array ids = local_classes(call, call.input_views[0], call.inputs[1]);
  call.outputs[0] = row_scratch(call);
  kernels::row_target(call.ctx, call.inputs[0], ids, call.outputs[0]);
}

std::vector<LoweringStep> class_steps(const Attrs&) {
  ops::Steps steps(2, 2);
  const auto logits = steps.operand(0), target = steps.operand(1);
  const auto maxima = steps.value(), sums = steps.value(), target_logits = steps.value();
  steps.local({logits}, {maxima}, local_max);
  steps.all_reduce({maxima}, ReduceOp::kMax);
  steps.local({logits, maxima}, {sums}, local_sum_exp);
  steps.all_reduce({sums}, ReduceOp::kSum);
  steps.local({logits, target}, {target_logits}, local_target);
  steps.all_reduce({target_logits}, ReduceOp::kSum);
  steps.local({maxima, sums, target_logits}, steps.results(), finish);
  return std::move(steps).take();
}

/// d lse / d logits = softmax.
Var through_lse(GradContext& c) {
  const Attrs last = {{"dim", -1}};
  const Var lse = c.call("unsqueeze", {c.output(1)}, last);
  const Var softmax = c.call("exp", {c.call("sub", {c.input(0), lse})});
  const Var grad = c.call("unsqueeze", {c.cotangent(1)}, last);
  return ops::grad_like(c, c.call("mul", {softmax, grad}), 0);
}

std::vector<Var> cross_entropy_gradient(GradContext& c) {
  Var grad;
  if (c.cotangent(0).defined()) {
    grad = c.call("cross_entropy_grad", {c.cotangent(0), c.input(0), c.input(1), c.output(1)});
  }
  if (c.cotangent(1).defined()) {
    const Var more = through_lse(c);
    grad = grad.defined() ? c.call("add", {grad, more}) : more;
  }
  return {grad, Var{}};
}

const DType kF = DType::kF64;
const DType kI = DType::kI64;

}  // namespace

void add_cross_entropy_ops(OpTable& table) {
  table.must_add(
      {.name = "cross_entropy",
       .doc = "Minus the log-probability of each row's target class, and the log-sum of each row.",
       .args = {in("logits").floating(), in("target")},
       .rule = "*v, * -> *, * | v!",
       .num_outputs = 2,
       .auxiliary_outputs = 1,
       .kernel = run_cross_entropy,
       .infer = infer_cross_entropy,
       .gradient = cross_entropy_gradient,
       .saved_inputs = {0, 1},
       .saved_outputs = {1},
       .lowerings = {{"v", "all-reduce of row maxima, sums and target logits", class_steps}},
       .samples = {{.shapes = {{8, 6}, {8}}, .dtypes = {kF, kI}, .below = {2, 6}},
                   {.shapes = {{5, 8}, {5}}, .dtypes = {kF, kI}, .below = {2, 8}},
                   {.shapes = {{2, 3, 5}, {2, 3}}, .dtypes = {kF, kI}, .below = {2, 5}}}});
  table.must_add(
      {.name = "cross_entropy_grad",
       .doc = "Cotangent of cross_entropy's logits: (exp(logits - lse) - [target]) grad.",
       .args = {in("grad").floating(), in("logits").floating(), in("target"), in("lse").floating()},
       .rule = "*, *v, *, * -> *v | v#:own | lin A",
       .kernel =
           [](KernelCall& call) {
             check_targets(call, "cross_entropy_grad", call.inputs[1], call.inputs[2]);
             kernels::cross_entropy_grad(call.ctx, call.inputs[0], call.inputs[1], call.inputs[2],
                                         call.inputs[3], call.outputs[0]);
           },
       .infer = infer_cross_entropy_grad,
       .finite = {1, 3},
       .samples = {
           {.shapes = {{8}, {8, 6}, {8}, {8}}, .dtypes = {kF, kF, kI, kF}, .below = {2, 2, 6, 2}},
           {.shapes = {{2, 3}, {2, 3, 5}, {2, 3}, {2, 3}},
            .dtypes = {kF, kF, kI, kF},
            .below = {2, 2, 5, 2}}}});
}

}  // namespace tessera
