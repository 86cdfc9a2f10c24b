// Elements addressed along a dim by an index of the same number of dims; the index may be smaller
// on other dims. On a cut addressed dim every rank serves the indices that it owns.
#include "kernels/index.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "strategies/ops/index/index_local.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

StatusOr<std::vector<TensorMeta>> infer_gather(std::span<const TensorMeta> inputs,
                                               const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const int dim,
                       ops::dim_attr(attrs, static_cast<int>(inputs[0].shape.size())));
  TSR_RETURN_IF_ERROR(ops::check_index(inputs[0], inputs[1], dim));
  return std::vector<TensorMeta>{{inputs[1].shape, inputs[0].dtype}};
}

StatusOr<std::vector<TensorMeta>> infer_scatter(std::span<const TensorMeta> inputs,
                                                const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const int dim,
                       ops::dim_attr(attrs, static_cast<int>(inputs[0].shape.size())));
  TSR_RETURN_IF_ERROR(ops::check_index(inputs[0], inputs[1], dim));
  if (inputs.size() > 2) TSR_RETURN_IF_ERROR(ops::check_source(inputs[0], inputs[1], inputs[2]));
  return std::vector<TensorMeta>{inputs[0]};
}

StatusOr<std::vector<TensorMeta>> infer_gather_grad(std::span<const TensorMeta> inputs,
                                                    const Attrs& attrs) {
  TSR_RETURN_IF_ERROR(ops::check_cotangent(inputs[0]));
  TensorMeta out = {attrs.get_ints("size"), inputs[0].dtype};
  if (out.shape.empty()) out.shape = {1};  // a scalar is a line of one element
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, static_cast<int>(out.shape.size())));
  TSR_RETURN_IF_ERROR(ops::check_index(out, inputs[1], dim));
  if (inputs[0].shape != inputs[1].shape) {
    return invalid_argument("grad " + to_string(inputs[0].shape) + " and index " +
                            to_string(inputs[1].shape) + " must be of one shape");
  }
  return std::vector<TensorMeta>{out};
}

Attrs only_dim(GradContext& c) { return {{"dim", c.attrs().get_int("dim")}}; }

/// The cotangent of a src of which the kernel read the index's extent only.
Var source_grad(GradContext& c) {
  Var grad = c.call("gather", {c.cotangent(0), c.input(1)}, only_dim(c));
  const Shape& whole = c.input_shape(2);
  for (std::size_t d = 0; d < whole.size(); ++d) {
    if (c.shape(grad)[d] == whole[d]) continue;
    grad = c.call("slice_grad", {grad},
                  {{"dim", static_cast<std::int64_t>(d)}, {"start", 0}, {"size", whole[d]}});
  }
  return grad;
}

std::vector<Var> scatter_gradient(GradContext& c) {
  std::vector<Var> grads(3);
  const Attrs zero = {{"dim", c.attrs().get_int("dim")}, {"value", 0.0}};
  if (c.needs(0)) grads[0] = c.call("scatter_value", {c.cotangent(0), c.input(1)}, zero);
  if (c.needs(2)) grads[2] = source_grad(c);
  return grads;
}

std::vector<Var> scatter_value_gradient(GradContext& c) {
  const Attrs zero = {{"dim", c.attrs().get_int("dim")}, {"value", 0.0}};
  return {c.call("scatter_value", {c.cotangent(0), c.input(1)}, zero), Var{}};
}

std::vector<Var> scatter_add_gradient(GradContext& c) {
  Var src;
  if (c.needs(2)) src = source_grad(c);
  return {c.cotangent(0), Var{}, src};
}

/// Out of place, the result starts as a copy of self; in place it is self.
void start_from_self(KernelCall& call) {
  if (call.outputs[0].storage() != call.inputs[0].storage()) {
    kernels::copy(call.ctx, call.inputs[0], call.outputs[0]);
  }
}

void run_scatter(KernelCall& call) {
  start_from_self(call);
  kernels::scatter(call.ctx, call.outputs[0], ops::kernel_dim(call, call.inputs[0]), call.inputs[1],
                   call.inputs[2], call.absent);
}

void run_scatter_value(KernelCall& call) {
  start_from_self(call);
  kernels::scatter_value(call.ctx, call.outputs[0], ops::kernel_dim(call, call.inputs[0]),
                         call.inputs[1], call.attrs.get_double("value"), call.absent);
}

void run_scatter_add(KernelCall& call) {
  start_from_self(call);
  kernels::scatter_add(call.ctx, call.outputs[0], ops::kernel_dim(call, call.inputs[0]),
                       call.inputs[1], call.inputs[2], call.absent);
}

const DType kF = DType::kF64;
const DType kI = DType::kI64;

void add_gather(OpTable& table) {
  OpDef gather = {
      .name = "gather",
      .doc = "out[.., i, ..] = self[.., index[.., i, ..], ..] along a dim.",
      .args = {in("self"), in("index")},
      .attrs = {ops::int_attr("dim")},
      .rule = "*g@dim, *i@dim -> *i | g#:sum | lin A | mono A | prod A",
      .kernel =
          [](KernelCall& call) {
            kernels::gather(call.ctx, call.inputs[0], ops::kernel_dim(call, call.inputs[0]),
                            call.inputs[1], call.absent, call.outputs[0]);
          },
      .infer = infer_gather,
      .gradient = [](GradContext& c) -> std::vector<Var> {
        return {c.call("gather_grad", {c.cotangent(0), c.input(1)},
                       {{"dim", c.attrs().get_int("dim")}, {"size", c.input_shape(0)}}),
                Var{}};
      },
      .saved_inputs = {1},
      .samples =
          {{.shapes = {{8, 6}, {8, 8}}, .attrs = {{"dim", 1}}, .dtypes = {kF, kI}, .below = {2, 6}},
           {.shapes = {{8, 4}, {4, 3}}, .attrs = {{"dim", 1}}, .dtypes = {kF, kI}, .below = {2, 4}},
           {.shapes = {{5, 3}, {8, 3}},
            .attrs = {{"dim", 0}},
            .dtypes = {kF, kI},
            .below = {2, 5}}}};
  ops::take_scalars_as_lines(gather);
  table.must_add(std::move(gather));
  OpDef grad = {.name = "gather_grad",
                .doc = "Cotangent of gather's self: grad added into zeros of `size` at index.",
                .args = {in("grad"), in("index")},
                .attrs = {ops::int_attr("dim"), ops::ints_attr("size")},
                .rule = "*i@dim, *i@dim -> *g@dim | g#:own i:sum | lin A",
                .kernel =
                    [](KernelCall& call) {
                      kernels::fill(call.ctx, 0.0, call.outputs[0]);
                      kernels::scatter_add(call.ctx, call.outputs[0],
                                           ops::kernel_dim(call, call.inputs[0]), call.inputs[1],
                                           call.inputs[0], call.absent);
                    },
                .infer = infer_gather_grad,
                .samples = {{.shapes = {{8, 8}, {8, 8}},
                             .attrs = {{"dim", 1}, {"size", Shape{8, 6}}},
                             .dtypes = {kF, kI},
                             .below = {2, 6}},
                            {.shapes = {{4, 3}, {4, 3}},
                             .attrs = {{"dim", 1}, {"size", Shape{8, 4}}},
                             .dtypes = {kF, kI},
                             .below = {2, 4}},
                            {.shapes = {{8, 3}, {8, 3}},
                             .attrs = {{"dim", 0}, {"size", Shape{5, 3}}},
                             .dtypes = {kF, kI},
                             .below = {2, 5}}}};
  ops::take_scalars_as_lines(grad);
  table.must_add(std::move(grad));
}

std::vector<Sample> scatter_samples() {
  const std::vector<DType> dtypes = {kF, kI, kF};
  return {{.shapes = {{8, 7}, {8, 6}, {8, 6}},
           .attrs = {{"dim", 1}},
           .dtypes = dtypes,
           .below = {2, 7, 2},
           .unique_dim = {-1, 1, -1}},
          {.shapes = {{4, 4}, {4, 3}, {8, 3}},
           .attrs = {{"dim", 1}},
           .dtypes = dtypes,
           .below = {2, 4, 2},
           .unique_dim = {-1, 1, -1}},
          {.shapes = {{8, 3}, {5, 2}, {5, 2}},
           .attrs = {{"dim", 0}},
           .dtypes = dtypes,
           .below = {2, 8, 2},
           .unique_dim = {-1, 0, -1}},
          {.shapes = {{4, 3}, {9, 3}, {9, 3}},  // equal indices: the last wins
           .attrs = {{"dim", 0}},
           .dtypes = dtypes,
           .below = {2, 4, 2},
           .differentiable = false}};
}

/// Adds an op and its in-place form, whose rule has `&A` before the result.
void add_both(OpTable& table, OpDef def, const std::string& in_place_rule) {
  OpDef in_place = def;
  in_place.name += "_";
  in_place.doc += " In place.";
  in_place.rule = in_place_rule;
  table.must_add(std::move(def));
  table.must_add(std::move(in_place));
}

void add_scatter(OpTable& table) {
  OpDef scatter = {
      .name = "scatter",
      .doc =
          "self with [.., index[.., i, ..], ..] = src[.., i, ..] along a dim; of "
          "equal indices the last wins.",
      .args = {in("self"), in("index"), in("src")},
      .attrs = {ops::int_attr("dim")},
      .rule = "*g@dim, *i@dim, *i@dim -> *g | g#:own i! | lin A+C | max A,C | min A,C | prod A*C",
      .kernel = run_scatter,
      .infer = infer_scatter,
      .gradient = scatter_gradient,
      .saved_inputs = {1},
      .samples = scatter_samples()};
  add_both(table, std::move(scatter),
           "*g@dim, *i@dim, *i@dim -> &A *g | g#:own i! | lin A+C | max A,C | min A,C | prod A*C");
}

void add_scatter_value(OpTable& table) {
  std::vector<Sample> samples = scatter_samples();
  for (Sample& sample : samples) {
    sample.shapes.pop_back();
    sample.dtypes.pop_back();
    sample.below.pop_back();
    if (!sample.unique_dim.empty()) sample.unique_dim.pop_back();
    sample.attrs.set("value", 0.5);
  }
  samples[2].attrs.set("value", 0.0);
  for (const double whole : {0.0, 1.0}) {
    samples.push_back(samples[0]);
    samples.back().attrs.set("value", whole);
  }
  OpDef value = {.name = "scatter_value",
                 .doc = "self with `value` at [.., index[.., i, ..], ..] along a dim.",
                 .args = {in("self"), in("index")},
                 .attrs = {ops::int_attr("dim"), ops::element_attr("value")},
                 .rule =
                     "*g@dim, *i@dim -> *g | g#:own i! | lin A if value==0 | aff A | mono A | "
                     "prod A if value==0 | prod A if value==1",
                 .kernel = run_scatter_value,
                 .infer = infer_scatter,
                 .gradient = scatter_value_gradient,
                 .saved_inputs = {1},
                 .declined = {"P(prod), S -> P(prod): right for value 0 only, and the notation "
                              "guards no contraction by an attribute"},
                 .samples = samples};
  add_both(table, std::move(value),
           "*g@dim, *i@dim -> &A *g | g#:own i! | lin A if value==0 | aff A | mono A | "
           "prod A if value==0 | prod A if value==1");
}

void add_scatter_add(OpTable& table) {
  std::vector<Sample> add_samples = scatter_samples();
  for (Sample& sample : add_samples) sample.unique_dim.clear();
  OpDef add = {.name = "scatter_add",
               .doc =
                   "self with src[.., i, ..] added at [.., index[.., i, ..], ..] along a dim, in "
                   "operand order.",
               .args = {in("self"), in("index"), in("src")},
               .attrs = {ops::int_attr("dim")},
               .rule = "*g@dim, *i@dim, *i@dim -> *g | g#:own i:sum | lin A+C",
               .kernel = run_scatter_add,
               .infer = infer_scatter,
               .gradient = scatter_add_gradient,
               .saved_inputs = {1},
               .declined = {"P(max), R, R; P(min), R, R: where src is infinite, a rank that holds "
                            "the opposite infinity of self, as one without elements does, gives "
                            "NaN"},
               .samples = add_samples};
  add_both(table, std::move(add), "*g@dim, *i@dim, *i@dim -> &A *g | g#:own i:sum | lin A+C");
}

}  // namespace

void add_index_ops(OpTable& table) {
  add_gather(table);
  add_scatter(table);
  add_scatter_value(table);
  add_scatter_add(table);
}

}  // namespace tessera
