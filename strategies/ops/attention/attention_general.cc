// Scaled-dot-product attention in its general form: several queries' heads to one of the keys, a
// mask that broadcasts.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/elementwise.h"
#include "strategies/ops/attention/attention_parts.h"
#include "strategies/ops/call_rule.h"
#include "strategies/ops/product/product.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using Metas = StatusOr<std::vector<TensorMeta>>;

Status check_mask(const TensorMeta& mask, const Shape& scores, bool causal) {
  if (causal) {
    return invalid_argument("attn_mask and is_causal were both given; state the mask alone");
  }
  StatusOr<Shape> both = ops::broadcast(mask.shape, scores);
  if (!both.ok() || *both != scores) {
    return ops::shapes_differ("attn_mask", mask.shape, "the scores", scores,
                              "the mask must broadcast to [b, h, q, k]");
  }
  if (mask.dtype == DType::kBool || is_floating(mask.dtype)) return absl::OkStatus();
  return invalid_argument("attn_mask is " + std::string(name_of(mask.dtype)) +
                          ", but must be BOOL or floating");
}

Metas infer_general(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  const Shape& q = inputs[0].shape;
  const Shape& k = inputs[1].shape;
  const Shape& v = inputs[2].shape;
  const bool gqa = attrs.get_bool("enable_gqa");
  bool fits = q.size() == 4 && k.size() == 4 && v.size() == 4;
  fits = fits && q[0] == k[0] && q[0] == v[0] && k[1] == v[1] && q[3] == k[3] && k[2] == v[2];
  fits = fits && (q[1] == k[1] || (gqa && k[1] > 0 && q[1] > 0 && q[1] % k[1] == 0));
  if (!fits) {
    return invalid_argument(
        "query " + to_string(q) + ", key " + to_string(k) + ", value " + to_string(v) +
        ": need [b, h, q, d], [b, g, k, d] and [b, g, k, v], where h = g, or with enable_gqa a "
        "multiple of it that is not 0");
  }
  if (inputs[0].dtype != inputs[1].dtype || inputs[0].dtype != inputs[2].dtype ||
      !is_floating(inputs[0].dtype)) {
    return invalid_argument("query, key and value must be of one floating dtype");
  }
  if (attrs.get_double("dropout_p") != 0.0) {
    return invalid_argument("dropout_p must be 0; apply dropout to the result's operands");
  }
  if (!inputs[3].absent) {
    TSR_RETURN_IF_ERROR(
        check_mask(inputs[3], {q[0], q[1], q[2], k[2]}, attrs.get_bool("is_causal")));
  }
  return std::vector<TensorMeta>{{{q[0], q[1], q[2], v[3]}, inputs[0].dtype}};
}

double scale_of(const Attrs& attrs, std::int64_t depth) {
  const double scale = attrs.get_double("scale");
  if (scale != 0.0) return scale;
  return 1.0 / std::sqrt(static_cast<double>(std::max<std::int64_t>(depth, 1)));
}

kernels::AttentionOptions options_of(const Attrs& attrs, std::int64_t depth) {
  return {.scale = scale_of(attrs, depth), .causal = attrs.get_bool("is_causal")};
}

/// Heads r, r + R, … of x: those that stand at place r of their group of R.
Array heads_at(const Array& x, std::int64_t place, std::int64_t group) {
  Shape shape = x.shape();
  Shape strides = x.strides();
  const std::int64_t offset = x.offset() + place * strides[1];
  shape[1] /= group;
  strides[1] *= group;
  return x.as_strided(shape, strides, offset);
}

/// Result and log-sum over this rank's keys.
void run_own(KernelCall& call, const Array& out, const Array& lse) {
  const Array &q = call.inputs[0], &k = call.inputs[1], &v = call.inputs[2];
  const bool masked = call.inputs.size() > 3 && !call.inputs[3].is_null();
  const kernels::AttentionOptions options = options_of(call.attrs, q.size(3));
  const std::vector<ops::Piece> queries = ops::pieces_of(call, 0, 2);
  const std::vector<ops::Piece> keys = ops::pieces_of(call, 1, 2);
  const std::int64_t group = k.size(1) == 0 ? 1 : q.size(1) / k.size(1);
  Array mask;
  if (masked)
    mask = ops::broadcast_view(call.inputs[3], {q.size(0), q.size(1), q.size(2), k.size(2)});
  for (std::int64_t r = 0; r < group; ++r) {
    const Array rows = heads_at(q, r, group);
    const Array own = heads_at(out, r, group), own_lse = heads_at(lse, r, group);
    if (masked) {
      kernels::masked_attention(call.ctx, rows, k, v, heads_at(mask, r, group), options.scale, own,
                                own_lse);
    } else {
      ops::attend(call.ctx, {rows, k, v}, options, queries, keys, own, own_lse);
    }
  }
}

Array new_lse(KernelCall& call) {
  const Array& q = call.inputs[0];
  return ops::scratch(call, {q.size(0), q.size(1), q.size(2)}, accumulation_type(q.dtype()));
}

void run_general(KernelCall& call) { run_own(call, call.outputs[0], new_lse(call)); }

std::vector<LoweringStep> over_keys(const Attrs&) {
  return ops::joined_over_keys(4, 1, [](KernelCall& call) {
    const Array &q = call.inputs[0], &v = call.inputs[2];
    call.outputs[0] = ops::scratch(call, {q.size(0), q.size(1), q.size(2), v.size(3)}, q.dtype());
    call.outputs[1] = new_lse(call);
    run_own(call, call.outputs[0], call.outputs[1]);
  });
}

std::vector<Lowering> lowerings() {
  return {{"k", "each rank's own keys; results are weighed by their log-sums", over_keys,
           Lowering::Cut::kIntervals}};
}

StatusOr<std::vector<Strategy>> strategies(std::span<const Spec* const> inputs,
                                           std::span<const TensorMeta> outputs,
                                           const Attrs& attrs) {
  std::string mask;
  if (inputs[3] != nullptr) {
    const Shape& q = inputs[0]->global_shape();
    const std::string letters = ops::broadcast_letters(
        inputs[3]->global_shape(), {q[0], q[1], q[2], inputs[1]->global_shape()[2]}, "bhqk");
    for (const char letter : letters) mask += letter == 'h' ? "(gr)" : std::string(1, letter);
  }
  const std::string rule = "b(gr)qd, bgkd, bgkv, " + mask + "? -> b(gr)qv | d! k! | lin C";
  return ops::strategies_of_rule({"scaled_dot_product_attention", rule, lowerings()}, inputs,
                                 outputs, attrs);
}

/// Cotangents from scores that are built whole: what a mask needs.
class MaskedGradient {
 public:
  explicit MaskedGradient(GradContext& c) : c_(c) {}

  std::vector<Var> run() {
    const Var grad = c_.cotangent(0);
    const Var q = c_.input(0), k = per_query_head(c_.input(1)), v = per_query_head(c_.input(2));
    const double scale = scale_of(c_.attrs(), c_.input_shape(0)[3]);
    const Var weights = weights_of(q, k, scale);
    const Var slope = c_.call("matmul", {grad, ops::transposed(c_, v)});
    const Var both = c_.call("mul", {slope, weights});
    const Var total = c_.call("sum", {both}, {{"dim", Shape{-1}}, {"keepdim", true}});
    const Var scores = c_.call("sub", {both, c_.call("mul", {weights, total})});
    std::vector<Var> grads(4);
    grads[0] = ops::scaled(c_, c_.call("matmul", {scores, k}), scale);
    grads[1] =
        per_key_head(ops::scaled(c_, c_.call("matmul", {ops::transposed(c_, scores), q}), scale));
    grads[2] = per_key_head(c_.call("matmul", {ops::transposed(c_, weights), grad}));
    if (c_.needs(3) && is_floating(c_.input_dtype(3))) grads[3] = ops::grad_like(c_, scores, 3);
    return grads;
  }

  std::int64_t group() const {
    const std::int64_t heads = c_.input_shape(1)[1];
    return heads == 0 ? 1 : c_.input_shape(0)[1] / heads;
  }
  /// Keys' heads repeated to those of the queries.
  Var per_query_head(Var x) const {
    if (group() == 1) return x;
    Shape wide = c_.shape(x);
    wide.insert(wide.begin() + 2, group());
    const Var apart = c_.call("unsqueeze", {x}, {{"dim", std::int64_t{2}}});
    const Var repeated = c_.call("expand", {apart}, {{"size", wide}});
    wide.erase(wide.begin() + 2);
    wide[1] *= group();
    return c_.call("reshape", {repeated}, {{"shape", wide}});
  }
  Var per_key_head(Var x) const {
    if (group() == 1) return x;
    const Shape sizes{c_.shape(x)[1] / group(), group()};
    const Var apart = c_.call("unflatten", {x}, {{"dim", std::int64_t{1}}, {"sizes", sizes}});
    return c_.call("sum", {apart}, {{"dim", Shape{2}}, {"keepdim", false}});
  }

 private:
  /// softmax of the masked scores; zeros where a row sees no key.
  Var weights_of(Var q, Var k, double scale) const {
    Var scores = ops::scaled(c_, c_.call("matmul", {q, ops::transposed(c_, k)}), scale);
    const Var mask = c_.input(3);
    constexpr double kHidden = -std::numeric_limits<double>::infinity();
    constexpr double kLowest = -1e30;  // e^(it - any score) is 0
    Var hidden;
    if (is_floating(c_.input_dtype(3))) {
      scores = c_.call("add", {scores, mask});
      hidden = c_.call("eq_scalar", {scores}, {{"value", kHidden}});
    } else {
      hidden = c_.call("logical_not", {mask});
    }
    scores = c_.call("masked_fill", {scores, hidden}, {{"value", kLowest}});
    const Var weights = c_.call("softmax", {scores}, {{"dim", std::int64_t{-1}}});
    return c_.call("masked_fill", {weights, hidden}, {{"value", 0.0}});
  }

  GradContext& c_;
};

std::vector<Var> general_gradient(GradContext& c) {
  const MaskedGradient form(c);
  if (c.input(3).defined()) return MaskedGradient(c).run();
  const Var k = form.per_query_head(c.input(1)), v = form.per_query_head(c.input(2));
  const kernels::AttentionOptions options = options_of(c.attrs(), c.input_shape(0)[3]);
  const Attrs attrs = {{"scale", options.scale}, {"causal", options.causal}};
  // The log-sum is not a result: it is computed again.
  const Var forward[] = {c.input(0), k, v};
  const std::vector<Var> again = c.call_all("attention", forward, attrs);
  const Var operands[] = {c.cotangent(0), c.input(0), k, v, again[0], again[1]};
  std::vector<Var> grads = c.call_all("attention_grad", operands, attrs);
  grads[1] = form.per_key_head(grads[1]);
  grads[2] = form.per_key_head(grads[2]);
  grads.emplace_back();
  return grads;
}

std::vector<Sample> samples() {
  const Attrs gqa = {{"enable_gqa", true}, {"is_causal", true}};
  const Attrs scaled = {{"scale", 0.5}, {"enable_gqa", true}};
  const std::vector<DType> with_bool = {DType::kF64, DType::kF64, DType::kF64, DType::kBool};
  return {
      {.shapes = {{6, 6, 7, 6}, {6, 6, 8, 6}, {6, 6, 8, 7}}, .differentiable = false},
      {.shapes = {{1, 4, 5, 3}, {1, 2, 6, 3}, {1, 2, 6, 2}}, .attrs = gqa},
      {.shapes = {{2, 4, 3, 2}, {2, 2, 5, 2}, {2, 2, 5, 3}, {3, 5}}, .attrs = scaled},
      {.shapes = {{2, 3, 3, 2}, {2, 3, 5, 2}, {2, 3, 5, 3}, {2, 3, 3, 5}}},
      {.shapes = {{2, 2, 3, 2}, {2, 2, 4, 2}, {2, 2, 4, 3}, {2, 1, 1, 4}}, .dtypes = with_bool}};
}

}  // namespace

void add_attention_general_ops(OpTable& table) {
  table.must_add(
      {.name = "scaled_dot_product_attention",
       .doc = "softmax(scale q k^T + mask) v over [b, h, l, e]; scale 0 means 1 / sqrt(e). With "
              "enable_gqa several heads of the query share one of the key. A row that sees no key "
              "gives 0.",
       .args = {in("query"), in("key"), in("value"), in_optional("attn_mask")},
       .attrs = {ops::double_attr("dropout_p", 0.0), ops::bool_attr("is_causal", false),
                 ops::finite_attr("scale", 0.0), ops::bool_attr("enable_gqa", false)},
       .rule = "",
       .kernel = run_general,
       .infer = infer_general,
       .gradient = general_gradient,
       .saved_inputs = {0, 1, 2, 3},
       .strategies = strategies,
       .lowerings = lowerings(),
       .cotangent_spreads = "to keys and values that a row does not see: their weight, 0, is a "
                            "factor of matrix products, as in PyTorch",
       .samples = samples()});
}

}  // namespace tessera
