// A router's scores, choice and weights: one kernel on a device. Tokens may be cut in any way, the
// experts of a token not.
#include "kernels/route.h"

#include "strategies/ops/schema.h"

namespace tessera {
namespace {

constexpr std::pair<std::string_view, kernels::RouteScore> kScoreNames[] = {
    {"softmax", kernels::RouteScore::kSoftmax},
    {"sigmoid", kernels::RouteScore::kSigmoid},
    {"sqrt_softplus", kernels::RouteScore::kSqrtSoftplus}};

StatusOr<kernels::RouteScore> score_attr(const Attrs& attrs) {
  const std::string given = attrs.get_string("score");
  for (const auto& [name, score] : kScoreNames) {
    if (given == name) return score;
  }
  return invalid_argument("score '" + given + "'; allowed: softmax, sigmoid, sqrt_softplus");
}

StatusOr<std::vector<TensorMeta>> infer_route(std::span<const TensorMeta> inputs,
                                              const Attrs& attrs) {
  TSR_RETURN_IF_ERROR(score_attr(attrs).status());
  const Shape& logits = inputs[0].shape;
  const std::int64_t experts = logits.back(), k = attrs.get_int("k");
  if (k > experts) {
    return invalid_argument("k is " + std::to_string(k) + ", but the " + std::to_string(experts) +
                            " experts of " + to_string(logits) + " allow 0 to " +
                            std::to_string(experts));
  }
  Shape chosen = logits;
  chosen.back() = k;
  if (!inputs[1].absent && inputs[1].shape != Shape{experts}) {
    return invalid_argument("bias " + to_string(inputs[1].shape) + ", but the " +
                            std::to_string(experts) + " experts of " + to_string(logits) +
                            " take " + to_string(Shape{experts}));
  }
  if (!inputs[2].absent && (inputs[2].shape != chosen || inputs[2].dtype != DType::kI64)) {
    return invalid_argument("ids " + std::string(name_of(inputs[2].dtype)) +
                            to_string(inputs[2].shape) + ", but " + std::to_string(k) +
                            " experts of each row of " + to_string(logits) + " are I64" +
                            to_string(chosen));
  }
  const DType dtype = inputs[0].dtype;
  return std::vector<TensorMeta>{{logits, dtype}, {chosen, DType::kI64}, {chosen, dtype}};
}

void run_route(KernelCall& call) {
  const bool is_share = call.attrs.get_bool("normalise");
  const kernels::RouteOptions options = {
      .score = value_or_throw(score_attr(call.attrs)),
      .weights = is_share ? kernels::RouteWeights::kShares : kernels::RouteWeights::kScores,
      .scale = call.attrs.get_double("scale")};
  kernels::route_topk(call.ctx, options, {call.inputs[0], call.inputs[1], call.inputs[2]},
                      {call.outputs[0], call.outputs[1], call.outputs[2]});
}

// The gradient is that of the ops which these are made of, step by step: with their bits.

constexpr std::int64_t kLastDim = -1;

/// The cotangent of the chosen scores.
Var through_weights(GradContext& c) {
  Var grad = c.cotangent(2);
  const double scale = c.attrs().get_double("scale");
  if (scale != 1.0) grad = c.call("mul_scalar", {grad}, {{"value", scale}});
  if (!c.attrs().get_bool("normalise")) return grad;
  const Var chosen = c.call("gather", {c.output(0), c.output(1)}, {{"dim", kLastDim}});
  const Var sum = c.call("sum", {chosen}, {{"dim", Shape{kLastDim}}, {"keepdim", true}});
  const Var guarded = c.call("add_scalar", {sum}, {{"value", kernels::kShareGuard}});
  const Var quotient = c.call("div", {grad, guarded});
  const Var share = c.call("div", {chosen, guarded});
  const Var of_each = c.call("neg", {c.call("mul", {quotient, share})});
  const Var of_sum = c.sum_to(of_each, c.shape(guarded));
  return c.call("add",
                {quotient, c.call("expand", {of_sum}, {{"size", Shape(c.shape(quotient))}})});
}

/// The cotangent of the logits.
Var through_scores(GradContext& c, Var grad) {
  switch (value_or_throw(score_attr(c.attrs()))) {
    case kernels::RouteScore::kSoftmax:
      return c.call("softmax_grad", {grad, c.output(0)}, {{"dim", kLastDim}});
    case kernels::RouteScore::kSigmoid:
      return c.call("sigmoid_grad", {grad, c.output(0)});
    case kernels::RouteScore::kSqrtSoftplus:
      break;
  }
  const Var root = c.call("mul_scalar", {c.call("div", {grad, c.output(0)})}, {{"value", 0.5}});
  return c.call("pointwise_grad", {root, c.input(0)},
                {{"function", std::string("softplus'0")}, {"a", 1.0}, {"b", 20.0}, {"c", 0.0}});
}

std::vector<Var> route_gradient(GradContext& c) {
  std::vector<Var> grads(3);
  if (!c.needs(0)) return grads;
  Var scores = c.cotangent(0);
  if (c.cotangent(2).defined()) {
    const Var chosen = c.call("gather_grad", {through_weights(c), c.output(1)},
                              {{"dim", kLastDim}, {"size", c.input_shape(0)}});
    scores = scores.defined() ? c.call("add", {scores, chosen}) : chosen;
  }
  if (scores.defined()) grads[0] = through_scores(c, scores);
  return grads;
}

Attrs attrs_of(std::int64_t k, const char* score, bool normalise, double scale) {
  return {{"k", k}, {"score", std::string(score)}, {"normalise", normalise}, {"scale", scale}};
}

}  // namespace

void add_route_ops(OpTable& table) {
  const DType kF = DType::kF64, kI = DType::kI64;
  table.must_add(
      {.name = "route_topk",
       .doc = "Routing of tokens to experts: scores of the logits (softmax, sigmoid or "
              "sqrt_softplus), the ids of the k largest of each row after a bias, as topk chooses "
              "(or the ids given, and no choice), and weights: the scores there without the bias, "
              "normalised to shares of their sum + 1e-20, times scale.",
       .args = {in("logits").floating().dims(1, kMaxDims), in_optional("bias").with_dtype_of(0),
                in_optional("ids")},
       .attrs = {ops::int_attr("k").at_least(0),
                 {"score", AttrDef::Type::kString, AttrValue{std::string("softmax")}},
                 ops::bool_attr("normalise", false),
                 ops::element_attr("scale", 1.0)},
       .rule = "*r, r?, *K? -> *r, *K int, *K | r!",
       .num_outputs = 3,
       .kernel = run_route,
       .infer = infer_route,
       .gradient = route_gradient,
       .saved_inputs = {0},
       .saved_outputs = {0, 1},
       .declined = {"lowering r: a row of logits is short where tokens are many; gather it"},
       .samples = {{.shapes = {{8, 6}}, .attrs = {{"k", std::int64_t{2}}}},
                   {.shapes = {{5, 4}, {4}}, .attrs = attrs_of(3, "sigmoid", true, 2.5)},
                   {.shapes = {{2, 8, 5}, {5}}, .attrs = attrs_of(2, "sqrt_softplus", true, 1.0)},
                   {.shapes = {{8, 6}, {6}, {8, 3}},
                    .attrs = attrs_of(3, "softmax", true, 1.0),
                    .dtypes = {kF, kF, kI},
                    .below = {2, 2, 6},
                    .unique_dim = {-1, -1, 1}}}});
}

}  // namespace tessera
