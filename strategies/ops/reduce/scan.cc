// Running folds along a dim. Where ranks hold one interval of it each, every rank scans its own and
// takes over what the ranks before it put up: small totals are gathered, nothing else.
#include "kernels/scan.h"

#include <limits>

#include "kernels/elementwise.h"
#include "strategies/ops/index/candidates.h"
#include "strategies/ops/reduce/reduced.h"
#include "strategies/ops/steps.h"
#include "strategies/rules/held_part.h"

namespace tessera {
namespace {

using kernels::Extreme;
using kernels::Scan;

StatusOr<std::vector<TensorMeta>> infer_scan(std::span<const TensorMeta> inputs,
                                             const Attrs& attrs) {
  TSR_RETURN_IF_ERROR(ops::dim_attr(attrs, static_cast<int>(inputs[0].shape.size())).status());
  const bool floating = is_floating(inputs[0].dtype);
  return std::vector<TensorMeta>{{inputs[0].shape, floating ? inputs[0].dtype : DType::kI64}};
}
StatusOr<std::vector<TensorMeta>> infer_log_scan(std::span<const TensorMeta> inputs,
                                                 const Attrs& attrs) {
  TSR_RETURN_IF_ERROR(infer_scan(inputs, attrs).status());
  return ops::infer_floating(inputs, attrs);
}
StatusOr<std::vector<TensorMeta>> infer_extremes(std::span<const TensorMeta> inputs,
                                                 const Attrs& attrs) {
  TSR_RETURN_IF_ERROR(infer_scan(inputs, attrs).status());
  return std::vector<TensorMeta>{inputs[0], {inputs[0].shape, DType::kI64}};
}

/// How many ranks hold intervals of `dim` before this one's.
std::int64_t place_along(const OperandView& view, int dim) {
  std::int64_t place = 0;
  for (const Level& level : view.spec->layout().dims[static_cast<std::size_t>(dim)]) {
    if (level.kind != Level::Kind::kAxis) continue;
    const auto axis = static_cast<std::size_t>(level.axis);
    place = place * view.spec->mesh().size(level.axis) + (*view.coord)[axis];
  }
  return place;
}

/// Element `at` of `dim` as one part (1, other dims...) of `dtype`; `otherwise` where the dim is
/// empty.
struct PartOf {
  int dim;
  std::int64_t at;
  double otherwise;
};
Array part(KernelCall& call, const Array& x, PartOf of, DType dtype) {
  Shape shape = ops::kept_shape(x.shape(), {of.dim});
  shape.insert(shape.begin(), 1);
  const Array one = ops::scratch(call, shape, dtype);
  if (x.size(of.dim) == 0) {
    kernels::fill(call.ctx, of.otherwise, one);
    return one;
  }
  const Shape kept(shape.begin() + 1, shape.end());
  const Array line = x.slice(of.dim, of.at, of.at + 1);
  const Array alias =
      line.as_strided(kept, ops::kept_shape(line.strides(), {of.dim}), line.offset());
  kernels::copy(call.ctx, alias, one.try_view(kept));
  return one;
}

double identity_of(Scan fold) {
  if (fold == Scan::kSum) return 0.0;
  return fold == Scan::kProd ? 1.0 : -std::numeric_limits<double>::infinity();
}

template <Scan kFold>
void run_scan(KernelCall& call) {
  kernels::scan(call.ctx, kFold, call.inputs[0], ops::kernel_dim(call, call.inputs[0]),
                call.outputs[0]);
}

/// x → its own scan, and the last of it.
template <Scan kFold>
void scan_own(KernelCall& call) {
  run_scan<kFold>(call);
  const Array& out = call.outputs[0];
  const int dim = ops::kernel_dim(call, out);
  call.outputs[1] = part(call, out, {dim, out.size(dim) - 1, identity_of(kFold)}, out.dtype());
}

template <Scan kFold>
void scan_carried(KernelCall& call) {
  const Array& out = call.outputs[0];
  const int dim = ops::kernel_dim(call, out);
  kernels::carry_scan(call.ctx, kFold, call.inputs[0], place_along(call.output_views[0], dim), dim,
                      out);
}

template <Scan kFold>
Lowering scan_lowering() {
  return {"r", "each rank's own scan, and the totals of the ranks before it",
          [](const Attrs&) -> std::vector<LoweringStep> {
            ops::Steps steps(1, 1);
            const auto total = steps.value();
            steps.local({steps.operand(0)}, {steps.result(), total}, scan_own<kFold>);
            steps.local({steps.gather(total)}, {steps.result()}, scan_carried<kFold>);
            return std::move(steps).take();
          },
          Lowering::Cut::kIntervals};
}

template <Extreme kWhich>
void run_extremes(KernelCall& call) {
  kernels::scan_extreme(call.ctx, kWhich, call.inputs[0], ops::kernel_dim(call, call.inputs[0]),
                        call.outputs[0], call.outputs[1]);
}

/// x → its own extremes with global indices, and the last of them; index −1 of none.
template <Extreme kWhich>
void extremes_own(KernelCall& call) {
  run_extremes<kWhich>(call);
  const Array& values = call.outputs[0];
  const int dim = ops::kernel_dim(call, values);
  globalize_positions(call.ctx, call.input_views[0], {&dim, 1}, call.outputs[1]);
  const PartOf last = {dim, values.size(dim) - 1, 0.0};
  call.outputs[2] = part(call, values, last, values.dtype());
  call.outputs[3] = part(call, call.outputs[1], {dim, last.at, -1.0}, DType::kI64);
}

template <Extreme kWhich>
void extremes_carried(KernelCall& call) {
  const int dim = ops::kernel_dim(call, call.outputs[0]);
  const std::int64_t before = place_along(call.output_views[0], dim);
  kernels::carry_extreme(call.ctx, kWhich, {call.inputs[0], call.inputs[1], before}, dim,
                         call.outputs[0], call.outputs[1]);
}

template <Extreme kWhich>
Lowering extremes_lowering() {
  return {"r", "each rank's own extremes, and those of the ranks before it",
          [](const Attrs&) -> std::vector<LoweringStep> {
            ops::Steps steps(1, 2);
            const auto last = steps.value(), its_place = steps.value();
            steps.local({steps.operand(0)}, {steps.result(0), steps.result(1), last, its_place},
                        extremes_own<kWhich>);
            const auto all_last = steps.gather(last), all_places = steps.gather(its_place);
            steps.local({all_last, all_places}, steps.results(), extremes_carried<kWhich>);
            return std::move(steps).take();
          },
          Lowering::Cut::kIntervals};
}

/// (grad, x, result) → sums over what follows on this rank, and the first of them with its result.
void log_grad_own(KernelCall& call) {
  const Array& grad = call.inputs[0];
  const int dim = ops::kernel_dim(call, grad);
  call.outputs[0] = ops::scratch(call, grad.shape(), DType::kF64);
  kernels::log_scan_sums(call.ctx, grad, call.inputs[2], dim, call.outputs[0]);
  call.outputs[1] = part(call, call.inputs[2], {dim, 0, 0.0}, DType::kF64);
  // A rank without elements: sums start from 0.0, so that no other is -0.0.
  call.outputs[2] = part(call, call.outputs[0], {dim, 0, -0.0}, DType::kF64);
}

/// (x, result, sums, first results, first sums) → grad of x.
void log_grad_carried(KernelCall& call) {
  const int dim = ops::kernel_dim(call, call.inputs[0]);
  const std::int64_t next = call.output_views.empty() ? call.inputs[3].size(0)
                                                      : place_along(call.output_views[0], dim) + 1;
  kernels::log_scan_grad(call.ctx, {call.inputs[0], call.inputs[1]},
                         {call.inputs[3], call.inputs[4], next}, dim, call.inputs[2]);
  kernels::copy(call.ctx, call.inputs[2], call.outputs[0]);
}

void run_log_grad(KernelCall& call) {
  Array own[3];
  KernelCall first{call.ctx, call.inputs, call.attrs, own};
  log_grad_own(first);
  const Array operands[] = {call.inputs[1], call.inputs[2], own[0], own[1], own[2]};
  KernelCall last{call.ctx, operands, call.attrs, call.outputs};
  log_grad_carried(last);
}

std::vector<LoweringStep> log_grad_steps(const Attrs&) {
  ops::Steps steps(3, 1);
  const auto grad = steps.operand(0), x = steps.operand(1), result = steps.operand(2);
  const auto sums = steps.value(), first = steps.value(), its_result = steps.value();
  steps.local({grad, x, result}, {sums, first, its_result}, log_grad_own);
  const auto firsts = steps.gather(first), their_results = steps.gather(its_result);
  steps.local({x, result, sums, firsts, their_results}, {steps.result()}, log_grad_carried);
  return std::move(steps).take();
}

void run_sum_back(KernelCall& call) {
  kernels::sum_back(call.ctx, call.inputs[0], ops::kernel_dim(call, call.inputs[0]),
                    call.outputs[0]);
}
/// x → its own sums from each element on, and the first of them.
void sums_own(KernelCall& call) {
  run_sum_back(call);
  const Array& out = call.outputs[0];
  call.outputs[1] = part(call, out, {ops::kernel_dim(call, out), 0, 0.0}, out.dtype());
}
/// All ranks' firsts: what lies behind this rank's elements is added to them.
void sums_carried(KernelCall& call) {
  const Array &out = call.outputs[0], &parts = call.inputs[0];
  const int dim = ops::kernel_dim(call, out);
  const std::int64_t next =
      call.output_views.empty() ? parts.size(0) : place_along(call.output_views[0], dim) + 1;
  kernels::carry_scan(call.ctx, Scan::kSum, parts.slice(0, next, parts.size(0)),
                      parts.size(0) - next, dim, out);
}
std::vector<LoweringStep> sum_back_steps(const Attrs&) {
  ops::Steps steps(1, 1);
  const auto first = steps.value();
  steps.local({steps.operand(0)}, {steps.result(), first}, sums_own);
  steps.local({steps.gather(first)}, {steps.result()}, sums_carried);
  return std::move(steps).take();
}

/// Σ from i on. Not the total less Σ up to i, in which an infinite element would meet itself.
Var sums_from(GradContext& c, Var value) {
  return c.call("cumsum_grad", {value}, {{"dim", c.attrs().get_int("dim")}});
}

std::vector<Var> cumsum_gradient(GradContext& c) { return {sums_from(c, c.cotangent(0))}; }

/// Σ from i on of grad · result / x_i. An element that is zero has a slope where it is the first
/// one: that of the product without it.
std::vector<Var> cumprod_gradient(GradContext& c) {
  const Attrs along = {{"dim", c.attrs().get_int("dim")}};
  const Var grad = c.cotangent(0), x = c.input(0);
  const Shape& shape = c.input_shape(0);
  if (shape.empty()) return {grad};
  const auto dim = value_or_throw(ops::dim_attr(c.attrs(), static_cast<int>(shape.size())));
  if (shape[static_cast<std::size_t>(dim)] == 1) return {grad};  // an infinite element's, too
  const Var zero = c.call("eq_scalar", {x}, {{"value", 0.0}});
  const Var first =
      c.call("logical_and",
             {zero, c.call("eq_scalar", {c.call("cumsum", {zero}, along)}, {{"value", 1.0}})});
  const Attrs one = {{"value", 1.0}};
  const Var without = c.call("cumprod", {c.call("masked_fill", {x, first}, one)}, along);
  const Var at_first = sums_from(c, c.call("mul", {grad, without}));
  const Var others = c.call("div", {sums_from(c, c.call("mul", {grad, c.output(0)})),
                                    c.call("masked_fill", {x, zero}, one)});
  const Var nonzero = c.call("masked_fill", {others, zero}, {{"value", 0.0}});
  return {c.call("where", {first, at_first, nonzero})};
}

std::vector<Var> log_gradient(GradContext& c) {
  return {c.call("logcumsumexp_grad", {c.cotangent(0), c.input(0), c.output(0)},
                 {{"dim", c.attrs().get_int("dim")}})};
}

std::vector<Sample> scan_samples(std::size_t operands) {
  return {{.shapes = std::vector<Shape>(operands, {8, 6}), .attrs = {{"dim", 1}}},
          {.shapes = std::vector<Shape>(operands, {5, 3}), .attrs = {{"dim", 0}}},
          {.shapes = std::vector<Shape>(operands, {2, 9, 2}), .attrs = {{"dim", -2}}}};
}

OpDef scan_op(std::string name, std::string doc, std::string rule, Kernel kernel) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .args = {in("self")},
          .attrs = {ops::int_attr("dim")},
          .rule = std::move(rule),
          .kernel = std::move(kernel),
          .infer = infer_scan,
          .samples = scan_samples(1)};
}

void add_integer_sample(OpDef& def) {
  def.samples.push_back({.shapes = {{8, 6}},
                         .attrs = {{"dim", 1}},
                         .dtypes = {DType::kI64},
                         .below = {5},
                         .differentiable = false});
}

void add_folds(OpTable& table) {
  OpDef cumsum = scan_op("cumsum", "Sum of all elements up to each along a dim; integers as I64.",
                         "*r@dim -> *r | r^ | lin A", run_scan<Scan::kSum>);
  cumsum.gradient = cumsum_gradient;
  cumsum.lowerings = {scan_lowering<Scan::kSum>()};
  add_integer_sample(cumsum);
  ops::take_scalars_as_lines(cumsum);
  table.must_add(std::move(cumsum));

  OpDef back = scan_op("cumsum_grad",
                       "Cotangent of cumsum's operand: the sum of all elements from each on along "
                       "a dim.",
                       "*r@dim -> *r | r^ | lin A", run_sum_back);
  back.lowerings = {{"r", "each rank's own sums, and the totals of the ranks after it",
                     sum_back_steps, Lowering::Cut::kIntervals}};
  for (Sample& sample : back.samples) sample.differentiable = false;
  ops::take_scalars_as_lines(back);
  table.must_add(std::move(back));

  OpDef cumprod =
      scan_op("cumprod", "Product of all elements up to each along a dim; integers as I64.",
              "*r@dim -> *r | r^ | prod A", run_scan<Scan::kProd>);
  cumprod.gradient = cumprod_gradient;
  cumprod.saved_inputs = {0};
  cumprod.saved_outputs = {0};
  cumprod.lowerings = {scan_lowering<Scan::kProd>()};
  add_integer_sample(cumprod);
  cumprod.samples.push_back({.shapes = {{6, 7}},
                             .attrs = {{"dim", 1}},
                             .adjust = [](int, const Shape&, std::vector<double>& values) {
                               for (const std::size_t i : {9, 16, 18}) {
                                 if (i < values.size()) values[i] = 0.0;
                               }
                             }});
  ops::take_scalars_as_lines(cumprod);
  table.must_add(std::move(cumprod));
}

void add_log_scan(OpTable& table) {
  OpDef log = scan_op("logcumsumexp",
                      "Logarithm of the sum of the exponentials of all elements up to each along a "
                      "dim.",
                      "*r@dim -> *r | r^", run_scan<Scan::kLogSumExp>);
  log.infer = infer_log_scan;
  log.gradient = log_gradient;
  log.saved_inputs = {0};
  log.saved_outputs = {0};
  log.lowerings = {scan_lowering<Scan::kLogSumExp>()};
  ops::take_scalars_as_lines(log);
  table.must_add(std::move(log));

  OpDef grad = scan_op("logcumsumexp_grad", "Cotangent of logcumsumexp's operand.",
                       "*r@dim, *r@dim, *r@dim -> *r | r^ | lin A", run_log_grad);
  grad.args = {in("grad").floating(), in("self").like(0), in("result").like(0)};
  grad.infer = infer_log_scan;
  grad.finite = {1, 2};
  grad.lowerings = {{"r", "each rank's own sums, and those of the ranks after it", log_grad_steps,
                     Lowering::Cut::kIntervals}};
  grad.samples = scan_samples(3);
  for (Sample& sample : grad.samples) sample.differentiable = false;
  ops::take_scalars_as_lines(grad);
  table.must_add(std::move(grad));
}

template <Extreme kWhich>
void add_extremes(OpTable& table, const char* name, const char* which) {
  OpDef def = scan_op(name,
                      std::string("The ") + which +
                          " element so far along a dim, and its index; NaN counts as it, and the "
                          "last of equals wins.",
                      "*r@dim -> *r, *r int | r^", run_extremes<kWhich>);
  def.num_outputs = 2;
  def.infer = infer_extremes;
  def.gradient = [](GradContext& c) -> std::vector<Var> {
    if (!c.cotangent(0).defined()) return {Var{}};
    return {c.call("gather_grad", {c.cotangent(0), c.output(1)},
                   {{"dim", c.attrs().get_int("dim")}, {"size", c.input_shape(0)}})};
  };
  def.saved_outputs = {1};
  def.lowerings = {extremes_lowering<kWhich>()};
  add_integer_sample(def);
  ops::take_scalars_as_lines(def);
  table.must_add(std::move(def));
}

}  // namespace

void add_scan_ops(OpTable& table) {
  add_folds(table);
  add_log_scan(table);
  add_extremes<Extreme::kMax>(table, "cummax", "largest");
  add_extremes<Extreme::kMin>(table, "cummin", "smallest");
}

}  // namespace tessera
