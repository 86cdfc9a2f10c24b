// Negative log-likelihood of class ids, with class weights and an id that does not count. Where
// ranks cut the classes, each reads what it holds.
#include "kernels/elementwise.h"
#include "kernels/index.h"
#include "strategies/ops/reduce/reduced.h"
#include "strategies/ops/steps.h"
#include "strategies/rules/held_part.h"

namespace tessera {
namespace {

StatusOr<std::vector<TensorMeta>> infer_nll(std::span<const TensorMeta> inputs, const Attrs&) {
  const Shape& x = inputs[0].shape;
  if (x.empty() || inputs[1].shape != Shape(x.begin(), x.end() - 1) || !is_index(inputs[1].dtype) ||
      !is_floating(inputs[0].dtype)) {
    return invalid_argument("input " + std::string(name_of(inputs[0].dtype)) + to_string(x) +
                            " and target " + std::string(name_of(inputs[1].dtype)) +
                            to_string(inputs[1].shape) +
                            ": the input must be floating, the target I64 or I32 class ids for all "
                            "but its last dim");
  }
  if (!inputs[2].absent && inputs[2].shape != Shape{x.back()}) {
    return invalid_argument("weight " + to_string(inputs[2].shape) + ", but the " +
                            std::to_string(x.back()) + " classes of " + to_string(x) + " take " +
                            to_string(Shape{x.back()}));
  }
  const TensorMeta row = {inputs[1].shape, inputs[0].dtype};
  return std::vector<TensorMeta>{row, row};
}

/// Places among this rank's classes, −1 where the id is held elsewhere or does not count. Throws
/// OutOfRange for any other id outside the classes.
Array places_of(KernelCall& call, const OperandView* view) {
  const Array& x = call.inputs[0];
  const Array ids = ops::scratch(call, call.inputs[1].shape(), DType::kI64);
  const std::int64_t skipped = call.attrs.get_int("ignore_index");
  const bool cut = view != nullptr && view->spec != nullptr;
  const int last = x.ndim() - 1;
  const kernels::HeldPart classes =
      cut ? held_part(*view, last) : kernels::HeldPart::whole(x.size(last));
  const auto refuse = [skipped, count = classes.size](std::int64_t at, std::int64_t target) {
    return out_of_range("nll_loss: target " + std::to_string(target) + " at position " +
                        std::to_string(at) + "; allowed are 0 … " + std::to_string(count - 1) +
                        " and ignore_index " + std::to_string(skipped));
  };
  kernels::localize(call.ctx, call.inputs[1], classes, {.skipped = skipped}, refuse, ids);
  return ids;
}

/// Loss and weight of each row, of the classes that this rank holds: 0 for others.
void read_rows(KernelCall& call, const Array& places) {
  const Array &x = call.inputs[0], &weight = call.inputs[2];
  const Array &loss = call.outputs[0], &weights = call.outputs[1];
  Shape column = places.shape();
  column.push_back(1);
  const auto absent = kernels::Absent::kSkip;
  if (weight.is_null()) {
    kernels::binary_scalar(call.ctx, kernels::Binary::kGe, places, 0.0, weights);
  } else {
    const Array rows = ops::broadcast_view(weight, x.shape());
    kernels::gather(call.ctx, rows, x.ndim() - 1, places.try_view(column), absent,
                    weights.try_view(column));
  }
  kernels::gather(call.ctx, x, x.ndim() - 1, places.try_view(column), absent,
                  loss.try_view(column));
  kernels::binary(call.ctx, kernels::Binary::kMul, loss, weights, loss);
  kernels::unary(call.ctx, kernels::Unary::kNeg, loss, loss);
}

void run_nll(KernelCall& call) { read_rows(call, places_of(call, nullptr)); }
void run_own(KernelCall& call) { read_rows(call, places_of(call, &call.input_views[0])); }

/// Only the target's class of each row that counts has a slope: minus its weight.
std::vector<Var> nll_gradient(GradContext& c) {
  if (!c.needs(0) || !c.cotangent(0).defined()) return std::vector<Var>(3);
  const Attrs skipped = {{"value", static_cast<double>(c.attrs().get_int("ignore_index"))}};
  const Var ignored = c.call("eq_scalar", {c.input(1)}, skipped);
  const Var ids = c.call("masked_fill", {c.input(1), ignored}, {{"value", 0.0}});
  const Var weighted = c.call("neg", {c.call("mul", {c.cotangent(0), c.output(1)})});
  const Var slope = c.call("masked_fill", {weighted, ignored}, {{"value", 0.0}});
  const Attrs last = {{"dim", std::int64_t{-1}}};
  const Attrs into = {{"dim", std::int64_t{-1}}, {"size", c.input_shape(0)}};
  std::vector<Var> grads(3);
  grads[0] = c.call("gather_grad",
                    {c.call("unsqueeze", {slope}, last), c.call("unsqueeze", {ids}, last)}, into);
  return grads;
}

/// Targets of which every third does not count, where ignore_index says so.
void leave_out(int operand, const Shape&, std::vector<double>& values) {
  if (operand != 1) return;
  for (std::size_t i = 0; i < values.size(); i += 3) values[i] = -100.0;
}

}  // namespace

void add_nll_loss_ops(OpTable& table) {
  const DType kF = DType::kF64, kI = DType::kI64;
  table.must_add(
      {.name = "nll_loss",
       .doc =
           "Minus the weighted log-probability of each row's target class (0 where it is "
           "ignore_index), and the row's weight; their sums divide to the mean. Class weights are "
           "constants: no gradient reaches them.",
       .args = {in("input"), in("target"), in_optional("weight").with_dtype_of(0)},
       .attrs = {ops::int_attr("ignore_index", -100)},
       .rule = "*v, *, v? -> *, * | v! | lin[0] A | lin C",
       .num_outputs = 2,
       .kernel = run_nll,
       .infer = infer_nll,
       .gradient = nll_gradient,
       .saved_inputs = {1},
       .saved_outputs = {1},
       .lowerings = {{"v", "all-reduces of the losses and weights that each rank reads",
                      [](const Attrs&) -> std::vector<LoweringStep> {
                        ops::Steps steps(3, 2);
                        steps.local(steps.operands(), steps.results(), run_own);
                        steps.all_reduce(steps.results(), ReduceOp::kSum);
                        return std::move(steps).take();
                      }}},
       .finite = {0, 2},
       .declined = {"P(max), R, _ -> P(min), R; P(min), R, _ -> P(max), R: without class weights "
                    "only, whose sign decides, and no guard speaks of absent operands"},
       .samples = {
           {.shapes = {{8, 6}, {8}}, .dtypes = {kF, kI}, .below = {2, 6}},
           {.shapes = {{5, 8}, {5}}, .dtypes = {kF, kI}, .below = {2, 8}, .adjust = leave_out},
           {.shapes = {{6, 7}, {6}, {7}},
            .dtypes = {kF, kI, kF},
            .below = {2, 7, 2},
            .adjust = leave_out,
            .differentiable = false},
           {.shapes = {{2, 3, 5}, {2, 3}, {5}},
            .dtypes = {kF, kI, kF},
            .below = {2, 5, 2},
            .differentiable = false}}});
}

}  // namespace tessera
