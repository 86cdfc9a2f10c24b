// Places in sorted sequences, counts of values, one-hot rows, repeated elements and bags of rows.
#include "kernels/index_search.h"

#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "strategies/ops/index/index_local.h"
#include "strategies/ops/schema.h"
#include "strategies/rules/held_part.h"

namespace tessera {
namespace {

using Metas = StatusOr<std::vector<TensorMeta>>;

const DType kF = DType::kF64;
const DType kI = DType::kI64;

/// Ascending along the last dim, spread over the range of the other operands' values.
void ascending(const Shape& shape, std::vector<double>& values) {
  const std::int64_t size = shape.back();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t row = static_cast<std::int64_t>(i) / size;
    const std::int64_t place = static_cast<std::int64_t>(i) % size;
    values[i] = -1.6 + 3.0 * (static_cast<double>(place) + 0.3) / static_cast<double>(size) +
                0.01 * static_cast<double>(row);
  }
}

DType place_type(const Attrs& attrs) {
  return attrs.get_bool("out_int32") ? DType::kI32 : DType::kI64;
}

template <int kSorted>
void run_search(KernelCall& call) {
  const bool right = call.attrs.get_bool("right");
  kernels::searchsorted(call.ctx, call.inputs[kSorted], call.inputs[1 - kSorted],
                        right ? kernels::Side::kRight : kernels::Side::kLeft, call.outputs[0]);
}

Status check_sorted(const TensorMeta& sorted, const TensorMeta& values) {
  bool fits = sorted.shape.size() == 1;
  if (!fits && !sorted.shape.empty() && sorted.shape.size() == values.shape.size()) {
    fits = std::equal(sorted.shape.begin(), sorted.shape.end() - 1, values.shape.begin());
  }
  if (fits) return {};
  return invalid_argument("the sorted sequence " + to_string(sorted.shape) +
                          " must have one dim, or those of values " + to_string(values.shape) +
                          " but for the last");
}

void add_search(OpTable& table) {
  const std::vector<AttrDef> attrs = {ops::bool_attr("out_int32", false),
                                      ops::bool_attr("right", false)};
  // The place in the whole sequence is the sum of the places in its parts.
  table.must_add(
      {.name = "searchsorted",
       .doc =
           "For each value, how many elements of its ascending sequence (the last dim) are less; "
           "`right`: less or equal. NaN stands behind all numbers.",
       .args = {in("sorted_sequence"), in("self")},
       .attrs = attrs,
       .rule = "*s, *m -> *m int | s:sum | max[0] B",
       .kernel = run_search<0>,
       .infer = [](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
         TSR_RETURN_IF_ERROR(check_sorted(inputs[0], inputs[1]));
         return std::vector<TensorMeta>{{inputs[1].shape, place_type(attrs)}};
       },
       .declined = {"R, P(min): a NaN stands behind all, and the least place would drop it"},
       .samples = {{.shapes = {{8, 6}, {8, 7}},
                    .adjust =
                        [](int operand, const Shape& shape, std::vector<double>& values) {
                          if (operand == 0) ascending(shape, values);
                        },
                    .differentiable = false},
                   {.shapes = {{5}, {3, 4}},
                    .attrs = {{"right", true}, {"out_int32", true}},
                    .adjust =
                        [](int operand, const Shape& shape, std::vector<double>& values) {
                          if (operand == 0) ascending(shape, values);
                        },
                    .differentiable = false}}});
  table.must_add(
      {.name = "bucketize",
       .doc = "For each value, how many of the ascending boundaries are less; `right`: less or "
              "equal. NaN stands behind all numbers.",
       .args = {in("self"), in("boundaries")},
       .attrs = attrs,
       .rule = "*, s -> * int | s:sum | max[0] A",
       .kernel = run_search<1>,
       .infer = [](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
         if (inputs[1].shape.size() != 1) {
           return invalid_argument("boundaries " + to_string(inputs[1].shape) +
                                   ", but must have one dim");
         }
         return std::vector<TensorMeta>{{inputs[0].shape, place_type(attrs)}};
       },
       .declined = {"P(min), R: a NaN stands behind all, and the least place would drop it"},
       .samples = {{.shapes = {{8, 6}, {7}},
                    .adjust =
                        [](int operand, const Shape& shape, std::vector<double>& values) {
                          if (operand == 1) ascending(shape, values);
                        },
                    .differentiable = false},
                   {.shapes = {{5, 3}, {4}},
                    .attrs = {{"right", true}},
                    .adjust =
                        [](int operand, const Shape& shape, std::vector<double>& values) {
                          if (operand == 1) ascending(shape, values);
                        },
                    .differentiable = false}}});
}

Metas infer_bincount(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TSR_RETURN_IF_ERROR(ops::check_integer(inputs[0], "self"));
  const bool weighted = inputs.size() > 1 && !inputs[1].absent;
  if (inputs[0].shape.size() != 1 || (weighted && inputs[1].shape != inputs[0].shape)) {
    return invalid_argument("self " + to_string(inputs[0].shape) +
                            " must have one dim, and weights its shape");
  }
  if (attrs.get_int("minlength") < 0) {
    return invalid_argument("minlength is " + std::to_string(attrs.get_int("minlength")) +
                            ", but must not be negative");
  }
  return std::vector<TensorMeta>{
      {{attrs.get_int("minlength")}, weighted ? inputs[1].dtype : DType::kI64}};
}

void add_counts(OpTable& table) {
  table.must_add(
      {.name = "bincount",
       .doc = "How often each of 0 … minlength − 1 occurs, or the sum of their weights; all values "
              "must lie in that range (the result's size may not depend on them).",
       .args = {in("self"), in_optional("weights")},
       .attrs = {ops::int_attr("minlength")},
       .rule = "n, n? -> k | k#:own n:sum | lin B",
       .kernel =
           [](KernelCall& call) {
             const Array weights = call.inputs.size() > 1 ? call.inputs[1] : Array();
             kernels::bincount(call.ctx, call.inputs[0], weights, call.absent, call.outputs[0]);
           },
       .infer = infer_bincount,
       .gradient = [](GradContext& c) -> std::vector<Var> {
         Var weights;
         if (c.num_inputs() > 1 && c.needs(1)) {
           weights = c.call("index_select", {c.cotangent(0), c.input(0)}, {{"dim", 0}});
         }
         return {Var{}, weights};
       },
       .saved_inputs = {0},
       .samples = {{.shapes = {{8}}, .attrs = {{"minlength", 6}}, .dtypes = {kI}, .below = {6}},
                   {.shapes = {{8}, {8}},
                    .attrs = {{"minlength", 6}},
                    .dtypes = {kI, kF},
                    .below = {6, 2}},
                   {.shapes = {{5}, {5}},
                    .attrs = {{"minlength", 3}},
                    .dtypes = {kI, kF},
                    .below = {3, 2}}}});
  table.must_add(
      {.name = "one_hot",
       .doc = "A new last dim of num_classes with 1 at each index and 0 elsewhere.",
       .args = {in("self")},
       .attrs = {ops::int_attr("num_classes").between(1, kMaxTensorBytes)},
       .rule = "* -> *k int | k#:own",
       .kernel =
           [](KernelCall& call) {
             const Array& out = call.outputs[0];
             const int last = out.ndim() - 1;
             kernels::fill(call.ctx, 0.0, out);
             Shape shape = call.inputs[0].shape();
             shape.push_back(1);
             const Array dense = kernels::contiguous(call.ctx, call.inputs[0]);
             kernels::scatter_value(call.ctx, out, last, dense.try_view(shape), 1.0, call.absent);
           },
       .infer = [](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
         TSR_RETURN_IF_ERROR(ops::check_integer(inputs[0], "self"));
         TensorMeta out = {inputs[0].shape, DType::kI64};
         out.shape.push_back(attrs.get_int("num_classes"));
         return std::vector<TensorMeta>{out};
       },
       .samples =
           {{.shapes = {{8, 6}}, .attrs = {{"num_classes", 7}}, .dtypes = {kI}, .below = {7}},
            {.shapes = {{5}}, .attrs = {{"num_classes", 3}}, .dtypes = {kI}, .below = {3}}}});
}

// ---- repeat_interleave by a tensor ----

Metas infer_repeat_by_tensor(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TensorMeta out = inputs[0];
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, static_cast<int>(out.shape.size())));
  TSR_RETURN_IF_ERROR(ops::check_integer(inputs[1], "repeats"));
  std::int64_t& size = out.shape[static_cast<std::size_t>(dim)];
  if (inputs[1].shape != Shape{size}) {
    return invalid_argument("repeats " + to_string(inputs[1].shape) + " must be [" +
                            std::to_string(size) + "], one for each element of dim " +
                            std::to_string(dim));
  }
  size = attrs.get_int("output_size");
  return std::vector<TensorMeta>{out};
}

/// For each place of the result, the element that it repeats.
Array repeated_places(KernelCall& call, const Array& repeats, std::int64_t output_size) {
  const Array places = ops::scratch(call, {output_size}, DType::kI64);
  std::int64_t at = 0;
  const std::vector<double> counts = repeats.to_vector();
  for (std::size_t i = 0; i < counts.size(); ++i) {
    for (double left = counts[i]; left > 0 && at < output_size; --left) {
      places.data<std::int64_t>()[at++] = static_cast<std::int64_t>(i);
    }
  }
  double total = 0;
  bool negative = false;
  for (const double count : counts) {
    total += count;
    negative = negative || count < 0;
  }
  if (!negative && total == static_cast<double>(output_size)) return places;
  throw Error(
      out_of_range("repeat_interleave_tensor: repeats must not be negative, and add up to "
                   "output_size, which is " +
                   std::to_string(output_size) + "; they add up to " +
                   std::to_string(static_cast<std::int64_t>(total))));
}

void keep_total(int operand, const Shape&, std::vector<double>& values) {
  if (operand != 1) return;
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? 2.0 : 0.0;
  values[0] = 3.0;
}

void add_repeats(OpTable& table) {
  table.must_add(
      {.name = "repeat_interleave_tensor",
       .doc = "Each element of a dim repeated as often as `repeats` says; output_size is their "
              "sum.",
       .args = {in("self"), in("repeats")},
       .attrs = {ops::int_attr("dim"), ops::int_attr("output_size")},
       .rule = "*r@dim, r -> *K@dim | r! | lin A | mono A | prod A",
       .kernel =
           [](KernelCall& call) {
             const int dim = ops::kernel_dim(call, call.inputs[0]);
             const Array places =
                 repeated_places(call, call.inputs[1], call.attrs.get_int("output_size"));
             kernels::index_select(call.ctx, call.inputs[0], dim, places, kernels::Absent::kError,
                                   call.outputs[0]);
           },
       .infer = infer_repeat_by_tensor,
       .gradient = [](GradContext& c) -> std::vector<Var> {
         const int dim = value_or_throw(
             normalize_dim(c.attrs().get_int("dim"), static_cast<int>(c.input_shape(0).size())));
         const Var ends = c.call("cumsum", {c.input(1)}, {{"dim", 0}});
         const Var places = c.call(
             "searchsorted",
             {ends, c.call("positions_like", {c.cotangent(0)}, {{"dim", std::int64_t{dim}}})},
             {{"right", true}});
         return {c.call("index_select_grad", {c.cotangent(0), places},
                        {{"dim", std::int64_t{dim}},
                         {"size", c.input_shape(0)[static_cast<std::size_t>(dim)]}}),
                 Var{}};
       },
       .saved_inputs = {1},
       .samples = {{.shapes = {{6, 7}, {6}},
                    .attrs = {{"dim", 0}, {"output_size", 7}},
                    .dtypes = {kF, kI},
                    .adjust = keep_total},
                   {.shapes = {{5, 3}, {3}},
                    .attrs = {{"dim", -1}, {"output_size", 5}},
                    .dtypes = {kF, kI},
                    .adjust = keep_total}}});
}

void add_positions_like(OpTable& table) {
  table.must_add(
      {.name = "positions_like",
       .doc = "0, 1, … along a dim of the operand, as one dim of I64.",
       .args = {in("self")},
       .attrs = {ops::int_attr("dim")},
       .rule = "*r@dim -> r int | *!",
       .kernel =
           [](KernelCall& call) {
             const Array& out = call.outputs[0];
             const OperandView view = ops::result_view(call);
             kernels::copy(call.ctx, held_positions(call.ctx, view, 0, out.size(0)), out);
           },
       .infer = [](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
         TSR_ASSIGN_OR_RETURN(const int dim,
                              ops::dim_attr(attrs, static_cast<int>(inputs[0].shape.size())));
         return std::vector<TensorMeta>{
             {{inputs[0].shape[static_cast<std::size_t>(dim)]}, DType::kI64}};
       },
       .declined = {"S -> R; P(sum) -> R; P(avg) -> R; P(max) -> R; P(min) -> R; P(prod) -> R: the "
                    "operand's values are not read; only its size counts"},
       .samples = {{.shapes = {{8, 6}}, .attrs = {{"dim", 1}}, .differentiable = false},
                   {.shapes = {{5, 3}}, .attrs = {{"dim", 0}}, .differentiable = false}}});
}

}  // namespace

void add_index_search_ops(OpTable& table) {
  add_search(table);
  add_counts(table);
  add_repeats(table);
  add_positions_like(table);
}

}  // namespace tessera
