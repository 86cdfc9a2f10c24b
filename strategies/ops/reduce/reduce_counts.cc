// Reductions of what elements are, not of their values: any, all, counts, sums without NaN.
#include "kernels/elementwise.h"
#include "kernels/reduce.h"
#include "kernels/row_fold.h"
#include "strategies/ops/reduce/reduced.h"
#include "strategies/ops/steps.h"

namespace tessera {
namespace {

using kernels::RowFold;

template <DType kDType>
StatusOr<std::vector<TensorMeta>> infer_as(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(auto out, ops::infer_reduced(inputs, attrs));
  out[0].dtype = kDType;
  return out;
}

StatusOr<std::vector<TensorMeta>> infer_sum(std::span<const TensorMeta> inputs,
                                            const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(auto out, ops::infer_reduced(inputs, attrs));
  if (!is_floating(out[0].dtype)) out[0].dtype = DType::kI64;
  return out;
}

template <RowFold kFold>
void run_fold(KernelCall& call) {
  const Array rows = ops::rows_of(call.ctx, call.inputs[0], ops::kernel_dims(call));
  kernels::fold_rows(call.ctx, {kFold}, rows, ops::as_kept(call, call.outputs[0]));
}

/// Integers are summed exactly, in I64.
void run_nansum(KernelCall& call) {
  if (is_floating(call.inputs[0].dtype())) return run_fold<RowFold::kSumNumbers>(call);
  kernels::reduce(call.ctx, ReduceOp::kSum, call.inputs[0], ops::kernel_dims(call),
                  call.outputs[0]);
}

/// Sums and counts of the numbers of each row.
void local_numbers(KernelCall& call) {
  const Array rows = ops::rows_of(call.ctx, call.inputs[0], ops::kernel_dims(call));
  const Shape kept(rows.shape().begin(), rows.shape().end() - 1);
  call.outputs[0] = ops::scratch(call, kept, DType::kF64);
  call.outputs[1] = ops::scratch(call, kept, DType::kF64);
  kernels::fold_rows(call.ctx, {RowFold::kSumNumbers}, rows, call.outputs[0]);
  kernels::fold_rows(call.ctx, {RowFold::kCountNumbers}, rows, call.outputs[1]);
}

void finish_nanmean(KernelCall& call) {
  kernels::binary(call.ctx, kernels::Binary::kDiv, call.inputs[0], call.inputs[1],
                  ops::as_kept(call, call.outputs[0]));
}

void run_nanmean(KernelCall& call) {
  Array parts[2];
  KernelCall numbers{call.ctx, call.inputs, call.attrs, parts};
  local_numbers(numbers);
  KernelCall finish{call.ctx, parts, call.attrs, call.outputs};
  finish_nanmean(finish);
}

/// The cotangent, 0 where the element is NaN.
Var to_numbers(GradContext& c, Var grad) {
  const Var nan = c.call("isnan", {c.input(0)});
  return c.call("masked_fill", {ops::expanded(c, grad), nan}, {{"value", 0.0}});
}

std::vector<Var> nanmean_gradient(GradContext& c) {
  const Var numbers = c.call("logical_not", {c.call("isnan", {c.input(0)})});
  const Var count = c.call("to",
                           {c.call("sum", {numbers},
                                   {{"dim", c.attrs().get_ints_or("dim", {})},
                                    {"keepdim", c.attrs().get_bool("keepdim")}})},
                           {{"dtype", c.input_dtype(0)}});
  return {to_numbers(c, c.call("div", {c.cotangent(0), count}))};
}

/// Every fourth element becomes NaN.
void hide_some(int, const Shape&, std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); i += 4) values[i] = std::nan("");
}
/// Few elements are zero, or few are not: what one rank holds does not decide.
void few_zeros(int, const Shape&, std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = i % 8 == 3 ? 0.0 : i % 3 == 0 ? -1.0 : 1.0;
  }
}
void many_zeros(int, const Shape&, std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 5 == 2 || i % 3 == 0) values[i] = 0.0;
  }
}
void few_nonzeros(int, const Shape&, std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = i % 8 != 3 ? 0.0 : i % 3 == 0 ? -1.0 : 1.0;
  }
}

OpDef count(std::string name, std::string doc, std::string rule, Kernel kernel) {
  OpDef def = ops::reduction(std::move(name), std::move(doc), std::move(rule), std::move(kernel));
  def.samples.push_back(
      {.shapes = {{6, 7}}, .attrs = {{"dim", Shape{1}}}, .dtypes = {DType::kBool}});
  def.samples.push_back(
      {.shapes = {{7, 6}}, .attrs = {{"dim", Shape{0}}}, .dtypes = {DType::kI64}, .below = {3}});
  for (Sample& sample : def.samples) {
    sample.differentiable = false;
    sample.adjust = few_zeros;
  }
  return def;
}

void add_predicates(OpTable& table) {
  OpDef any = count("any", "True where one element over dims is not zero; NaN is not.",
                    "*r@dim -> * | r:max", run_fold<RowFold::kAny>);
  any.infer = infer_as<DType::kBool>;
  for (Sample& sample : any.samples) sample.adjust = few_nonzeros;
  any.declined = {
      "P(max) -> P(max): for BOOL only; of numbers the larger may be zero where another is not"};
  table.must_add(std::move(any));
  OpDef all = count("all", "True where every element over dims is not zero; true of none.",
                    "*r@dim -> * | r:min", run_fold<RowFold::kAll>);
  all.infer = infer_as<DType::kBool>;
  all.declined = {
      "P(min) -> P(min): for BOOL only; of numbers the smaller may not be zero where another is",
      "P(max) -> P(min); P(prod) -> P(min): where no rank's own number happens to be zero"};
  table.must_add(std::move(all));
  OpDef nonzero = count("count_nonzero", "How many elements over dims are not zero; NaN is not.",
                        "*r@dim -> * int | r:sum", run_fold<RowFold::kCountNonzero>);
  nonzero.infer = infer_as<DType::kI64>;
  for (Sample& sample : nonzero.samples) sample.adjust = many_zeros;
  table.must_add(std::move(nonzero));
}

void add_without_nan(OpTable& table) {
  OpDef nansum = ops::reduction("nansum", "Sum over dims of what is not NaN; integers sum as I64.",
                                "*r@dim -> * | r:sum", run_nansum);
  nansum.infer = infer_sum;
  nansum.gradient = [](GradContext& c) -> std::vector<Var> {
    return {to_numbers(c, c.cotangent(0))};
  };
  nansum.saved_inputs = {0};
  nansum.declined = {"P(sum) -> P(sum): for integers only; a summand that is NaN would be skipped"};
  for (Sample& sample : nansum.samples) sample.adjust = hide_some;
  nansum.samples.push_back({.shapes = {{5, 4}},
                            .attrs = {{"dim", Shape{0}}},
                            .dtypes = {DType::kI64},
                            .below = {9},
                            .differentiable = false});
  table.must_add(std::move(nansum));

  OpDef nanmean = ops::reduction("nanmean", "Mean over dims of what is not NaN; NaN of none.",
                                 "*r@dim -> * | r!", run_nanmean);
  nanmean.infer = ops::infer_reduced_floating;
  nanmean.gradient = nanmean_gradient;
  nanmean.saved_inputs = {0};
  nanmean.lowerings = {
      {"r", "all-reduces of sums and counts", [](const Attrs&) -> std::vector<LoweringStep> {
         ops::Steps steps(1, 1);
         const auto sums = steps.value(), counts = steps.value();
         steps.local({steps.operand(0)}, {sums, counts}, local_numbers);
         steps.all_reduce({sums, counts}, ReduceOp::kSum);
         steps.local({sums, counts}, {steps.result()}, finish_nanmean);
         return std::move(steps).take();
       }}};
  for (Sample& sample : nanmean.samples) sample.adjust = hide_some;
  table.must_add(std::move(nanmean));
}

}  // namespace

void add_reduce_counts_ops(OpTable& table) {
  add_predicates(table);
  add_without_nan(table);
}

}  // namespace tessera
