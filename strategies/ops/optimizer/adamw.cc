// The fused optimizer steps: local wherever parameter, gradient and state are cut alike.
#include "kernels/elementwise.h"
#include "kernels/optimizer.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

/// All of the param's shape and floating; results are the param and its state.
StatusOr<std::vector<TensorMeta>> infer_step(std::span<const TensorMeta> inputs, const Attrs&) {
  for (const TensorMeta& input : inputs) {
    if (input.shape == inputs[0].shape && is_floating(input.dtype)) continue;
    return invalid_argument("param " + to_string(inputs[0].shape) + ", but an operand is " +
                            to_string(input.shape) + " of " + std::string(name_of(input.dtype)) +
                            ": all must be floating and of the param's shape");
  }
  std::vector<TensorMeta> results = {inputs[0]};
  results.insert(results.end(), inputs.begin() + 2, inputs.end());
  return results;
}

/// Moments are kept in F32, in F64 of an F64 param, or in BF16.
StatusOr<std::vector<TensorMeta>> infer_adam(std::span<const TensorMeta> inputs,
                                             const Attrs& attrs) {
  const DType state = inputs[0].dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  for (const TensorMeta& moment : inputs.subspan(2)) {
    if (moment.dtype == state || moment.dtype == DType::kBF16) continue;
    return invalid_argument("a moment is " + std::string(name_of(moment.dtype)) + ", but must be " +
                            std::string(name_of(state)) + " or BF16 of a " +
                            std::string(name_of(inputs[0].dtype)) + " param");
  }
  return infer_step(inputs, attrs);
}

template <kernels::WeightDecay kDecay>
void run_adam(KernelCall& call) {
  const kernels::AdamWOptions options = {.lr = call.attrs.get_double("lr"),
                                         .beta1 = call.attrs.get_double("beta1"),
                                         .beta2 = call.attrs.get_double("beta2"),
                                         .eps = call.attrs.get_double("eps"),
                                         .weight_decay = call.attrs.get_double("weight_decay"),
                                         .step = call.attrs.get_int("step"),
                                         .grad_scale = call.attrs.get_double("grad_scale"),
                                         .decay = kDecay};
  kernels::adamw(call.ctx, options, call.outputs[0], call.inputs[1], call.outputs[1],
                 call.outputs[2]);
}

/// Learning rate, clip factor, number of the step and whether to go on come from the last operand.
template <kernels::WeightDecay kDecay>
void run_steered_adam(KernelCall& call) {
  const kernels::AdamWOptions options = {.lr = call.attrs.get_double("lr_scale"),
                                         .beta1 = call.attrs.get_double("beta1"),
                                         .beta2 = call.attrs.get_double("beta2"),
                                         .eps = call.attrs.get_double("eps"),
                                         .weight_decay = call.attrs.get_double("weight_decay"),
                                         .decay = kDecay};
  const kernels::AdamWArrays arrays = {call.outputs[0], call.inputs[1], call.outputs[1],
                                       call.outputs[2]};
  kernels::adamw_all(call.ctx, options, {&arrays, 1},
                     kernels::contiguous(call.ctx, call.inputs[4]));
}

StatusOr<std::vector<TensorMeta>> infer_steered_adam(std::span<const TensorMeta> inputs,
                                                     const Attrs& attrs) {
  const TensorMeta& steering = inputs[4];
  if (steering.shape != Shape{kernels::Steering::kSize} || steering.dtype != DType::kF64) {
    return invalid_argument("steering is " + std::string(name_of(steering.dtype)) +
                            to_string(steering.shape) +
                            ", but must be F64[4]: learning rate, clip factor, number of the step, "
                            "and 1 to go on or 0");
  }
  return infer_adam(inputs.first(4), attrs);
}

/// A first step, a later one that is clipped, and one that is not to be made.
std::vector<Sample> steered_samples() {
  std::vector<Sample> samples;
  const std::vector<double> all[] = {{1e-2, 1.0, 1, 1}, {1e-2, 0.5, 7, 1}, {1e-2, 1.0, 2, 0}};
  const Shape shapes[] = {{8, 6}, {5, 3}, {7, 6}};
  for (std::size_t i = 0; i < std::size(all); ++i) {
    Sample& sample = samples.emplace_back();
    sample.shapes = {shapes[i], shapes[i], shapes[i], shapes[i], {kernels::Steering::kSize}};
    sample.positive = true;
    sample.differentiable = false;
    sample.adjust = [steering = all[i]](int operand, const Shape&, std::vector<double>& values) {
      if (operand == 4) values = steering;
    };
  }
  return samples;
}

OpDef steered(const OpDef& op, Kernel kernel) {
  OpDef def = op;
  def.name = op.name + "steered_";
  def.doc =
      "The same step as " + op.name +
      ", steered by values of the device: F64[4], which hold the learning rate, the factor of the "
      "gradient, the number of the step (1 for the first), and 1, or 0 where nothing is to be "
      "written.";
  def.args.push_back(in("steering"));
  def.attrs = {ops::double_attr("lr_scale", 1.0), ops::double_attr("beta1", 0.9),
               ops::double_attr("beta2", 0.95), ops::double_attr("eps", 1e-8),
               ops::double_attr("weight_decay", 0.1)};
  def.rule = "*, *, *, *, s -> &A *, &C *, &D * | s!";
  def.kernel = std::move(kernel);
  def.infer = infer_steered_adam;
  def.declined = {};
  def.samples = steered_samples();
  return def;
}

void run_sgd(KernelCall& call) {
  using Momentum = kernels::SgdOptions::Momentum;
  const kernels::SgdOptions options = {
      .lr = call.attrs.get_double("lr"),
      .momentum = call.attrs.get_double_or("momentum", 0.0),
      .dampening = call.attrs.get_double_or("dampening", 0.0),
      .weight_decay = call.attrs.get_double("weight_decay"),
      .form = call.attrs.get_bool_or("nesterov", false) ? Momentum::kNesterov : Momentum::kPlain,
      .step = call.attrs.get_int_or("step", 1),
      .grad_scale = call.attrs.get_double("grad_scale")};
  kernels::sgd(call.ctx, options, call.outputs[0], call.inputs[1],
               call.outputs.size() > 1 ? call.outputs[1] : Array());
}

std::vector<Sample> step_samples(std::size_t num_operands, const std::vector<Attrs>& attrs) {
  std::vector<Sample> samples;
  const Shape shapes[] = {{8, 6}, {5, 3}, {7, 6}};
  for (std::size_t i = 0; i < attrs.size(); ++i) {
    samples.push_back({.shapes = std::vector<Shape>(num_operands, shapes[i % std::size(shapes)]),
                       .attrs = attrs[i],
                       .differentiable = false});
  }
  return samples;
}

void add_sgd(OpTable& table) {
  const std::vector<AttrDef> common = {ops::double_attr("lr"),
                                       ops::double_attr("weight_decay", 0.0),
                                       ops::double_attr("grad_scale", 1.0)};
  OpDef plain = {
      .name = "sgd_",
      .doc = "One step of gradient descent in place on param.",
      .args = {in("param"), in("grad")},
      .attrs = common,
      .rule = "*, * -> &A * | lin A+B",
      .kernel = run_sgd,
      .infer = infer_step,
      .declined = {"P(max), R -> P(max); P(min), R -> P(min): only without weight decay, "
                   "and no parameter is Partial alone"},
      .samples = step_samples(2, {{{"lr", 0.1}},
                                  {{"lr", 0.1}, {"weight_decay", 0.3}},
                                  {{"lr", 0.2}, {"grad_scale", 0.5}}})};
  OpDef momentum = plain;
  momentum.name = "sgd_momentum_";
  momentum.doc =
      "One step of gradient descent with momentum in place on param and momentum_buffer, which the "
      "first step fills.";
  momentum.args.push_back(in("momentum_buffer"));
  for (const char* name : {"momentum", "dampening"}) {
    momentum.attrs.push_back(ops::double_attr(name, 0.0));
  }
  momentum.attrs.push_back(ops::bool_attr("nesterov", false));
  momentum.attrs.push_back(ops::int_attr("step").at_least(1));
  momentum.rule = "*, *, * -> &A *, &C * | lin A+B+C";
  momentum.num_outputs = 2;
  momentum.declined = {
      "P(avg), R, R -> P(avg), R; P(max), R, R -> P(max), R; P(min), R, R -> P(min), R: only "
      "without weight decay, and no parameter is Partial alone"};
  momentum.samples = step_samples(
      3, {{{"lr", 0.1}, {"momentum", 0.9}, {"step", 2}, {"weight_decay", 0.2}},
          {{"lr", 0.1}, {"momentum", 0.9}, {"step", 1}},
          {{"lr", 0.1}, {"momentum", 0.8}, {"step", 3}, {"nesterov", true}, {"dampening", 0.1}}});
  table.must_add(std::move(plain));
  table.must_add(std::move(momentum));
}

}  // namespace

void add_adamw_ops(OpTable& table) {
  const Attrs first = {{"lr", 1e-2}, {"step", 1}};
  const Attrs later = {{"lr", 1e-2}, {"step", 7}, {"grad_scale", 0.5}};
  OpDef adamw = {
      .name = "adamw_",
      .doc =
          "One AdamW step in place on param and both moments, which are F32 (F64 of an F64 param) "
          "or BF16; the gradient is scaled by grad_scale on the way in.",
      .args = {in("param"), in("grad"), in("exp_avg"), in("exp_avg_sq")},
      .attrs = {ops::double_attr("lr"), ops::double_attr("beta1", 0.9),
                ops::double_attr("beta2", 0.95), ops::double_attr("eps", 1e-8),
                ops::double_attr("weight_decay", 0.1), ops::int_attr("step").at_least(1),
                ops::double_attr("grad_scale", 1.0)},
      .rule = "*, *, *, * -> &A *, &C *, &D *",
      .num_outputs = 3,
      .kernel = run_adam<kernels::WeightDecay::kDecoupled>,
      .infer = infer_adam,
      .declined =
          {"P(avg), _, _, _; P(max), _, _, _; P(min), _, _, _: a parameter is never Partial"},
      .samples = {{.shapes = {{8, 6}, {8, 6}, {8, 6}, {8, 6}},
                   .attrs = first,
                   .positive = true,
                   .differentiable = false},
                  {.shapes = {{5, 3}, {5, 3}, {5, 3}, {5, 3}},
                   .attrs = later,
                   .positive = true,
                   .differentiable = false}}};
  OpDef adam = adamw;
  adam.name = "adam_";
  adam.doc =
      "One Adam step in place on param and both moments, which are F32 (F64 of an F64 param) or "
      "BF16; weight decay is part of the gradient, which is scaled by grad_scale on the way in.";
  adam.declined = {};
  adam.kernel = run_adam<kernels::WeightDecay::kInGradient>;
  OpDef steered_adamw = steered(adamw, run_steered_adam<kernels::WeightDecay::kDecoupled>);
  steered_adamw.declined = {
      "P(avg), _, _, _, _; P(max), _, _, _, _; P(min), _, _, _, _: a parameter is never Partial"};
  table.must_add(std::move(steered_adamw));
  table.must_add(steered(adam, run_steered_adam<kernels::WeightDecay::kInGradient>));
  table.must_add(std::move(adamw));
  table.must_add(std::move(adam));
  add_sgd(table);
}

}  // namespace tessera
