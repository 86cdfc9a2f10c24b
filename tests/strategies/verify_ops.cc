#include <cmath>

#include "kernels/scan.h"
#include "strategies/verify/verify.h"
#include "tests/strategies/rows_ops.h"

namespace tessera {
namespace {

std::string failures_of(const VerifyReport& report) {
  std::string text;
  for (const VerifyFailure& failure : report.failures) {
    text += failure.op + " on " + failure.mesh + ", " + failure.row + ", sample " + failure.sample +
            ": " + failure.detail + "\n";
  }
  return text;
}

/// Rows and gradients only: the search has tests of its own.
VerifyReport verify_op(const OpTable& table, std::string_view name) {
  return verify(table, *value_or_throw(table.find(name)),
                {.completeness = VerifyOptions::Completeness::kSkip});
}

TEST_CASE("every row of the notation's ops gives the one-rank result", "[strategies][verify]") {
  const OpTable table = testing::small_table();
  for (const Op* op : table.ops()) {
    if (op->def.name == "add" || op->def.name == "mul") continue;  // gradients need ATen's sum
    const VerifyReport report = verify_op(table, op->def.name);
    CAPTURE(op->def.name, failures_of(report));
    CHECK(report.rows_failed == 0);
    CHECK(report.rows_proven > 0);
  }
}

/// add with another rule and kernel, verified without gradients.
VerifyReport verify_mutant(std::string rule, Kernel kernel, std::vector<Sample> samples) {
  OpTable table;
  OpDef def = testing::op_def("mutant", std::move(rule), static_cast<int>(samples[0].shapes.size()),
                              std::move(kernel));
  for (const Sample& sample : samples) {
    if (sample.attrs.has("dim")) def.attrs = {testing::dim_def()};
    if (sample.attrs.has("dims")) def.attrs = testing::reduce_defs();
  }
  def.samples = std::move(samples);
  table.must_add(def);
  return verify_op(table, "mutant");
}

TEST_CASE("a wrong rule does not pass", "[strategies][verify]") {
  const std::vector<Sample> pair = {{.shapes = {{8, 6}, {8, 6}}}};
  const Kernel add = testing::binary_kernel(kernels::Binary::kAdd);
  const Kernel mul = testing::binary_kernel(kernels::Binary::kMul);
  const Kernel relu = testing::unary_kernel(kernels::Unary::kRelu);
  CHECK(verify_mutant("*, * -> * | lin A+B", add, pair).rows_failed == 0);
  CHECK(verify_mutant("*, * -> * | lin A", add, pair).rows_failed > 0);    // P + R
  CHECK(verify_mutant("*, * -> * | lin A+B", mul, pair).rows_failed > 0);  // P · P
  CHECK(verify_mutant("*, * -> * | mono A", mul, pair).rows_failed > 0);
  CHECK(verify_mutant("* -> * | lin A", relu, {{.shapes = {{8}}}}).rows_failed > 0);
  CHECK(verify_mutant("* -> * | mono A", testing::unary_kernel(kernels::Unary::kSquare),
                      {{.shapes = {{8}}}})
            .rows_failed > 0);
  CHECK(verify_mutant("*r@dims -> * | r:sum", testing::reduce_kernel(ReduceOp::kMax),
                      {{.shapes = {{8, 3}}, .attrs = {{"dims", Shape{0}}}}})
            .rows_failed > 0);
  const Kernel softmax = [](KernelCall& call) {
    kernels::softmax(call.ctx, call.inputs[0], testing::dim_of(call), call.outputs[0]);
  };
  CHECK(verify_mutant("*r@dim -> *r", softmax,
                      {{.shapes = {{8, 3}}, .attrs = {{"dim", std::int64_t{0}}}}})
            .rows_failed > 0);
}

TEST_CASE("a failure names mesh, row, sample, the first wrong element and its ranks",
          "[strategies][verify]") {
  const VerifyReport report = verify_mutant(
      "* -> * | lin A", testing::unary_kernel(kernels::Unary::kSquare), {{.shapes = {{3}}}});
  REQUIRE_FALSE(report.failures.empty());
  const VerifyFailure& failure = report.failures[0];
  CHECK(failure.op == "mutant");
  CHECK(failure.mesh == "2");
  CHECK(failure.row == "P(sum) -> P(sum) (lin A)");
  CHECK(failure.sample == "[1]");  // made of [3]
  CHECK(failure.detail.starts_with("result 0: element [0] is "));
  CHECK(failure.detail.ends_with("; reduced from ranks 0, 1"));

  const Kernel cumsum = [](KernelCall& call) {
    kernels::scan(call.ctx, kernels::Scan::kSum, call.inputs[0], 0, call.outputs[0]);
  };
  const VerifyReport scan = verify_mutant("f -> f", cumsum, {{.shapes = {{4}}}});
  REQUIRE_FALSE(scan.failures.empty());
  CHECK(scan.failures[0].row == "S(0) -> S(0) (f)");
  CHECK(scan.failures[0].detail.starts_with("result 0: element [2] is "));
  CHECK(scan.failures[0].detail.ends_with("; held by rank 1"));
}

OpTable gradient_table(Gradient gradient, std::vector<int> saved) {
  OpTable table;
  OpDef mul = testing::op_def("mul", "*, * -> * | lin A*B", 2,
                              testing::binary_kernel(kernels::Binary::kMul));
  mul.gradient = std::move(gradient);
  mul.saved_inputs = std::move(saved);
  mul.samples = {{.shapes = {{5, 3}, {5, 3}}}};
  table.must_add(mul);
  return table;
}

TEST_CASE("gradients are compared with differences", "[strategies][verify][gradient]") {
  const Gradient right = [](GradContext& grad) {
    return std::vector<Var>{grad.call("mul", {grad.cotangent(0), grad.input(1)}),
                            grad.call("mul", {grad.cotangent(0), grad.input(0)})};
  };
  const Gradient swapped = [](GradContext& grad) {
    return std::vector<Var>{grad.call("mul", {grad.cotangent(0), grad.input(0)}),
                            grad.call("mul", {grad.cotangent(0), grad.input(1)})};
  };
  const Gradient missing = [](GradContext& grad) {
    return std::vector<Var>{grad.call("mul", {grad.cotangent(0), grad.input(1)}), Var{}};
  };
  const OpTable good = gradient_table(right, {0, 1});
  CHECK(failures_of(verify_op(good, "mul")) == "");
  CHECK(verify_op(gradient_table(swapped, {0, 1}), "mul").rows_failed == 1);
  const VerifyReport none = verify_op(gradient_table(missing, {0, 1}), "mul");
  REQUIRE(none.failures.size() == 1);
  CHECK(none.failures[0].row == "gradient");
  CHECK(none.failures[0].detail.starts_with("operand 1, element 0: the gradient says 0.0"));
  const VerifyReport unsaved = verify_op(gradient_table(right, {1}), "mul");
  REQUIRE(unsaved.failures.size() == 1);
  CHECK(unsaved.failures[0].detail ==
        "its gradient reads operand 0, which saved_inputs does not list");
}

/// Softmax over a cut dim: maxima and sums are reduced across ranks.
OpDef lowered_softmax(ReduceOp fold_maxima) {
  OpDef def = testing::op_def("softmax", "*r -> *r | r!", 1, [](KernelCall& call) {
    kernels::softmax(call.ctx, call.inputs[0], call.inputs[0].ndim() - 1, call.outputs[0]);
  });
  def.samples = {{.shapes = {{4, 8}}}, {.shapes = {{3, 5}}}};
  const auto kept = [](const Array& x) {
    Shape shape = x.shape();
    shape.back() = 1;
    return shape;
  };
  const Kernel maximum = [kept](KernelCall& call) {
    const Array& x = call.inputs[0];
    call.outputs[0] = Array::empty(kept(x), x.dtype());
    const int dims[] = {x.ndim() - 1};
    kernels::reduce(call.ctx, ReduceOp::kMax, x, dims, call.outputs[0]);
  };
  const Kernel exponentials = [kept](KernelCall& call) {
    const Array& x = call.inputs[0];
    const Array& out = call.outputs[0];
    kernels::binary(call.ctx, kernels::Binary::kSub, x, call.inputs[1], out);
    kernels::unary(call.ctx, kernels::Unary::kExp, out, out);
    call.outputs[1] = Array::empty(kept(x), x.dtype());
    const int dims[] = {x.ndim() - 1};
    kernels::reduce(call.ctx, ReduceOp::kSum, out, dims, call.outputs[1]);
  };
  const Kernel divide = [](KernelCall& call) {
    kernels::binary(call.ctx, kernels::Binary::kDiv, call.outputs[0], call.inputs[0],
                    call.outputs[0]);
  };
  using Kind = LoweringStep::Kind;
  // Temporaries: 0 the operand, 1 the result, 2 maxima, 3 sums.
  def.lowerings = {
      {.factor = "r",
       .doc = "Maxima and sums are reduced over the ranks.",
       .steps = [=](const Attrs&) {
         return std::vector<LoweringStep>{
             {.kind = Kind::kLocal, .in = {0}, .out = {2}, .kernel = maximum},
             {.kind = Kind::kReduce, .in = {2}, .out = {2}, .reduce = fold_maxima},
             {.kind = Kind::kLocal, .in = {0, 2}, .out = {1, 3}, .kernel = exponentials},
             {.kind = Kind::kReduce, .in = {3}, .out = {3}, .reduce = ReduceOp::kSum},
             {.kind = Kind::kLocal, .in = {3}, .out = {1}, .kernel = divide}};
       }}};
  return def;
}

TEST_CASE("lowerings are interpreted on all ranks", "[strategies][verify][lowering]") {
  OpTable table;
  table.must_add(lowered_softmax(ReduceOp::kMax));
  const VerifyReport report = verify_op(table, "softmax");
  CAPTURE(failures_of(report));
  CHECK(report.rows_failed == 0);
  CHECK(testing::rows_text(table, "softmax", {testing::f64({4, 8})})[1] ==
        "S(1) -> S(1) | lowering r");
  // The lowered row is chosen where it saves moving the operand, and says on which axes it talks.
  const Mesh mesh = value_or_throw(Mesh::make(view_of(Shape{2, 2}), {"dp", "tp"}));
  const Placements cut = {Shard{1}, Shard{1}};
  const Spec x = value_or_throw(Spec::make(mesh, {4, 64}, DType::kF32, cut));
  const Spec* const specs[] = {&x};
  const Resolution chosen =
      value_or_throw(propagate(*value_or_throw(table.find("softmax")), specs, {}));
  CHECK(chosen.lowering == 0);
  CHECK(chosen.lowering_axes == std::vector<int>{0, 1});
  CHECK(chosen.inputs[0] == x);

  OpTable wrong;  // the sum of maxima is no maximum, but cancels; the sum of sums is what counts
  OpDef def = lowered_softmax(ReduceOp::kMax);
  const auto steps = def.lowerings[0].steps;
  def.lowerings[0].steps = [steps](const Attrs& attrs) {
    std::vector<LoweringStep> changed = steps(attrs);
    changed[3].reduce = ReduceOp::kMax;
    return changed;
  };
  wrong.must_add(def);
  CHECK(verify_op(wrong, "softmax").rows_failed > 0);
}

TEST_CASE("a lowering that is right for numbers only is refuted by infinities",
          "[strategies][verify][lowering]") {
  OpDef def = lowered_softmax(ReduceOp::kMax);
  const auto steps = def.lowerings[0].steps;
  def.lowerings[0].steps = [steps](const Attrs& attrs) {
    std::vector<LoweringStep> changed = steps(attrs);
    const Kernel divide = changed[4].kernel;
    changed[4].kernel = [divide](KernelCall& call) {  // a NaN becomes 1
      divide(call);
      const Array& out = call.outputs[0];
      std::vector<double> values = out.to_vector();
      for (double& value : values) value = std::isnan(value) ? 1.0 : value;
      kernels::copy(call.ctx, Array::from_values(out.shape(), out.dtype(), values), out);
    };
    return changed;
  };
  OpTable table;
  table.must_add(def);
  const VerifyReport report = verify_op(table, "softmax");
  REQUIRE(report.rows_failed > 0);
  CHECK(report.failures[0].sample.find("(infinities)") != std::string::npos);
}

TEST_CASE("an op with strategies of its own is proven through them", "[strategies][verify]") {
  const auto table_of = [](int output_dim) {
    OpTable table;
    OpDef def;
    def.name = "transpose";
    def.doc = "Swaps two dims.";
    def.args = {in("a")};
    def.is_view = true;
    def.infer = [](std::span<const TensorMeta> inputs, const Attrs&) {
      return StatusOr<std::vector<TensorMeta>>(
          {{Shape{inputs[0].shape[1], inputs[0].shape[0]}, inputs[0].dtype}});
    };
    def.kernel = [](KernelCall& call) { call.outputs[0] = call.inputs[0].transpose(0, 1); };
    def.strategies = [output_dim](std::span<const Spec* const> inputs,
                                  std::span<const TensorMeta> outputs,
                                  const Attrs&) -> StatusOr<std::vector<Strategy>> {
      Layout layout = inputs[0]->layout();
      if (output_dim == 1) std::swap(layout.dims[0], layout.dims[1]);
      TSR_ASSIGN_OR_RETURN(
          Spec out, Spec::make(inputs[0]->mesh(), outputs[0].shape, outputs[0].dtype, layout));
      return std::vector<Strategy>{{{*inputs[0]}, {out}, "levels follow their dim"}};
    };
    def.samples = {{.shapes = {{5, 3}}}, {.shapes = {{4, 4}}}};
    table.must_add(def);
    return table;
  };
  const VerifyReport report = verify_op(table_of(1), "transpose");
  CAPTURE(failures_of(report));
  CHECK(report.rows_failed == 0);
  CHECK(report.rows_proven > 50);
  CHECK(verify_op(table_of(0), "transpose").rows_failed > 0);
}

}  // namespace
}  // namespace tessera
