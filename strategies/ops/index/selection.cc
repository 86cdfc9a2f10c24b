// topk and sort along a dim. topk works across ranks: each selects in its shard, and all select
// among the candidates.
#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "kernels/select.h"
#include "strategies/ops/index/candidates.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

kernels::Order order_of(const Attrs& attrs, std::string_view descending) {
  return attrs.get_bool(descending) ? kernels::Order::kDescending : kernels::Order::kAscending;
}

StatusOr<std::vector<TensorMeta>> infer_topk(std::span<const TensorMeta> inputs,
                                             const Attrs& attrs) {
  Shape shape = inputs[0].shape;
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, static_cast<int>(shape.size())));
  const std::int64_t k = attrs.get_int("k");
  std::int64_t& size = shape[static_cast<std::size_t>(dim)];
  if (k < 0 || k > size) {
    return invalid_argument("k is " + std::to_string(k) + ", but dim " + std::to_string(dim) +
                            " of " + to_string(inputs[0].shape) + " allows 0 to " +
                            std::to_string(size));
  }
  size = k;
  return std::vector<TensorMeta>{{shape, inputs[0].dtype}, {shape, DType::kI64}};
}

StatusOr<std::vector<TensorMeta>> infer_sort(std::span<const TensorMeta> inputs,
                                             const Attrs& attrs) {
  TSR_RETURN_IF_ERROR(ops::dim_attr(attrs, static_cast<int>(inputs[0].shape.size())).status());
  return std::vector<TensorMeta>{inputs[0], {inputs[0].shape, DType::kI64}};
}

/// The values' cotangent goes back to where they were taken from.
std::vector<Var> selection_gradient(GradContext& c) {
  if (!c.cotangent(0).defined()) return {Var{}};
  return {c.call("gather_grad", {c.cotangent(0), c.output(1)},
                 {{"dim", c.attrs().get_int("dim")}, {"size", c.input_shape(0)}})};
}

void run_topk(KernelCall& call) {
  const Array& x = call.inputs[0];
  kernels::topk(call.ctx, x, ops::kernel_dim(call, x), order_of(call.attrs, "largest"),
                call.outputs[0], call.outputs[1]);
}

void select_own(KernelCall& call) {
  const Array& x = call.inputs[0];
  const int dim = ops::kernel_dim(call, x);
  Shape shape = x.shape();
  std::int64_t& size = shape[static_cast<std::size_t>(dim)];
  size = std::min(size, call.attrs.get_int("k"));
  const ops::Candidates own = {ops::scratch(call, shape, x.dtype()),
                               ops::scratch(call, shape, DType::kI64)};
  if (size > 0) {
    kernels::topk(call.ctx, x, dim, order_of(call.attrs, "largest"), own.values, own.indices);
  }
  const ops::Candidates candidates = ops::make_candidates(call, own, dim);
  call.outputs[0] = candidates.values;
  call.outputs[1] = candidates.indices;
}

void choose(KernelCall& call) {
  const int dim = ops::kernel_dim(call, call.outputs[0]);
  const ops::Candidates all = ops::by_index(call, {call.inputs[0], call.inputs[1]});
  const Shape shape = call.outputs[0].transpose(0, dim).shape();
  const Array values = ops::scratch(call, shape, all.values.dtype());
  const Array places = ops::scratch(call, shape, DType::kI64);
  const Array indices = ops::scratch(call, shape, DType::kI64);
  kernels::topk(call.ctx, all.values, 0, order_of(call.attrs, "largest"), values, places);
  kernels::gather(call.ctx, all.indices, 0, places, kernels::Absent::kError, indices);
  kernels::copy(call.ctx, values.transpose(0, dim), call.outputs[0]);
  kernels::copy(call.ctx, indices.transpose(0, dim), call.outputs[1]);
}

void add_topk(OpTable& table) {
  OpDef topk = {
      .name = "topk",
      .doc =
          "The k largest (or smallest) elements along a dim, sorted, with their indices; the "
          "lower index wins "
          "ties, NaN counts as largest.",
      .args = {in("self")},
      .attrs = {ops::int_attr("k"), ops::int_attr("dim", -1), ops::bool_attr("largest", true),
                ops::bool_attr("sorted", true)},
      .rule = "*r@dim -> *K@dim, *K@dim int | r!",
      .num_outputs = 2,
      .kernel = run_topk,
      .infer = infer_topk,
      .gradient = selection_gradient,
      .saved_outputs = {1},
      .lowerings = {{"r", "each rank's own k, joined; the lower index wins ties",
                     [](const Attrs&) { return ops::selection_steps(2, select_own, choose); }}},
      .samples = {{.shapes = {{8, 6}}, .attrs = {{"k", 2}}},
                  {.shapes = {{8, 3}}, .attrs = {{"k", 3}, {"dim", 0}, {"largest", false}}},
                  {.shapes = {{5, 3}}, .attrs = {{"k", 4}, {"dim", 0}}},
                  {.shapes = {{2, 8}},
                   .attrs = {{"k", 3}, {"dim", 1}},
                   .dtypes = {DType::kI64},
                   .below = {3},
                   .differentiable = false}}};
  ops::take_scalars_as_lines(topk);
  table.must_add(std::move(topk));
}

void run_sort(KernelCall& call) {
  const Array& x = call.inputs[0];
  kernels::sort(call.ctx, x, ops::kernel_dim(call, x), order_of(call.attrs, "descending"),
                call.outputs[0], call.outputs[1]);
}

void run_argsort(KernelCall& call) {
  const Array& x = call.inputs[0];
  kernels::sort(call.ctx, x, ops::kernel_dim(call, x), order_of(call.attrs, "descending"),
                ops::scratch(call, x.shape(), x.dtype()), call.outputs[0]);
}

void run_msort(KernelCall& call) {
  const Array& x = call.inputs[0];
  kernels::sort(call.ctx, x, 0, kernels::Order::kAscending, call.outputs[0],
                ops::scratch(call, x.shape(), DType::kI64));
}

StatusOr<std::vector<TensorMeta>> infer_argsort(std::span<const TensorMeta> inputs,
                                                const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const auto both, infer_sort(inputs, attrs));
  return std::vector<TensorMeta>{both[1]};
}

/// Where the elements went, from the order that a second sort gives.
std::vector<Var> msort_gradient(GradContext& c) {
  const Var order = c.call("argsort", {c.input(0)}, {{"dim", std::int64_t{0}}});
  return {c.call("gather_grad", {c.cotangent(0), order},
                 {{"dim", std::int64_t{0}}, {"size", c.input_shape(0)}})};
}

constexpr const char* kExchange =
    "lowering r: a sort across ranks exchanges almost all elements; gather the dim";

OpDef sorting(std::string name, std::string doc, std::string rule, Kernel kernel) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .args = {in("self")},
          .attrs = {ops::int_attr("dim", -1), ops::bool_attr("descending", false),
                    ops::bool_attr("stable", true)},
          .rule = std::move(rule),
          .kernel = std::move(kernel),
          .declined = {kExchange},
          .samples = {{.shapes = {{8, 6}}, .attrs = {{"dim", 1}}},
                      {.shapes = {{5, 3}}, .attrs = {{"dim", 0}, {"descending", true}}},
                      {.shapes = {{6, 8}},
                       .attrs = {{"dim", 1}},
                       .dtypes = {DType::kI64},
                       .below = {3},
                       .differentiable = false}}};
}

void add_sorts(OpTable& table) {
  OpDef sort = sorting(
      "sort",
      "Stable sort along a dim, with the index that each element had; NaN counts as largest.",
      "*r@dim -> *r, *r int | r!", run_sort);
  sort.num_outputs = 2;
  sort.infer = infer_sort;
  sort.gradient = selection_gradient;
  sort.saved_outputs = {1};
  ops::take_scalars_as_lines(sort);
  table.must_add(std::move(sort));

  OpDef argsort =
      sorting("argsort", "The indices of a stable sort along a dim; NaN counts as largest.",
              "*r@dim -> *r int | r!", run_argsort);
  argsort.infer = infer_argsort;
  for (Sample& sample : argsort.samples) sample.differentiable = false;
  ops::take_scalars_as_lines(argsort);
  table.must_add(std::move(argsort));

  OpDef msort = sorting("msort", "Sort along the first dim; NaN counts as largest.",
                        "*r@dim -> *r | r!", run_msort);
  msort.attrs = {ops::int_attr("dim", 0).between(0, 0)};  // named by the rule, and no choice
  msort.infer = ops::like_operands({0});
  msort.gradient = msort_gradient;
  msort.saved_inputs = {0};
  for (Sample& sample : msort.samples) sample.attrs = {};
  ops::take_scalars_as_lines(msort);
  table.must_add(std::move(msort));
}

}  // namespace

void add_selection_ops(OpTable& table) {
  add_topk(table);
  add_sorts(table);
}

}  // namespace tessera
