// Losses of a prediction and a target: element by element, and their sum or mean over all elements.
// A mean divides by the whole tensor's count, so that uneven shards add up to it.
#include "kernels/elementwise.h"
#include "kernels/pointwise.h"
#include "kernels/reduce.h"
#include "strategies/ops/pointwise/pointwise.h"

namespace tessera {
namespace {

using ops::double_attr;

struct Loss {
  std::string name;
  std::string doc;
  std::string linearity = {};    ///< " | aff B"
  std::vector<int> finite = {};  ///< OpDef::finite
  std::vector<AttrDef> attrs = {};
  std::vector<Attrs> attr_samples = {};
  ops::Range range = {};
  std::vector<std::string> declined = {};
};

/// Same shapes: a broadcast target is a mistake more often than not.
StatusOr<std::vector<TensorMeta>> infer_loss(std::span<const TensorMeta> inputs,
                                             const Attrs& attrs) {
  if (inputs[0].shape != inputs[1].shape) {
    return invalid_argument("input " + to_string(inputs[0].shape) + " and target " +
                            to_string(inputs[1].shape) + " must be of one shape");
  }
  return ops::infer_floating(inputs, attrs);
}

bool is_mean(const Attrs& attrs) { return attrs.get_string("reduction") == "mean"; }

StatusOr<std::vector<TensorMeta>> infer_reduced_loss(std::span<const TensorMeta> inputs,
                                                     const Attrs& attrs) {
  const std::string reduction = attrs.get_string("reduction");
  if (reduction != "mean" && reduction != "sum") {
    return invalid_argument(
        "reduction \"" + reduction +
        "\"; allowed are mean and sum (for each element call the op ending in _each)");
  }
  TSR_ASSIGN_OR_RETURN(auto out, infer_loss(inputs, attrs));
  return std::vector<TensorMeta>{{{}, out[0].dtype}};
}

/// What the function's own numbers are: the attributes before `reduction`.
Attrs own_attrs(const Attrs& attrs) {
  Attrs own;
  for (const auto& [name, value] : attrs) {
    if (name == "reduction") break;
    own.set(name, value);
  }
  return own;
}

Kernel reduced_kernel(const std::string& name) {
  return [each = ops::pointwise_kernel(name)](KernelCall& call) {
    const Array losses =
        ops::scratch(call, call.inputs[0].shape(), accumulation_type(call.outputs[0].dtype()));
    Array outputs[] = {losses};
    const Attrs own = own_attrs(call.attrs);
    KernelCall inner{.ctx = call.ctx, .inputs = call.inputs, .attrs = own, .outputs = outputs};
    each(inner);
    std::vector<int> dims;
    for (int d = 0; d < losses.ndim(); ++d) dims.push_back(d);
    const Array total = ops::scratch(call, {}, losses.dtype());
    kernels::reduce(call.ctx, ReduceOp::kSum, losses, dims, total);
    if (is_mean(call.attrs)) {
      const auto count = call.attrs.get_int_or("count", losses.num_elements());
      kernels::binary_scalar(call.ctx, kernels::Binary::kDiv, total, static_cast<double>(count),
                             total);
    }
    kernels::copy(call.ctx, total, call.outputs[0]);
  };
}

Attrs localize_loss(const Attrs& attrs, std::span<const Spec> inputs, std::span<const Spec>,
                    const Coord&) {
  Attrs local = attrs;
  local.set("count", num_elements(inputs[0].global_shape()));
  return local;
}

Gradient reduced_gradient(const std::string& name) {
  return [each = ops::pointwise_gradient(name)](GradContext& c) {
    std::vector<Var> grads = each(c);
    if (!is_mean(c.attrs())) return grads;
    const auto count = static_cast<double>(num_elements(c.input_shape(0)));
    for (Var& grad : grads) {
      if (grad.defined()) grad = c.call("div_scalar", {grad}, {{"value", count}});
    }
    return grads;
  };
}

void add_loss(OpTable& table, const Loss& loss) {
  OpDef each = ops::pointwise_op({.name = loss.name,
                                  .doc = loss.doc,
                                  .rule = "*, * -> *" + loss.linearity,
                                  .attrs = loss.attrs,
                                  .attr_samples = loss.attr_samples,
                                  .infer = infer_loss,
                                  .range = loss.range,
                                  .declined = loss.declined});
  each.args[1].name = "target";
  each.finite = loss.finite;
  const Shape shapes[] = {{8, 6}, {5, 3}, {7, 1, 6}};
  for (std::size_t i = 0; i < each.samples.size(); ++i) {
    const Shape& shape = shapes[i % std::size(shapes)];
    each.samples[i].shapes = {shape, shape};
  }
  OpDef reduced = each;
  each.name += "_each";
  each.doc += " For each element.";
  reduced.doc += " The mean or sum over all elements.";
  reduced.rule = "*, * -> | *:sum" + loss.linearity;
  reduced.attrs.push_back({"reduction", AttrDef::Type::kString, AttrValue{std::string("mean")}});
  reduced.declined = {
      "S, S -> P(avg): means of uneven shards weigh alike; P(sum) of shares is exact"};
  reduced.kernel = reduced_kernel(loss.name);
  reduced.infer = infer_reduced_loss;
  reduced.localize = localize_loss;
  reduced.gradient = reduced_gradient(loss.name);
  reduced.samples.push_back(reduced.samples[0]);
  reduced.samples.back().attrs.set("reduction", std::string("sum"));
  table.must_add(std::move(each));
  table.must_add(std::move(reduced));
}

}  // namespace

void add_pointwise_loss_ops(OpTable& table) {
  constexpr ops::Range kProbability = {0.05, 0.95};
  add_loss(table, {.name = "mse_loss", .doc = "(input - target)^2."});
  add_loss(table, {.name = "l1_loss", .doc = "|input - target|."});
  add_loss(table, {.name = "smooth_l1_loss",
                   .doc = "Squared error over 2 beta below beta, beyond it |error| - beta / 2.",
                   .attrs = {double_attr("beta", 1.0)},
                   .attr_samples = {{{"beta", 1.0}}, {{"beta", 0.6}}}});
  add_loss(table, {.name = "huber_loss",
                   .doc = "Half the squared error up to delta, beyond it linear.",
                   .attrs = {double_attr("delta", 1.0)},
                   .attr_samples = {{{"delta", 1.0}}, {{"delta", 0.6}}}});
  add_loss(table, {.name = "binary_cross_entropy",
                   .doc = "-(target log(input) + (1 - target) log(1 - input)), logarithms held at "
                          "-100.",
                   .linearity = " | aff B",
                   .range = kProbability});
  add_loss(table, {.name = "binary_cross_entropy_with_logits",
                   .doc = "Binary cross-entropy of sigmoid(input), without overflow.",
                   .linearity = " | aff B",
                   .finite = {0}});
  add_loss(table, {.name = "kl_div",
                   .doc = "target (log(target) - input); with log_target both are logarithms.",
                   .linearity = " | aff A",
                   .attrs = {ops::bool_attr("log_target", false)},
                   .attr_samples = {{{"log_target", false}}, {{"log_target", true}}},
                   .range = kProbability,
                   .declined = {"P(max), R -> P(min); P(min), R -> P(max): only where no target is "
                                "negative"}});
}

}  // namespace tessera
