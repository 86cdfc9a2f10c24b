// The fused optimizer step: local wherever parameter, gradient and moments are cut alike.
#include "kernels/optimizer.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

StatusOr<std::vector<TensorMeta>> infer_adamw(std::span<const TensorMeta> inputs, const Attrs&) {
  for (const TensorMeta& input : inputs) {
    if (input.shape == inputs[0].shape && is_floating(input.dtype)) continue;
    return invalid_argument("param " + to_string(inputs[0].shape) + ", but an operand is " +
                            to_string(input.shape) + " of " + std::string(name_of(input.dtype)) +
                            ": all must be floating and of the param's shape");
  }
  return std::vector<TensorMeta>{inputs[0], inputs[2], inputs[3]};
}

void run_adamw(KernelCall& call) {
  const kernels::AdamWOptions options = {.lr = call.attrs.get_double("lr"),
                                         .beta1 = call.attrs.get_double("beta1"),
                                         .beta2 = call.attrs.get_double("beta2"),
                                         .eps = call.attrs.get_double("eps"),
                                         .weight_decay = call.attrs.get_double("weight_decay"),
                                         .step = call.attrs.get_int("step"),
                                         .grad_scale = call.attrs.get_double("grad_scale")};
  kernels::adamw(call.ctx, options, call.outputs[0], call.inputs[1], call.outputs[1],
                 call.outputs[2]);
}

}  // namespace

void add_adamw_ops(OpTable& table) {
  const Attrs first = {{"lr", 1e-2}, {"step", 1}};
  const Attrs later = {{"lr", 1e-2}, {"step", 7}, {"grad_scale", 0.5}};
  table.must_add(
      {.name = "adamw_",
       .doc = "One AdamW step in place on param and both moments; the gradient is "
              "scaled by grad_scale on the way in.",
       .args = {in("param"), in("grad"), in("exp_avg"), in("exp_avg_sq")},
       .attrs = {ops::double_attr("lr"), ops::double_attr("beta1", 0.9),
                 ops::double_attr("beta2", 0.95), ops::double_attr("eps", 1e-8),
                 ops::double_attr("weight_decay", 0.1), ops::int_attr("step"),
                 ops::double_attr("grad_scale", 1.0)},
       .rule = "*, *, *, * -> &A *, &C *, &D *",
       .num_outputs = 3,
       .kernel = run_adamw,
       .infer = infer_adamw,
       .declined =
           {"P(avg), _, _, _; P(max), _, _, _; P(min), _, _, _: a parameter is never Partial"},
       .samples = {{.shapes = {{8, 6}, {8, 6}, {8, 6}, {8, 6}},
                    .attrs = first,
                    .positive = true,
                    .differentiable = false},
                   {.shapes = {{5, 3}, {5, 3}, {5, 3}, {5, 3}},
                    .attrs = later,
                    .positive = true,
                    .differentiable = false}}});
}

}  // namespace tessera
