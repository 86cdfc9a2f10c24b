// Reductions over dims. An empty list of dims means all of them.
#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

StatusOr<std::vector<TensorMeta>> infer_reduced(std::span<const TensorMeta> inputs,
                                                const Attrs& attrs) {
  const Shape& shape = inputs[0].shape;
  TSR_ASSIGN_OR_RETURN(const auto dims, ops::dims_attr(attrs, static_cast<int>(shape.size())));
  TensorMeta out = {{}, inputs[0].dtype};
  const Shape kept = ops::keep_dims(shape, dims);
  std::size_t next = 0;
  for (std::size_t dim = 0; dim < shape.size(); ++dim) {
    const bool reduced = next < dims.size() && dims[next] == static_cast<int>(dim);
    if (reduced) ++next;
    if (!reduced || attrs.get_bool("keepdim")) out.shape.push_back(kept[dim]);
  }
  return std::vector<TensorMeta>{out};
}

StatusOr<std::vector<TensorMeta>> infer_sum(std::span<const TensorMeta> inputs,
                                            const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(auto out, infer_reduced(inputs, attrs));
  if (!is_floating(out[0].dtype)) out[0].dtype = DType::kI64;
  return out;
}

StatusOr<std::vector<TensorMeta>> infer_mean(std::span<const TensorMeta> inputs,
                                             const Attrs& attrs) {
  if (!is_floating(inputs[0].dtype)) {
    return invalid_argument("dtype " + std::string(name_of(inputs[0].dtype)) +
                            " where a floating type is needed; cast with `to` first");
  }
  return infer_reduced(inputs, attrs);
}

template <ReduceOp kOp>
void run_reduce(KernelCall& call) {
  const auto dims = value_or_throw(ops::dims_attr(call.attrs, call.inputs[0].ndim()));
  kernels::reduce(call.ctx, kOp, call.inputs[0], dims, call.outputs[0]);
}

/// The whole tensor's number of elements along the reduced dims: on a cut dim, more than this
/// rank's.
constexpr std::string_view kCount = "count";

Attrs localize_count(const Attrs& attrs, std::span<const Spec> inputs, std::span<const Spec>,
                     const Coord&) {
  std::int64_t count = 1;
  for (const int dim : value_or_throw(ops::dims_attr(attrs, inputs[0].ndim()))) {
    count *= inputs[0].global_shape()[static_cast<std::size_t>(dim)];
  }
  Attrs local = attrs;
  local.set(kCount, count);
  return local;
}

void run_mean(KernelCall& call) {
  run_reduce<ReduceOp::kSum>(call);
  std::int64_t count = 1;
  for (const int dim : value_or_throw(ops::dims_attr(call.attrs, call.inputs[0].ndim()))) {
    count *= call.inputs[0].size(dim);
  }
  count = call.attrs.get_int(kCount, count);
  kernels::binary_scalar(call.ctx, kernels::Binary::kDiv, call.outputs[0],
                         static_cast<double>(count), call.outputs[0]);
}

/// A value of the result's shape with its reduced dims back at size 1.
Var with_kept_dims(GradContext& c, Var value) {
  if (c.attrs().get_bool("keepdim")) return value;
  const int ndim = static_cast<int>(c.input_shape(0).size());
  return ops::unsqueeze_all(c, value, value_or_throw(ops::dims_attr(c.attrs(), ndim)));
}

Var expanded(GradContext& c, Var value) {
  return c.call("expand", {with_kept_dims(c, value)}, {{"size", c.input_shape(0)}});
}

std::vector<Var> sum_gradient(GradContext& c) { return {expanded(c, c.cotangent(0))}; }

std::vector<Var> mean_gradient(GradContext& c) {
  std::int64_t count = 1;
  const Shape& shape = c.input_shape(0);
  for (const int dim : value_or_throw(ops::dims_attr(c.attrs(), static_cast<int>(shape.size())))) {
    count *= shape[static_cast<std::size_t>(dim)];
  }
  const Var scaled =
      c.call("div_scalar", {c.cotangent(0)}, {{"value", static_cast<double>(count)}});
  return {expanded(c, scaled)};
}

/// The cotangent is shared equally among the elements that equal the result.
std::vector<Var> extreme_gradient(GradContext& c) {
  const Var result = with_kept_dims(c, c.output(0));
  const Var hit = c.call("to", {c.call("eq", {c.input(0), result})}, {{"dtype", c.input_dtype(0)}});
  const Attrs kept = {{"dim", c.attrs().get_ints("dim")}, {"keepdim", true}};
  const Var share = c.call("div", {with_kept_dims(c, c.cotangent(0)), c.call("sum", {hit}, kept)});
  return {c.call("mul", {hit, share})};
}

/// product / element, times the cotangent; elements must not be 0.
std::vector<Var> prod_gradient(GradContext& c) {
  const Var weighted = c.call("mul", {c.cotangent(0), c.output(0)});
  return {c.call("div", {with_kept_dims(c, weighted), c.input(0)})};
}

std::vector<Sample> reduction_samples() {
  return {{.shapes = {{8, 6}}, .attrs = {{"dim", Shape{1}}}},
          {.shapes = {{5, 3}}, .attrs = {{"dim", Shape{0}}, {"keepdim", true}}},
          {.shapes = {{8, 3, 2}}, .attrs = {{"dim", Shape{0, -1}}}},
          {.shapes = {{5, 2}}}};
}

OpDef reduction(std::string name, std::string doc, std::string rule, Kernel kernel) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .args = {in("self")},
          .attrs = {ops::ints_attr_or_none("dim"), ops::bool_attr("keepdim", false)},
          .rule = std::move(rule),
          .kernel = std::move(kernel),
          .infer = infer_reduced,
          .samples = reduction_samples()};
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
  sum.samples.push_back({.shapes = {{5, 6}},
                         .attrs = {{"dim", Shape{1}}},
                         .dtypes = {DType::kI64},
                         .below = {9},
                         .differentiable = false});
  table.must_add(std::move(sum));

  OpDef mean =
      reduction("mean", "Arithmetic mean over dims.", "*r@dim -> * | r:sum | lin A", run_mean);
  mean.infer = infer_mean;
  mean.localize = localize_count;
  mean.gradient = mean_gradient;
  table.must_add(std::move(mean));
}

void add_extremes(OpTable& table) {
  OpDef amax = reduction("amax", "Largest element over dims; NaN wins, no elements give -inf.",
                         "*r@dim -> * | r:max | max A", run_reduce<ReduceOp::kMax>);
  amax.gradient = extreme_gradient;
  amax.saved_inputs = {0};
  amax.saved_outputs = {0};
  table.must_add(std::move(amax));
  OpDef amin = reduction("amin", "Smallest element over dims; NaN wins, no elements give inf.",
                         "*r@dim -> * | r:min | min A", run_reduce<ReduceOp::kMin>);
  amin.gradient = extreme_gradient;
  amin.saved_inputs = {0};
  amin.saved_outputs = {0};
  table.must_add(std::move(amin));
}

void add_products(OpTable& table) {
  OpDef prod =
      reduction("prod", "Product over dims.", "*r@dim -> * | r:prod", run_reduce<ReduceOp::kProd>);
  prod.gradient = prod_gradient;
  prod.declined = {"P(prod) -> P(prod): no notation for products"};
  prod.saved_inputs = {0};
  prod.saved_outputs = {0};
  for (Sample& sample : prod.samples) sample.positive = true;
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
             *call.outputs[0].data<double>() = kernels::sum_of_squares(call.ctx, call.inputs[0]);
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
  add_extremes(table);
  add_products(table);
  add_sum_of_squares(table);
}

}  // namespace tessera
