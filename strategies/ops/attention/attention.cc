// Attention with its log-sum. Batch, heads and queries are independent; over cut keys each rank
// attends to its own, and the results are weighed by their log-sums.
#include "kernels/attention.h"

#include "kernels/elementwise.h"
#include "strategies/ops/attention/attention_parts.h"
#include "strategies/ops/schema.h"
#include "strategies/ops/steps.h"

namespace tessera {
namespace {

StatusOr<std::vector<TensorMeta>> infer_attention(std::span<const TensorMeta> inputs,
                                                  const Attrs&) {
  const Shape& q = inputs[0].shape;
  const Shape& k = inputs[1].shape;
  const Shape& v = inputs[2].shape;
  const bool fits = q.size() == 4 && k.size() == 4 && v.size() == 4 && q[0] == k[0] &&
                    q[0] == v[0] && q[1] == k[1] && q[1] == v[1] && q[3] == k[3] && k[2] == v[2];
  if (!fits) {
    return invalid_argument("query " + to_string(q) + ", key " + to_string(k) + ", value " +
                            to_string(v) + ": need [b, h, q, d], [b, h, k, d] and [b, h, k, v]");
  }
  const DType dtype = inputs[0].dtype;
  return std::vector<TensorMeta>{{{q[0], q[1], q[2], v[3]}, dtype},
                                 {{q[0], q[1], q[2]}, accumulation_type(dtype)}};
}

/// The cotangent and what the forward call gave are its results again.
StatusOr<std::vector<TensorMeta>> infer_attention_grad(std::span<const TensorMeta> inputs,
                                                       const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const auto results, infer_attention(inputs.subspan(1, 3), attrs));
  const TensorMeta& grad = inputs[0];
  if (!(grad == results[0]) || !(inputs[4] == results[0]) || !(inputs[5] == results[1])) {
    const auto text = [](const TensorMeta& meta) {
      return std::string(name_of(meta.dtype)) + to_string(meta.shape);
    };
    return invalid_argument("grad " + text(grad) + ", result " + text(inputs[4]) + " and lse " +
                            text(inputs[5]) + ", but the results of query, key and value are " +
                            text(results[0]) + " and " + text(results[1]));
  }
  return std::vector<TensorMeta>(inputs.begin() + 1, inputs.begin() + 4);
}

kernels::AttentionOptions options_of(const Attrs& attrs) {
  return {.scale = attrs.get_double("scale"),
          .causal = attrs.get_bool("causal"),
          .causal_offset = attrs.get_int("causal_offset")};
}

/// The log-sum's cotangent enters the scores like a value of 1 for every key: attention_grad with
/// values of one column of ones and a result of zeros.
std::vector<Var> through_lse(GradContext& c) {
  const Attrs dtype = {{"dtype", c.input_dtype(0)}};  // the log-sum's may be wider
  const Var grad = c.call("to", {c.call("unsqueeze", {c.cotangent(1)}, {{"dim", -1}})}, dtype);
  const Attrs first = {{"dim", -1}, {"start", 0}, {"end", 1}},
              last = {{"dim", -1}, {"keepdim", true}};
  const bool has_column = c.input_shape(2).back() > 0;
  const Var column =
      has_column ? c.call("slice", {c.input(2)}, first) : c.call("sum", {c.input(2)}, last);
  const Var ones = c.call("ones_like", {column});
  const Var zeros = c.call("zeros_like", {grad});
  const Var operands[] = {grad, c.input(0), c.input(1), ones, zeros, c.output(1)};
  return c.call_all("attention_grad", operands, c.attrs());
}

std::vector<Var> attention_gradient(GradContext& c) {
  std::vector<Var> grads(3);
  if (c.cotangent(0).defined()) {
    const Var operands[] = {c.cotangent(0), c.input(0),  c.input(1),
                            c.input(2),     c.output(0), c.output(1)};
    grads = c.call_all("attention_grad", operands, c.attrs());
  }
  if (c.cotangent(1).defined()) {
    const std::vector<Var> more = through_lse(c);
    for (std::size_t i = 0; i < 2; ++i) {
      grads[i] = grads[i].defined() ? c.call("add", {grads[i], more[i]}) : more[i];
    }
  }
  return grads;
}

std::vector<AttrDef> attention_attrs() {
  return {ops::finite_attr("scale"), ops::bool_attr("causal", true),
          ops::offset_attr("causal_offset", 0)};
}

void run_attention(KernelCall& call) {
  ops::attend(call.ctx, {call.inputs[0], call.inputs[1], call.inputs[2]}, options_of(call.attrs),
              ops::pieces_of(call, 0, 2), {{}}, call.outputs[0], call.outputs[1]);
}

/// A rank's own keys: result and log-sum in temporaries.
void attend_own_keys(KernelCall& call) {
  const Array &q = call.inputs[0], &v = call.inputs[2];
  call.outputs[0] = ops::scratch(call, {q.size(0), q.size(1), q.size(2), v.size(3)}, q.dtype());
  call.outputs[1] =
      ops::scratch(call, {q.size(0), q.size(1), q.size(2)}, accumulation_type(q.dtype()));
  ops::attend(call.ctx, {q, call.inputs[1], v}, options_of(call.attrs), ops::pieces_of(call, 0, 2),
              ops::pieces_of(call, 1, 2), call.outputs[0], call.outputs[1]);
}

/// Cotangents of one piece of the queries and the local keys, which stand at `key_start`.
kernels::AttentionGradients grad_of_rows(KernelCall& call, const ops::Piece& rows,
                                         std::int64_t key_start) {
  const auto part = [&](const Array& x) { return x.slice(2, rows.local, rows.local + rows.size); };
  const auto like = [&](const Array& x) { return ops::scratch(call, x.shape(), x.dtype()); };
  const Array q = part(call.inputs[1]);
  const Array &k = call.inputs[2], &v = call.inputs[3];
  kernels::AttentionOptions options = options_of(call.attrs);
  options.causal_offset += rows.global - key_start;
  const kernels::AttentionGradients grads{like(q), like(k), like(v)};
  kernels::attention_grad(call.ctx, part(call.inputs[0]), q, k, v, part(call.inputs[4]),
                          part(call.inputs[5]), options, grads);
  return grads;
}

void run_attention_grad(KernelCall& call) {
  const kernels::AttentionOptions options = options_of(call.attrs);
  const std::vector<ops::Piece> queries = ops::pieces_of(call, 1, 2);
  const std::int64_t key_start = ops::pieces_of(call, 2, 2).front().global;
  const auto& out = call.outputs;
  if (!options.causal || (queries.size() == 1 && queries[0].global == 0 && key_start == 0)) {
    kernels::attention_grad(call.ctx, call.inputs[0], call.inputs[1], call.inputs[2],
                            call.inputs[3], call.inputs[4], call.inputs[5], options,
                            {out[0], out[1], out[2]});
    return;
  }
  for (std::size_t i = 1; i < 3; ++i) kernels::fill(call.ctx, 0.0, out[i]);
  for (const ops::Piece& rows : queries) {
    const kernels::AttentionGradients grads = grad_of_rows(call, rows, key_start);
    kernels::copy(call.ctx, grads.q, out[0].slice(2, rows.local, rows.local + rows.size));
    kernels::binary(call.ctx, kernels::Binary::kAdd, out[1], grads.k, out[1]);
    kernels::binary(call.ctx, kernels::Binary::kAdd, out[2], grads.v, out[2]);
  }
}

/// With own keys, weights follow from the log-sum over all: only the queries' cotangent is a sum.
std::vector<LoweringStep> grad_over_keys(const Attrs&) {
  ops::Steps steps(6, 3);
  const auto query = steps.result(0), key = steps.result(1), value = steps.result(2);
  const auto own = steps.value();
  steps.local(steps.operands(), {own, key, value}, [](KernelCall& call) {
    const Array& q = call.inputs[1];
    call.outputs[0] = ops::scratch(call, q.shape(), q.dtype());
    run_attention_grad(call);
  });
  steps.all_reduce({own}, {query}, ReduceOp::kSum);
  return std::move(steps).take();
}

std::vector<Sample> grad_samples() {
  const Attrs causal = {{"scale", 0.5}, {"causal", true}};
  const Attrs full = {{"scale", 0.5}, {"causal", false}};
  const Attrs late = {{"scale", 0.5}, {"causal", true}, {"causal_offset", 3}};
  return {
      {.shapes = {{6, 6, 7, 6}, {6, 6, 7, 6}, {6, 6, 8, 6}, {6, 6, 8, 6}, {6, 6, 7, 6}, {6, 6, 7}},
       .attrs = full},
      {.shapes = {{2, 1, 8, 3}, {2, 1, 8, 2}, {2, 1, 9, 2}, {2, 1, 9, 3}, {2, 1, 8, 3}, {2, 1, 8}},
       .attrs = late},
      {.shapes = {{1, 5, 3, 3}, {1, 5, 3, 2}, {1, 5, 3, 2}, {1, 5, 3, 3}, {1, 5, 3, 3}, {1, 5, 3}},
       .attrs = causal}};
}

}  // namespace

void add_attention_ops(OpTable& table) {
  table.must_add(
      {.name = "attention",
       .doc = "softmax(scale q k^T) v over [b, h, l, e] and the log-sum of each row; causal: row i "
              "sees keys up to "
              "i + causal_offset.",
       .args = {in("query").floating(), in("key").with_dtype_of(0), in("value").with_dtype_of(0)},
       .attrs = attention_attrs(),
       .rule = "bhqd, bhkd, bhkv -> bhqv, bhq | d! k! v! | lin[0] C",
       .num_outputs = 2,
       .auxiliary_outputs = 1,
       .kernel = run_attention,
       .infer = infer_attention,
       .gradient = attention_gradient,
       .saved_inputs = {0, 1, 2},
       .saved_outputs = {0, 1},
       .lowerings = {{"k", "each rank's own keys; results are weighed by their log-sums",
                      [](const Attrs&) { return ops::joined_over_keys(3, 2, attend_own_keys); },
                      Lowering::Cut::kIntervals}},
       .cotangent_spreads = "to keys and values that a row does not see: their weight, 0, is a "
                            "factor of matrix products, as in PyTorch",
       .declined = {"R, R, S(3) -> S(3), R: a rule has no form for a result that is R because it "
                    "lacks the factor"},
       .samples = {{.shapes = {{6, 6, 7, 6}, {6, 6, 8, 6}, {6, 6, 8, 6}},
                    .attrs = {{"scale", 0.5}, {"causal", false}},
                    .differentiable = false},
                   {.shapes = {{2, 1, 8, 2}, {2, 1, 9, 2}, {2, 1, 9, 3}},
                    .attrs = {{"scale", 0.7}, {"causal_offset", 1}}},
                   {.shapes = {{1, 5, 3, 3}, {1, 5, 4, 3}, {1, 5, 4, 2}},
                    .attrs = {{"scale", 0.5}, {"causal", false}}},
                   {.shapes = {{2, 3, 2, 3}, {2, 3, 4, 3}, {2, 3, 4, 2}},
                    .attrs = {{"scale", 0.5}, {"causal", true}, {"causal_offset", 2}}}}});
  table.must_add(
      {.name = "attention_grad",
       .doc = "Cotangents of attention's query, key and value.",
       .args = {in("grad"), in("query").floating(), in("key").with_dtype_of(1),
                in("value").with_dtype_of(1), in("result"), in("lse")},
       .attrs = attention_attrs(),
       .rule = "bhqv, bhqd, bhkd, bhkv, bhqv, bhq -> bhqd, bhkd, bhkv | q:sum v:sum d! k! | lin A",
       .num_outputs = 3,
       .kernel = run_attention_grad,
       .infer = infer_attention_grad,
       .lowerings = {{"k", "own keys; the queries' cotangents are added up", grad_over_keys,
                      Lowering::Cut::kIntervals}},
       .finite = {1, 2, 3, 4, 5},
       .declined =
           {"R, R, S(2), S(2), R, R -> P(sum), S(2), S(2): a sum over a factor that the "
            "linear operand lacks has no form; the lowering over k cuts alike",
            "R, R, R, P(avg), R, R; R, R, R, R, P(avg), R; R, R, R, P, P, R: values and "
            "results are linear together, but a rule that says so would take the cut of the "
            "queries from it, as values lack that factor"},
       .samples = grad_samples()});
}

}  // namespace tessera
