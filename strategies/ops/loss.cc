// Losses of an input against a target: one table. `reduction` is "none", "mean" or "sum", so the
// rule is written for each call.
#include "kernels/loss.h"

#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "strategies/ops/call_rule.h"
#include "strategies/ops/reduced.h"

namespace tessera {
namespace {

using kernels::Loss;

/// A loss by name, with the attribute that its form takes.
struct LossEntry {
  const char* name;
  const char* doc;
  Loss loss;
  const char* parameter = nullptr;
};
constexpr LossEntry kLosses[] = {
    {"mse_loss", "Squared difference.", Loss::kSquared},
    {"l1_loss", "Absolute difference.", Loss::kAbsolute},
    {"smooth_l1_loss",
     "d^2 / (2 beta) where d = |input - target| is below beta, else d - beta / 2.",
     Loss::kSmoothAbsolute, "beta"},
    {"huber_loss",
     "d^2 / 2 where d = |input - target| is at most delta, else delta (d - delta / 2).",
     Loss::kHuber, "delta"},
    {"binary_cross_entropy", "-target log(input) - (1 - target) log(1 - input).",
     Loss::kCrossEntropy},
    {"binary_cross_entropy_with_logits", "binary_cross_entropy of sigmoid(input).",
     Loss::kLogitCrossEntropy},
    {"soft_margin_loss", "log(1 + exp(-target input)).", Loss::kSoftMargin},
    {"kl_div", "target (log(target) - input), for an input of log-probabilities.",
     Loss::kDivergence},
    {"poisson_nll_loss", "exp(input) - target input.", Loss::kPoisson},
};

/// Null where no loss has the name.
const LossEntry* entry_of(std::string_view name) {
  for (const LossEntry& entry : kLosses) {
    if (name == entry.name) return &entry;
  }
  return nullptr;
}

std::string reduction_of(const Attrs& attrs) { return attrs.get_string("reduction", "mean"); }

kernels::LossForm form_of(const LossEntry& entry, const Attrs& attrs) {
  return {entry.loss, entry.parameter == nullptr ? 1.0 : attrs.get_double(entry.parameter, 1.0)};
}

Status check_operands(std::span<const TensorMeta> operands) {
  const TensorMeta& input = operands[0];
  const TensorMeta& target = operands[1];
  if (input.shape == target.shape && is_floating(input.dtype) && is_floating(target.dtype)) {
    return absl::OkStatus();
  }
  return invalid_argument("input " + std::string(name_of(input.dtype)) + to_string(input.shape) +
                          " and target " + std::string(name_of(target.dtype)) +
                          to_string(target.shape) + ", but both must be floating, of one shape");
}

StatusOr<std::vector<TensorMeta>> infer_loss(std::span<const TensorMeta> inputs,
                                             const Attrs& attrs) {
  TSR_RETURN_IF_ERROR(check_operands(inputs));
  const std::string reduction = reduction_of(attrs);
  if (reduction != "none" && reduction != "mean" && reduction != "sum") {
    return invalid_argument("reduction is '" + reduction + "'; allowed are none, mean, sum");
  }
  return std::vector<TensorMeta>{
      {reduction == "none" ? inputs[0].shape : Shape(), promote(inputs[0].dtype, inputs[1].dtype)}};
}

void run_loss(KernelCall& call, const LossEntry& entry) {
  const Array& x = call.inputs[0];
  const std::string reduction = reduction_of(call.attrs);
  const Array& out = call.outputs[0];
  if (reduction == "none") {
    return kernels::loss(call.ctx, form_of(entry, call.attrs), x, call.inputs[1], out);
  }
  const Array each = ops::scratch(call, x.shape(), DType::kF64);
  kernels::loss(call.ctx, form_of(entry, call.attrs), x, call.inputs[1], each);
  const Array total = ops::scratch(call, {}, DType::kF64);
  kernels::reduce(call.ctx, ReduceOp::kSum, each, ops::kernel_dims(call), total);
  if (reduction == "mean") {
    kernels::binary_scalar(call.ctx, kernels::Binary::kDiv, total,
                           static_cast<double>(ops::whole_row_size(call)), total);
  }
  kernels::copy(call.ctx, total, out);
}

/// The cotangent of each element's loss.
Var element_cotangent(GradContext& c) {
  const Var grad = c.cotangent(0);
  const std::string reduction = reduction_of(c.attrs());
  if (reduction == "none") return grad;
  const Var wide = c.call("expand", {grad}, {{"size", c.input_shape(0)}});
  if (reduction == "sum") return wide;
  const auto count = static_cast<double>(num_elements(c.input_shape(0)));
  return c.call("div_scalar", {wide}, {{"value", count}});
}

std::vector<Var> loss_gradient(GradContext& c, const LossEntry& entry) {
  std::vector<Var> grads(2);
  const Var grad = element_cotangent(c);
  const kernels::LossForm form = form_of(entry, c.attrs());
  for (int i = 0; i < 2; ++i) {
    if (!c.needs(i)) continue;
    const Attrs attrs = {{"loss", std::string(entry.name)},
                         {"parameter", form.parameter},
                         {"operand", std::int64_t{i}}};
    grads[static_cast<std::size_t>(i)] =
        ops::grad_like(c, c.call("loss_grad", {grad, c.input(0), c.input(1)}, attrs), i);
  }
  return grads;
}

/// Probabilities where a loss takes them.
void keep_valid(Loss loss, int operand, std::vector<double>& values) {
  for (double& value : values) {
    if (loss == Loss::kCrossEntropy || (loss == Loss::kDivergence && operand == 1)) {
      value = 0.1 + 0.8 / (1.0 + std::exp(-value));
    }
  }
}

void add_loss(OpTable& table, const LossEntry& entry) {
  OpDef def = {.name = entry.name,
               .doc = entry.doc,
               .args = {in("input"), in("target")},
               .attrs = {{"reduction", AttrDef::Type::kString, AttrValue{std::string("mean")}}},
               .kernel = [&entry](KernelCall& call) { run_loss(call, entry); },
               .infer = infer_loss,
               .gradient = [&entry](GradContext& c) { return loss_gradient(c, entry); },
               .saved_inputs = {0, 1},
               .localize = ops::localize_count};
  if (entry.parameter != nullptr) def.attrs.push_back(ops::double_attr(entry.parameter, 1.0));
  def.strategies = [name = def.name](std::span<const Spec* const> inputs,
                                     std::span<const TensorMeta> outputs, const Attrs& attrs) {
    const bool each = reduction_of(attrs) == "none";
    return ops::strategies_of_rule({name, each ? "*, * -> *" : "*, * -> | *:sum"}, inputs, outputs,
                                   attrs);
  };
  def.samples = {{.shapes = {{6, 7}, {6, 7}}},
                 {.shapes = {{5, 3}, {5, 3}}, .attrs = {{"reduction", std::string("sum")}}},
                 {.shapes = {{6, 6}, {6, 6}}, .attrs = {{"reduction", std::string("none")}}}};
  for (Sample& sample : def.samples) {
    sample.adjust = [&entry](int operand, const Shape&, std::vector<double>& values) {
      keep_valid(entry.loss, operand, values);
    };
  }
  table.must_add(std::move(def));
}

StatusOr<std::vector<TensorMeta>> infer_loss_grad(std::span<const TensorMeta> inputs,
                                                  const Attrs& attrs) {
  TSR_RETURN_IF_ERROR(check_operands(inputs.subspan(1)));
  if (inputs[0].shape != inputs[1].shape) {
    return invalid_argument("grad " + to_string(inputs[0].shape) + " for an input " +
                            to_string(inputs[1].shape));
  }
  if (entry_of(attrs.get_string("loss")) == nullptr) {
    return invalid_argument("no loss is named '" + attrs.get_string("loss") + "'");
  }
  const std::int64_t operand = attrs.get_int("operand");
  if (operand != 0 && operand != 1) {
    return invalid_argument("operand is " + std::to_string(operand) +
                            "; allowed are 0 (input) and 1 (target)");
  }
  return std::vector<TensorMeta>{inputs[static_cast<std::size_t>(operand) + 1]};
}

void run_loss_grad(KernelCall& call) {
  const LossEntry& entry = *entry_of(call.attrs.get_string("loss"));
  const auto operand = call.attrs.get_int("operand") == 0 ? kernels::LossOperand::kInput
                                                          : kernels::LossOperand::kTarget;
  kernels::loss_grad(call.ctx, {entry.loss, call.attrs.get_double("parameter")}, operand,
                     {call.inputs[0], call.inputs[1], call.inputs[2]}, call.outputs[0]);
}

void add_loss_grad(OpTable& table) {
  OpDef def = {.name = "loss_grad",
               .doc = "Cotangent of a loss's input (operand 0) or target (1), element by element.",
               .args = {in("grad"), in("input"), in("target")},
               .attrs = {{"loss", AttrDef::Type::kString, {}},
                         ops::double_attr("parameter", 1.0),
                         ops::int_attr("operand", 0)},
               .rule = "*, *, * -> * | lin A",
               .kernel = run_loss_grad,
               .infer = infer_loss_grad};
  for (const LossEntry& entry : kLosses) {
    def.samples.push_back(
        {.shapes = {{6, 7}, {6, 7}, {6, 7}},
         .attrs = {{"loss", std::string(entry.name)}},
         .adjust = [loss = entry.loss](int operand, const Shape&, std::vector<double>& values) {
           if (operand > 0) keep_valid(loss, operand - 1, values);
         }});
  }
  table.must_add(std::move(def));
}

}  // namespace

void add_loss_ops(OpTable& table) {
  for (const LossEntry& entry : kLosses) add_loss(table, entry);
  add_loss_grad(table);
}

}  // namespace tessera
