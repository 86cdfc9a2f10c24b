// Random tensors beside an operand: of its shape, by its values as probabilities, or dropping some
// of its elements. Numbers depend on seed, stream and the index in the whole tensor only.
#include <algorithm>
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/select.h"
#include "strategies/ops/create/random_fill.h"
#include "strategies/ops/index/index_local.h"
#include "strategies/ops/schema.h"

namespace tessera {

namespace ops {

void fill_random(KernelCall& call, kernels::RandomSpec spec, const Array& out) {
  spec.seed = static_cast<std::uint64_t>(call.attrs.get_int("seed"));
  spec.stream = static_cast<std::uint64_t>(call.attrs.get_int("stream"));
  const OperandView view = result_view(call);
  kernels::random(call.ctx, spec, view.spec != nullptr ? view.spec->global_shape() : out.shape(),
                  global_indices(view, out.shape()), out);
}

std::vector<AttrDef> with_seed(std::vector<AttrDef> attrs) {
  attrs.push_back(int_attr("seed"));
  attrs.push_back(int_attr("stream"));
  return attrs;
}

}  // namespace ops

namespace {

using kernels::Distribution;
using kernels::RandomSpec;
using Metas = StatusOr<std::vector<TensorMeta>>;

Attrs seeded(Attrs attrs) {
  attrs.set("seed", std::int64_t{29});
  attrs.set("stream", std::int64_t{-3});
  return attrs;
}

std::vector<Var> no_gradient(GradContext& c) {
  return std::vector<Var>(static_cast<std::size_t>(c.num_inputs()));
}

/// The operand's values are not read: its Partial axes hold the result whole.
StatusOr<std::vector<Strategy>> like_strategies(std::span<const Spec* const> inputs,
                                                std::span<const TensorMeta> outputs, const Attrs&) {
  Layout layout = inputs[0]->layout();
  for (auto& partial : layout.partial) partial.reset();
  TSR_ASSIGN_OR_RETURN(Spec out, Spec::make(inputs[0]->mesh(), outputs[0].shape, outputs[0].dtype,
                                            std::move(layout)));
  return std::vector<Strategy>{{{*inputs[0]}, {std::move(out)}, "cut like the operand"}};
}

void add_like(OpTable& table, std::string name, std::string doc, std::vector<AttrDef> attrs,
              RandomSpec (*spec)(const Attrs&)) {
  table.must_add(
      {.name = std::move(name),
       .doc = std::move(doc),
       .args = {in("self")},
       .attrs = ops::with_seed(std::move(attrs)),
       .rule = "",
       .kernel =
           [spec](KernelCall& call) { ops::fill_random(call, spec(call.attrs), call.outputs[0]); },
       .infer = [spec](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
         TSR_RETURN_IF_ERROR(kernels::check_random(spec(attrs), inputs[0].dtype));
         return std::vector<TensorMeta>{inputs[0]};
       },
       .gradient = no_gradient,
       .strategies = like_strategies,
       .samples = {{.shapes = {{8, 6}}, .attrs = seeded({}), .differentiable = false},
                   {.shapes = {{5, 3}}, .attrs = seeded({}), .differentiable = false}}});
}

void add_likes(OpTable& table) {
  add_like(table, "rand_like", "Uniform values in [0, 1) in the operand's shape.", {},
           [](const Attrs&) { return RandomSpec{}; });
  add_like(
      table, "randn_like", "Standard normal values in the operand's shape.", {},
      [](const Attrs&) { return RandomSpec{.distribution = Distribution::kNormal, .a = 0.0}; });
  add_like(table, "randint_like", "Integers in [low, high) in the operand's shape and dtype.",
           {ops::int_attr("low", 0), ops::int_attr("high", 10)}, [](const Attrs& attrs) {
             return RandomSpec{.distribution = Distribution::kInteger,
                               .a = attrs.get_double("low"),
                               .b = attrs.get_double("high")};
           });
}

// ---- by probability ----

void probabilities(int operand, const Shape&, std::vector<double>& values) {
  if (operand != 0) return;
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] =
        (static_cast<double>(i * 7 % values.size()) + 0.5) / static_cast<double>(values.size());
  }
}

void add_bernoulli(OpTable& table) {
  table.must_add({.name = "bernoulli",
                  .doc = "1 with the probability that self has at each element, else 0.",
                  .args = {in("self")},
                  .attrs = ops::with_seed({}),
                  .rule = "* -> * | mono A",
                  .kernel =
                      [](KernelCall& call) {
                        const Array& p = call.inputs[0];
                        const Array draws = ops::scratch(call, p.shape(), DType::kF64);
                        const Array wide = ops::scratch(call, p.shape(), DType::kF64);
                        ops::fill_random(call, {}, draws);
                        kernels::copy(call.ctx, p, wide);
                        kernels::binary(call.ctx, kernels::Binary::kLt, draws, wide,
                                        call.outputs[0]);
                      },
                  .infer = ops::infer_floating,
                  .gradient = no_gradient,
                  .samples = {{.shapes = {{8, 6}},
                               .attrs = seeded({}),
                               .adjust = probabilities,
                               .differentiable = false},
                              {.shapes = {{5, 3}},
                               .attrs = seeded({}),
                               .adjust = probabilities,
                               .differentiable = false}}});
}

// ---- dropout ----

Metas infer_dropout(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  const double p = attrs.get_double("p");
  if (!(p >= 0.0 && p <= 1.0)) {
    return invalid_argument("p is " + std::to_string(p) + ", but must lie in [0, 1]");
  }
  return ops::infer_floating(inputs, attrs);
}

double drop_rate(const Attrs& attrs) {
  return attrs.get_bool("train") ? attrs.get_double("p") : 0.0;
}

/// Which elements stay.
void draw_kept(KernelCall& call, const Array& kept) {
  ops::fill_random(
      call, {.distribution = Distribution::kBernoulli, .a = 1.0 - drop_rate(call.attrs)}, kept);
}

/// Elements that go become 0 whatever they were, infinities and NaN included.
void run_dropout(KernelCall& call) {
  const Array& x = call.inputs[0];
  const Array& out = call.outputs[0];
  const double p = drop_rate(call.attrs);
  const Array kept = ops::scratch(call, x.shape(), DType::kBool);
  const Array zero = ops::scratch(call, {}, x.dtype());
  draw_kept(call, kept);
  kernels::fill(call.ctx, 0.0, zero);
  kernels::binary_scalar(call.ctx, kernels::Binary::kMul, x, p < 1.0 ? 1.0 / (1.0 - p) : 0.0, out);
  kernels::where(call.ctx, kept, out, zero, out);
}

std::vector<Sample> dropout_samples() {
  return {{.shapes = {{8, 6}}, .attrs = seeded({{"p", 0.25}})},
          {.shapes = {{8, 6}}, .attrs = seeded({{"p", 0.5}, {"train", false}})},
          {.shapes = {{5, 3}}, .attrs = seeded({{"p", 0.5}})}};
}

void add_dropout(OpTable& table) {
  const std::vector<AttrDef> attrs =
      ops::with_seed({ops::double_attr("p", 0.5), ops::bool_attr("train", true)});
  table.must_add({.name = "dropout",
                  .doc = "Elements set to 0 with probability p, the others divided by 1 − p; seed "
                         "and stream make the mask again.",
                  .args = {in("self")},
                  .attrs = attrs,
                  .rule = "* -> * | lin A | mono A | prod A if train==false",
                  .kernel = run_dropout,
                  .infer = infer_dropout,
                  .gradient = [](GradContext& c) -> std::vector<Var> {
                    return {c.call("dropout", {c.cotangent(0)}, c.attrs())};
                  },
                  .samples = dropout_samples()});
  table.must_add({.name = "native_dropout",
                  .doc = "dropout, and which elements stayed.",
                  .args = {in("self")},
                  .attrs = attrs,
                  .rule = "* -> *, * | lin[0] A | mono[0] A | prod[0] A if train==false",
                  .num_outputs = 2,
                  .kernel =
                      [](KernelCall& call) {
                        run_dropout(call);
                        draw_kept(call, call.outputs[1]);
                      },
                  .infer = [](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
                    TSR_ASSIGN_OR_RETURN(auto out, infer_dropout(inputs, attrs));
                    out.push_back({out[0].shape, DType::kBool});
                    return out;
                  },
                  .gradient = [](GradContext& c) -> std::vector<Var> {
                    return {c.call("dropout", {c.cotangent(0)}, c.attrs())};
                  },
                  .samples = dropout_samples()});
}

// ---- multinomial ----

Metas infer_multinomial(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TensorMeta out = {inputs[0].shape, DType::kI64};
  const std::int64_t count = attrs.get_int("num_samples");
  const bool fits = !out.shape.empty() && out.shape.size() <= 2 && is_floating(inputs[0].dtype);
  if (!fits || count < 1) {
    return invalid_argument("self " + to_string(out.shape) + " " +
                            std::string(name_of(inputs[0].dtype)) +
                            " must be floating with one or two dims, num_samples " +
                            std::to_string(count) + " at least 1");
  }
  if (!attrs.get_bool("replacement") && count > out.shape.back()) {
    return invalid_argument("num_samples " + std::to_string(count) + " of " +
                            std::to_string(out.shape.back()) + " categories without replacement");
  }
  out.shape.back() = count;
  return std::vector<TensorMeta>{out};
}

/// By the inverse of the cumulative weights: one draw for each sample.
void draw_with_replacement(KernelCall& call, const Array& weights) {
  const Array& out = call.outputs[0];
  const std::int64_t categories = weights.size(weights.ndim() - 1);
  const std::int64_t samples = out.size(out.ndim() - 1);
  const Array draws = ops::scratch(call, out.shape(), DType::kF64);
  ops::fill_random(call, {}, draws);
  const auto* weight = weights.data<double>();
  for (std::int64_t i = 0; i < out.num_elements(); ++i) {
    const double* row = weight + i / samples * categories;
    double total = 0.0;
    for (std::int64_t k = 0; k < categories; ++k) total += row[k];
    double left = draws.data<double>()[i] * total;
    std::int64_t chosen = categories - 1;
    for (std::int64_t k = 0; k < categories; ++k) {
      left -= row[k];
      if (left < 0 && row[k] > 0) {
        chosen = k;
        break;
      }
    }
    while (chosen > 0 && row[chosen] <= 0) --chosen;
    out.data<std::int64_t>()[i] = chosen;
  }
}

/// The categories whose exponential clocks of rate weight ring first.
void draw_without_replacement(KernelCall& call, const Array& weights) {
  const Array& out = call.outputs[0];
  const int last = weights.ndim() - 1;
  RandomSpec spec{.distribution = Distribution::kExponential, .a = 1.0};
  spec.seed = static_cast<std::uint64_t>(call.attrs.get_int("seed"));
  spec.stream = static_cast<std::uint64_t>(call.attrs.get_int("stream"));
  const OperandView view = ops::input_view(call, 0);
  const Array clocks = ops::scratch(call, weights.shape(), DType::kF64);
  kernels::random(call.ctx, spec,
                  view.spec != nullptr ? view.spec->global_shape() : weights.shape(),
                  ops::global_indices(view, weights.shape()), clocks);
  kernels::binary(call.ctx, kernels::Binary::kDiv, clocks, weights, clocks);
  const Array values = ops::scratch(call, out.shape(), DType::kF64);
  kernels::topk(call.ctx, clocks, last, kernels::Order::kAscending, values, out);
}

void run_multinomial(KernelCall& call) {
  const Array weights = ops::scratch(call, call.inputs[0].shape(), DType::kF64);
  kernels::copy(call.ctx, call.inputs[0], weights);
  for (std::int64_t i = 0; i < weights.num_elements(); ++i) {
    if (weights.data<double>()[i] >= 0) continue;
    throw Error(out_of_range("multinomial: the weight at position " + std::to_string(i) + " is " +
                             std::to_string(weights.data<double>()[i]) +
                             ", but weights must not be negative"));
  }
  if (call.attrs.get_bool("replacement")) {
    draw_with_replacement(call, weights);
  } else {
    draw_without_replacement(call, weights);
  }
}

void add_multinomial(OpTable& table) {
  table.must_add({.name = "multinomial",
                  .doc = "num_samples categories of the last dim, drawn by self's weights.",
                  .args = {in("self")},
                  .attrs = ops::with_seed(
                      {ops::int_attr("num_samples"), ops::bool_attr("replacement", false)}),
                  .rule = "*r -> *K int | r!",
                  .kernel = run_multinomial,
                  .infer = infer_multinomial,
                  .gradient = no_gradient,
                  .samples = {{.shapes = {{8, 6}},
                               .attrs = seeded({{"num_samples", 3}}),
                               .positive = true,
                               .differentiable = false},
                              {.shapes = {{6, 7}},
                               .attrs = seeded({{"num_samples", 9}, {"replacement", true}}),
                               .positive = true,
                               .differentiable = false},
                              {.shapes = {{5}},
                               .attrs = seeded({{"num_samples", 2}}),
                               .positive = true,
                               .differentiable = false}}});
}

}  // namespace

void add_random_like_ops(OpTable& table) {
  add_likes(table);
  add_bernoulli(table);
  add_dropout(table);
  add_multinomial(table);
}

}  // namespace tessera
