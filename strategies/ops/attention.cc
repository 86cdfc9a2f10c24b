// Scaled-dot-product attention. Batch and heads are independent; queries and keys stay whole.
#include "kernels/attention.h"

#include "strategies/ops/schema.h"

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
  const DType dtype = promote(promote(inputs[0].dtype, inputs[1].dtype), inputs[2].dtype);
  return std::vector<TensorMeta>{{{q[0], q[1], q[2], v[3]}, dtype},
                                 {{q[0], q[1], q[2]}, accumulation_type(dtype)}};
}

kernels::AttentionOptions options_of(const Attrs& attrs) {
  return {.scale = attrs.get_double("scale"),
          .causal = attrs.get_bool("causal"),
          .causal_offset = attrs.get_int("causal_offset")};
}

/// The log-sum's cotangent enters the scores like a value of 1 for every key: attention_grad with
/// values of one column of ones and a result of zeros.
std::vector<Var> through_lse(GradContext& c) {
  const Var grad = c.call("unsqueeze", {c.cotangent(1)}, {{"dim", -1}});
  const Var column = c.call("slice", {c.input(2)}, {{"dim", -1}, {"start", 0}, {"end", 1}});
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
  return {ops::double_attr("scale"), ops::bool_attr("causal", true),
          ops::int_attr("causal_offset", 0)};
}

std::vector<Sample> grad_samples() {
  const Attrs causal = {{"scale", 0.5}, {"causal", true}};
  const Attrs full = {{"scale", 0.5}, {"causal", false}};
  return {
      {.shapes = {{4, 8, 3, 2}, {4, 8, 3, 4}, {4, 8, 4, 4}, {4, 8, 4, 2}, {4, 8, 3, 2}, {4, 8, 3}},
       .attrs = full},
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
       .args = {in("query"), in("key"), in("value")},
       .attrs = attention_attrs(),
       .rule = "bhqd, bhkd, bhkv -> bhqv, bhq | q! d! k! v! | lin[0] C",
       .num_outputs = 2,
       .kernel =
           [](KernelCall& call) {
             kernels::attention(call.ctx, call.inputs[0], call.inputs[1], call.inputs[2],
                                options_of(call.attrs), call.outputs[0], call.outputs[1]);
           },
       .infer = infer_attention,
       .gradient = attention_gradient,
       .saved_inputs = {0, 1, 2},
       .saved_outputs = {0, 1},
       .declined = {"S(q): a causal mask needs each rank's offset, and its queries in one interval",
                    "S(v): sound where the log-sum is replicated, but heads are the dim to cut"},
       .samples = {
           {.shapes = {{4, 8, 4, 2}, {4, 8, 4, 2}, {4, 8, 4, 2}}, .attrs = {{"scale", 0.7}}},
           {.shapes = {{1, 5, 3, 3}, {1, 5, 4, 3}, {1, 5, 4, 2}},
            .attrs = {{"scale", 0.5}, {"causal", false}}},
           {.shapes = {{2, 3, 2, 3}, {2, 3, 4, 3}, {2, 3, 4, 2}},
            .attrs = {{"scale", 0.5}, {"causal", true}, {"causal_offset", 2}}}}});
  table.must_add(
      {.name = "attention_grad",
       .doc = "Cotangents of attention's query, key and value.",
       .args = {in("grad"), in("query"), in("key"), in("value"), in("result"), in("lse")},
       .attrs = attention_attrs(),
       .rule = "bhqv, bhqd, bhkd, bhkv, bhqv, bhq -> bhqd, bhkd, bhkv | q! d! k! v! | lin A",
       .num_outputs = 3,
       .kernel =
           [](KernelCall& call) {
             kernels::attention_grad(call.ctx, call.inputs[0], call.inputs[1], call.inputs[2],
                                     call.inputs[3], call.inputs[4], call.inputs[5],
                                     options_of(call.attrs),
                                     {call.outputs[0], call.outputs[1], call.outputs[2]});
           },
       .infer = ops::like_operands({1, 2, 3}),
       .declined = {"S(v): sound with P(sum) for query and key, but heads are the dim to cut"},
       .samples = grad_samples()});
}

}  // namespace tessera
