// Elements chosen by their rank in the order of a row, and counts of elements by range.
#include <cmath>

#include "kernels/row_select.h"
#include "strategies/ops/reduce/reduced.h"

namespace tessera {
namespace {

constexpr const char* kGather =
    "lowering r: ranks would exchange candidates until one rank in the order is found; gather the "
    "dim, which costs one exchange";

struct Chosen {
  Array values, indices;
};

/// The results as arrays of the kept dims; what the op does not return is scratch.
Chosen targets(KernelCall& call, const Array& rows) {
  const Shape kept(rows.shape().begin(), rows.shape().end() - 1);
  const Array values = ops::as_kept(call, call.outputs[0]);
  if (call.outputs.size() > 1) return {values, ops::as_kept(call, call.outputs[1])};
  return {values, ops::scratch(call, kept, DType::kI64)};
}

Array rows_in(KernelCall& call) {
  return ops::rows_of(call.ctx, call.inputs[0], ops::kernel_dims(call));
}

template <kernels::NanRows kNan>
void run_median(KernelCall& call) {
  const Array rows = rows_in(call);
  const Chosen to = targets(call, rows);
  kernels::median(call.ctx, kNan, rows, to.values, to.indices);
}
void run_mode(KernelCall& call) {
  const Array rows = rows_in(call);
  const Chosen to = targets(call, rows);
  kernels::mode(call.ctx, rows, to.values, to.indices);
}
void run_kth(KernelCall& call) {
  const Array rows = rows_in(call);
  const Chosen to = targets(call, rows);
  kernels::kth_value(call.ctx, rows, call.attrs.get_int("k"), to.values, to.indices);
}

StatusOr<std::vector<TensorMeta>> infer_kth(std::span<const TensorMeta> inputs,
                                            const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(auto out, ops::infer_selected(inputs, attrs));
  const std::int64_t n = ops::row_size(attrs, inputs[0].shape);
  const std::int64_t k = attrs.get_int("k");
  if (k >= 1 && k <= n) return out;
  return invalid_argument("k is " + std::to_string(k) + ", but dim " +
                          std::to_string(attrs.get_int("dim")) + " of " +
                          to_string(inputs[0].shape) + " allows 1 to " + std::to_string(n));
}

StatusOr<std::vector<TensorMeta>> infer_of_all(std::span<const TensorMeta> inputs,
                                               const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const auto out, ops::infer_selected(inputs, attrs));
  return std::vector<TensorMeta>{out[0]};
}

std::vector<Sample> samples_along() {
  return {{.shapes = {{8, 6}}, .attrs = {{"dim", 1}}},
          {.shapes = {{5, 3}}, .attrs = {{"dim", 0}, {"keepdim", true}}},
          {.shapes = {{6, 7}},
           .attrs = {{"dim", -1}},
           .dtypes = {DType::kI64},
           .below = {3},
           .differentiable = false}};
}

/// (values, indices) along a dim.
OpDef along(std::string name, std::string doc, Kernel kernel) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .args = {in("self")},
          .attrs = {ops::int_attr("dim", -1), ops::bool_attr("keepdim", false)},
          .rule = "*r@dim -> *, * int | r!",
          .num_outputs = 2,
          .kernel = std::move(kernel),
          .infer = ops::infer_selected,
          .gradient = ops::selected_gradient,
          .saved_outputs = {1},
          .declined = {kGather},
          .samples = samples_along()};
}

/// The cotangent is shared equally among the elements that equal the result, or are the NaN that it
/// is.
std::vector<Var> of_all_gradient(GradContext& c) {
  const Var both_nan =
      c.call("logical_and", {c.call("isnan", {c.input(0)}), c.call("isnan", {c.output(0)})});
  const Var hit = c.call("logical_or", {c.call("eq", {c.input(0), c.output(0)}), both_nan});
  const Var share = c.call("div", {c.cotangent(0), c.call("sum", {hit})});
  return {c.call("where_scalar", {hit, share}, {{"other", 0.0}})};
}

template <kernels::NanRows kNan>
void add_median(OpTable& table, const std::string& name, const std::string& nan) {
  const std::string doc = ", the lower of the two in the middle of an even number; " + nan;
  OpDef dim = along(name + "_dim", "Median along a dim with its index" + doc, run_median<kNan>);
  OpDef all = dim;
  all.name = name;
  all.doc = "Median of all elements" + doc;
  all.attrs = {};
  all.rule = "* -> | *!";
  all.num_outputs = 1;
  all.infer = infer_of_all;
  all.gradient = of_all_gradient;
  all.saved_inputs = {0};
  all.saved_outputs = {0};
  all.declined = {"lowering *: as along a dim"};
  for (const Shape& shape : {Shape{9, 7}, Shape{7, 8}}) {
    all.samples.push_back({.shapes = {shape}, .dtypes = {DType::kI64}, .differentiable = false});
  }
  for (Sample& sample : all.samples) {
    sample.attrs = {};
    if (sample.shapes[0] == Shape{6, 7}) sample.shapes[0] = {7, 9};  // parts have other medians
    if (!sample.differentiable) sample.adjust = ops::mix_numbers;
  }
  table.must_add(std::move(dim));
  table.must_add(std::move(all));
}

void add_histc(OpTable& table) {
  table.must_add(
      {.name = "histc",
       .doc = "Counts of the elements in `bins` equal ranges from `min` to `max`, the last one "
              "closed; what lies outside, and NaN, does not count.",
       .args = {in("self")},
       .attrs = {ops::int_attr("bins", 100), ops::double_attr("min", 0.0),
                 ops::double_attr("max", 0.0)},
       .rule = "* -> K | *:sum",
       .kernel =
           [](KernelCall& call) {
             kernels::histogram(call.ctx, call.inputs[0], call.attrs.get_double("min"),
                                call.attrs.get_double("max"), call.outputs[0]);
           },
       .infer = [](std::span<const TensorMeta> inputs,
                   const Attrs& attrs) -> StatusOr<std::vector<TensorMeta>> {
         const double low = attrs.get_double("min"), high = attrs.get_double("max");
         if (!std::isfinite(low) || !std::isfinite(high) || !(low < high)) {
           return invalid_argument("min is " + std::to_string(low) + " and max " +
                                   std::to_string(high) +
                                   "; they must be finite and ascending (aminmax gives a tensor's "
                                   "own range)");
         }
         if (attrs.get_int("bins") < 1) {
           return invalid_argument("bins is " + std::to_string(attrs.get_int("bins")) +
                                   ", but must be at least 1");
         }
         return std::vector<TensorMeta>{{{attrs.get_int("bins")}, inputs[0].dtype}};
       },
       .samples = {{.shapes = {{8, 6}},
                    .attrs = {{"bins", 5}, {"min", -1.0}, {"max", 1.2}},
                    .differentiable = false},
                   {.shapes = {{5, 3}},
                    .attrs = {{"bins", 4}, {"min", 0.0}, {"max", 4.0}},
                    .dtypes = {DType::kI64},
                    .below = {5},
                    .differentiable = false}}});
}

}  // namespace

void add_reduce_order_ops(OpTable& table) {
  using kernels::NanRows;
  add_median<NanRows::kWin>(table, "median", "NaN wins.");
  add_median<NanRows::kSkip>(table, "nanmedian", "NaN does not count.");
  table.must_add(along("mode",
                       "The value that occurs most often along a dim, the smallest of such, with "
                       "the index of its last occurrence; NaN are equal, and the largest.",
                       run_mode));
  OpDef kth = along("kthvalue",
                    "The k-th smallest element along a dim with its index; of equals the lower "
                    "index comes first, NaN last.",
                    run_kth);
  kth.attrs.insert(kth.attrs.begin(), ops::int_attr("k"));
  kth.infer = infer_kth;
  for (Sample& sample : kth.samples) sample.attrs.set("k", std::int64_t{2});
  table.must_add(std::move(kth));
  add_histc(table);
}

}  // namespace tessera
