// Reductions over dims. An empty list of dims means all of them.
#include <limits>

#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "strategies/ops/reduce/reduced.h"
#include "strategies/ops/steps.h"

namespace tessera {
namespace {

StatusOr<std::vector<TensorMeta>> infer_sum(std::span<const TensorMeta> inputs,
                                            const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(auto out, ops::infer_reduced(inputs, attrs));
  if (!is_floating(out[0].dtype)) out[0].dtype = DType::kI64;
  return out;
}

/// No identity to give where there is nothing to reduce.
StatusOr<std::vector<TensorMeta>> infer_extreme(std::span<const TensorMeta> inputs,
                                                const Attrs& attrs) {
  TSR_RETURN_IF_ERROR(ops::require_rows(inputs, attrs, "an extreme"));
  return ops::infer_reduced(inputs, attrs);
}
StatusOr<std::vector<TensorMeta>> infer_aminmax(std::span<const TensorMeta> inputs,
                                                const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(auto out, infer_extreme(inputs, attrs));
  return std::vector<TensorMeta>{out[0], out[0]};
}

template <ReduceOp kOp>
void run_reduce(KernelCall& call) {
  const auto dims = value_or_throw(ops::dims_attr(call.attrs, call.inputs[0].ndim()));
  kernels::reduce(call.ctx, kOp, call.inputs[0], dims, call.outputs[0]);
}

void run_mean(KernelCall& call) {
  run_reduce<ReduceOp::kSum>(call);
  kernels::binary_scalar(call.ctx, kernels::Binary::kDiv, call.outputs[0],
                         static_cast<double>(ops::whole_row_size(call)), call.outputs[0]);
}

void run_aminmax(KernelCall& call) {
  const std::vector<int> dims = ops::kernel_dims(call);
  kernels::reduce(call.ctx, ReduceOp::kMin, call.inputs[0], dims, call.outputs[0]);
  kernels::reduce(call.ctx, ReduceOp::kMax, call.inputs[0], dims, call.outputs[1]);
}

std::vector<Var> sum_gradient(GradContext& c) { return {ops::expanded(c, c.cotangent(0))}; }

std::vector<Var> mean_gradient(GradContext& c) {
  const auto count = static_cast<double>(ops::row_size(c.attrs(), c.input_shape(0)));
  return {ops::expanded(c, c.call("div_scalar", {c.cotangent(0)}, {{"value", count}}))};
}

/// The cotangent of result `which` is shared equally among the elements that equal it; where it is
/// NaN, the gradient is, as in PyTorch.
Var extreme_cotangent(GradContext& c, int which) {
  const Var result = ops::with_kept_dims(c, c.output(which));
  const Var hit = c.call("eq", {c.input(0), result});
  const Attrs kept = {{"dim", c.attrs().get_ints_or("dim", {})}, {"keepdim", true}};
  const Var cotangent = ops::with_kept_dims(c, c.cotangent(which));
  const Var share = c.call("div", {cotangent, c.call("sum", {hit}, kept)});
  const Attrs nan = {{"value", std::numeric_limits<double>::quiet_NaN()}};
  const Var otherwise =
      c.call("masked_fill", {c.call("zeros_like", {result}), c.call("isnan", {result})}, nan);
  return c.call("where", {hit, share, otherwise});
}
std::vector<Var> extreme_gradient(GradContext& c) { return {extreme_cotangent(c, 0)}; }

/// The extreme of all: shared by the elements that equal it, or are the NaN that won.
std::vector<Var> extreme_of_all_gradient(GradContext& c) {
  const Var equal = c.call("eq", {c.input(0), c.output(0)});
  const Var hit = c.call("logical_or", {equal, c.call("isnan", {c.input(0)})});
  const Var share = c.call("div", {c.cotangent(0), c.call("sum", {hit})});
  return {c.call("where_scalar", {hit, share}, {{"other", 0.0}})};
}

std::vector<Var> aminmax_gradient(GradContext& c) {
  Var grad;
  for (const int which : {0, 1}) {
    if (!c.cotangent(which).defined()) continue;
    const Var part = extreme_cotangent(c, which);
    grad = grad.defined() ? c.call("add", {grad, part}) : part;
  }
  return {grad};
}

/// The product of the other elements, times the cotangent.
std::vector<Var> prod_gradient(GradContext& c) {
  const Var others =
      c.call("prod_of_others", {c.input(0)}, {{"dim", c.attrs().get_ints_or("dim", {})}});
  return {c.call("mul", {ops::with_kept_dims(c, c.cotangent(0)), others})};
}

OpDef reduction(std::string name, std::string doc, std::string rule, Kernel kernel) {
  return ops::reduction(std::move(name), std::move(doc), std::move(rule), std::move(kernel));
}

/// Integer samples; `below` bounds the values.
void add_integer_samples(OpDef& def, std::int64_t below) {
  def.samples.push_back({.shapes = {{6, 7}},
                         .attrs = {{"dim", Shape{1}}},
                         .dtypes = {DType::kI64},
                         .below = {below},
                         .differentiable = false});
  def.samples.push_back({.shapes = {{5, 3}},
                         .attrs = {{"dim", Shape{0}}},
                         .dtypes = {DType::kI32},
                         .below = {below},
                         .differentiable = false});
}

void add_sums(OpTable& table) {
  OpDef sum = reduction("sum", "Sum over dims; integers and BOOL are summed as I64.",
                        "*r@dim -> * | r:sum | lin A", run_reduce<ReduceOp::kSum>);
  sum.infer = infer_sum;
  sum.gradient = sum_gradient;
  sum.samples.push_back({.shapes = {{8, 5}},
                         .attrs = {{"dim", Shape{0}}},
                         .dtypes = {DType::kBool},
                         .differentiable = false});
  add_integer_samples(sum, 9);
  table.must_add(std::move(sum));

  OpDef mean =
      reduction("mean", "Arithmetic mean over dims.", "*r@dim -> * | r:sum | lin A", run_mean);
  mean.infer = ops::infer_reduced_floating;
  mean.localize = ops::localize_count;
  mean.gradient = mean_gradient;
  mean.declined = {
      "S -> P(avg): only where ranks hold equal shares; S -> P(sum) divides by the whole count"};
  table.must_add(std::move(mean));
}

void add_extreme(OpTable& table, const std::string& kind, const char* doc, Kernel kernel) {
  OpDef over_dims = reduction("a" + kind,
                              std::string(doc) + " over dims; NaN wins, no elements give " +
                                  (kind == "max" ? "-inf." : "inf.") +
                                  " Equal ones share a cotangent; that of a NaN is NaN.",
                              "*r@dim -> * | r:" + kind + " | " + kind + " A", kernel);
  over_dims.gradient = extreme_gradient;
  over_dims.saved_inputs = {0};
  over_dims.saved_outputs = {0};
  add_integer_samples(over_dims, 2);
  OpDef over_all = over_dims;
  over_all.name = kind;
  over_all.doc =
      std::string(doc) + " of all; NaN wins. Equal ones, or NaN that won, share a cotangent.";
  over_all.attrs = {};
  over_all.rule = "* -> | *:" + kind + " | " + kind + " A";
  over_all.infer = infer_extreme;
  over_all.gradient = extreme_of_all_gradient;
  for (const Shape& shape : {Shape{7, 8}, Shape{9, 7}, Shape{8, 6}, Shape{7, 9}, Shape{10, 7}}) {
    over_all.samples.push_back(
        {.shapes = {shape}, .dtypes = {DType::kI64}, .differentiable = false});
  }
  for (OpDef* def : {&over_dims, &over_all}) {
    for (Sample& sample : def->samples) {
      if (!sample.differentiable) sample.adjust = ops::mix_numbers;
      if (def == &over_all) sample.attrs = {};
    }
  }
  table.must_add(std::move(over_dims));
  table.must_add(std::move(over_all));
}

void add_aminmax(OpTable& table) {
  OpDef def =
      reduction("aminmax",
                "Smallest and largest element along a dim, or of all; NaN wins. Equal ones share a "
                "cotangent; that of a NaN is NaN.",
                "*r@dim -> *, * | r!", run_aminmax);
  def.attrs = {ops::int_attr_or_none("dim"), ops::bool_attr("keepdim", false)};
  def.num_outputs = 2;
  def.infer = infer_aminmax;
  def.gradient = aminmax_gradient;
  def.saved_inputs = {0};
  def.saved_outputs = {0, 1};
  def.lowerings = {
      {"r", "all-reduces of the ranks' extremes", [](const Attrs&) -> std::vector<LoweringStep> {
         ops::Steps steps(1, 2);
         steps.local({steps.operand(0)}, steps.results(), run_aminmax);
         steps.all_reduce({steps.result(0)}, ReduceOp::kMin);
         steps.all_reduce({steps.result(1)}, ReduceOp::kMax);
         return std::move(steps).take();
       }}};
  def.declined = {
      "S -> P(min), P(max): a contraction gives all results one kind; the lowering reduces both"};
  def.samples = {{.shapes = {{8, 6}}, .attrs = {{"dim", 1}}},
                 {.shapes = {{5, 3}}, .attrs = {{"dim", 0}, {"keepdim", true}}},
                 {.shapes = {{6, 7}}},
                 {.shapes = {{7, 6}},
                  .attrs = {{"dim", -2}},
                  .dtypes = {DType::kI64},
                  .below = {9},
                  .differentiable = false}};
  table.must_add(std::move(def));
}

void add_products(OpTable& table) {
  OpDef prod = reduction("prod", "Product over dims; integers and BOOL are multiplied as I64.",
                         "*r@dim -> * | r:prod | prod A", run_reduce<ReduceOp::kProd>);
  prod.infer = infer_sum;
  prod.gradient = prod_gradient;
  prod.saved_inputs = {0};
  add_integer_samples(prod, 3);
  for (Sample& sample : prod.samples) {
    sample.positive = true;
    // Near 1, so that half precision holds the product; a factor of 0 would hide the others.
    const double least = sample.differentiable ? 0.6 : 1.0;
    const double scale = sample.differentiable ? 0.3 : 1.0;
    sample.adjust = [least, scale](int, const Shape&, std::vector<double>& values) {
      for (double& value : values) value = least + scale * value;
    };
  }
  prod.samples.push_back({.shapes = {{6, 7}},
                          .attrs = {{"dim", Shape{1}}},
                          .adjust = [](int, const Shape&, std::vector<double>& values) {
                            for (const std::size_t i : {9, 16, 18}) {
                              if (i < values.size()) values[i] = 0.0;
                            }
                          }});
  table.must_add(std::move(prod));
}

void add_sum_of_squares(OpTable& table) {
  table.must_add(
      {.name = "sum_of_squares",
       .doc = "Sum of the squares of all elements, in F64: what norms over several tensors add up.",
       .args = {in("self")},
       .rule = "* -> | *:sum",
       .kernel =
           [](KernelCall& call) {
             kernels::sum_of_squares(call.ctx, call.inputs[0], call.outputs[0]);
           },
       .infer = [](std::span<const TensorMeta>, const Attrs&) -> StatusOr<std::vector<TensorMeta>> {
         return std::vector<TensorMeta>{{{}, DType::kF64}};
       },
       .gradient = [](GradContext& c) -> std::vector<Var> {
         const Var factor = c.call("mul_scalar", {c.cotangent(0)}, {{"value", 2.0}});
         return {ops::grad_like(c, c.call("mul", {c.input(0), factor}), 0)};
       },
       .saved_inputs = {0},
       .samples = {{.shapes = {{8, 6}}}, {.shapes = {{5, 3}}}, {.shapes = {{2}}}}});
}

}  // namespace

void add_reduction_ops(OpTable& table) {
  add_sums(table);
  add_extreme(table, "max", "Largest element", run_reduce<ReduceOp::kMax>);
  add_extreme(table, "min", "Smallest element", run_reduce<ReduceOp::kMin>);
  add_aminmax(table);
  add_products(table);
  add_sum_of_squares(table);
}

}  // namespace tessera
