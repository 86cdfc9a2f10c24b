// Flaws that the prover has to see: kernels and rules that are wrong only for an empty shard, a
// tie, a NaN, a mean, a wrapped integer, an order of writes, strides, sizes of 0 and 1, infinities;
// and what its failures, mutants and faults say.
#include <algorithm>
#include <cmath>

#include "strategies/verify/verify.h"
#include "strategies/verify/verify_faults.h"
#include "strategies/verify/verify_mutants.h"
#include "tests/strategies/rows_ops.h"

namespace tessera {
namespace {

VerifyReport prove(OpDef def) {
  OpTable table;
  table.must_add(std::move(def));
  return verify(table, *table.ops()[0],
                {.gradients = VerifyOptions::Gradients::kSkip,
                 .completeness = VerifyOptions::Completeness::kSkip});
}

/// Row-major values of the operand through `f`.
Kernel pointwise(double (*f)(double)) {
  return [f](KernelCall& call) {
    std::vector<double> values = call.inputs[0].to_vector();
    for (double& value : values) value = f(value);
    const Array made = Array::from_values(call.outputs[0].shape(), call.outputs[0].dtype(), values);
    kernels::copy(call.ctx, made, call.outputs[0]);
  };
}

OpDef one_operand(std::string rule, Kernel kernel) {
  OpDef def = testing::op_def("op", std::move(rule), 1, std::move(kernel));
  def.samples = {{.shapes = {{8, 6}}}, {.shapes = {{5, 3}}}};
  return def;
}

TEST_CASE("an empty shard must give the identity of its kind", "[strategies][verify][flaws]") {
  // The largest of no elements is -inf; this one says 0.
  const Kernel kernel = [](KernelCall& call) {
    if (call.inputs[0].num_elements() == 0) return kernels::fill(call.ctx, 0.0, call.outputs[0]);
    testing::reduce_kernel(ReduceOp::kMax)(call);
  };
  OpDef def = testing::op_def("op", "*r@dims -> * | r:max", 1, kernel);
  def.attrs = testing::reduce_defs();
  const auto below_zero = [](int, const Shape&, std::vector<double>& values) {
    for (double& value : values) value = -1.0 - std::abs(value);
  };
  def.samples = {{.shapes = {{5, 3}}, .attrs = {{"dims", Shape{0}}}, .adjust = below_zero}};
  const VerifyReport report = prove(def);
  REQUIRE(report.rows_failed > 0);
  CHECK(report.failures[0].mesh == "2");  // where one rank owns all, the other has none
  def.kernel = testing::reduce_kernel(ReduceOp::kMax);
  CHECK(prove(def).rows_failed == 0);
}

TEST_CASE("a NaN must win over the other ranks' extremes", "[strategies][verify][flaws]") {
  const auto sign = [](double x) { return double(x > 0) - double(x < 0); };
  const VerifyReport report = prove(one_operand("* -> * | mono A", pointwise(sign)));
  REQUIRE(report.rows_failed > 0);
  CHECK(report.failures[0].sample.ends_with("(NaN)"));
  const auto propagating = [](double x) {
    return std::isnan(x) ? x : double(x > 0) - double(x < 0);
  };
  CHECK(prove(one_operand("* -> * | mono A", pointwise(propagating))).rows_failed == 0);
}

TEST_CASE("linear but for an infinity is not linear", "[strategies][verify][flaws]") {
  const auto clipped = [](double x) { return std::isinf(x) ? 0.0 : 2.0 * x; };
  const VerifyReport report = prove(one_operand("* -> * | lin A", pointwise(clipped)));
  REQUIRE(report.rows_failed > 0);
  CHECK(report.failures[0].sample.ends_with("(infinities)"));
}

TEST_CASE("a mean is no sum, and an affine function no linear one", "[strategies][verify][flaws]") {
  const auto shifted = [](double x) { return x + 1.0; };
  CHECK(prove(one_operand("* -> * | aff A", pointwise(shifted))).rows_failed == 0);
  const VerifyReport report = prove(one_operand("* -> * | lin A", pointwise(shifted)));
  for (const VerifyFailure& failure : report.failures) {
    CHECK(failure.row.find("P(sum) -> P(sum)") != std::string::npos);
  }
  CHECK(report.rows_failed > 0);
}

TEST_CASE("what rounds integers is not linear in them", "[strategies][verify][flaws]") {
  const auto half = [](double x) { return std::trunc(x / 2.0); };
  // Right in F64 only where nothing rounds; the I64 variant has the same rule.
  OpDef def = one_operand("* -> * | lin A", pointwise(half));
  def.samples = {{.shapes = {{8, 6}}, .dtypes = {DType::kI64}, .below = {9}}};
  CHECK(prove(def).rows_failed > 0);
  OpDef floating = one_operand("* -> * | lin A", [](KernelCall& call) {
    const bool integers = !is_floating(call.inputs[0].dtype());
    pointwise(integers ? +[](double x) { return std::trunc(x / 2.0); }
                       : +[](double x) { return x / 2.0; })(call);
  });
  const VerifyReport report = prove(floating);
  REQUIRE(report.rows_failed > 0);
  CHECK(report.failures[0].sample.ends_with("(I64)"));
}

/// The first position of the largest element of a row; `later` of equal ones.
Kernel argmax_row(bool later) {
  return [later](KernelCall& call) {
    const Array& x = call.inputs[0];
    const std::vector<double> values = x.to_vector();
    std::vector<double> best(static_cast<std::size_t>(x.size(0)));
    for (std::size_t row = 0; row < best.size(); ++row) {
      const double* const from = values.data() + row * static_cast<std::size_t>(x.size(1));
      for (std::int64_t i = 1; i < x.size(1); ++i) {
        const auto at = static_cast<std::size_t>(best[row]);
        if (from[i] > from[at] || (later && from[i] == from[at])) best[row] = double(i);
      }
    }
    kernels::copy(call.ctx, Array::from_values(call.outputs[0].shape(), DType::kI64, best),
                  call.outputs[0]);
  };
}

TEST_CASE("a tie that one execution breaks otherwise is seen", "[strategies][verify][flaws]") {
  // Plain calls take the first, calls on a mesh the last of equal elements.
  OpDef def = testing::op_def("op", "fr -> f int | r!", 1, [](KernelCall& call) {
    argmax_row(!call.input_views.empty())(call);
  });
  def.samples = {{.shapes = {{6, 12}}}};
  const VerifyReport report = prove(def);
  REQUIRE(report.rows_failed > 0);
  CHECK(report.failures[0].sample.ends_with("(ties)"));
  def.kernel = argmax_row(false);
  CHECK(prove(def).rows_failed == 0);
}

TEST_CASE("a kernel that takes its shard for an interval is seen", "[strategies][verify][flaws]") {
  // Adds the global index, from the rank's offset as if its elements stood side by side.
  const auto kernel = [](bool exact) -> Kernel {
    return [exact](KernelCall& call) {
      std::vector<double> values = call.inputs[0].to_vector();
      for (std::size_t i = 0; i < values.size(); ++i) {
        double at = double(i);
        if (!call.input_views.empty()) {
          const Spec& spec = *call.input_views[0].spec;
          const Levels& levels = spec.layout().dims[0];
          const Coord& coord = *call.input_views[0].coord;
          const std::int64_t n = spec.global_shape()[0];
          at = exact ? double(local_to_global(spec.mesh(), n, levels, coord, std::int64_t(i)))
                     : double(local_to_global(spec.mesh(), n, levels, coord, 0)) + double(i);
        }
        values[i] += at;
      }
      kernels::copy(call.ctx, Array::from_values(call.outputs[0].shape(), DType::kF64, values),
                    call.outputs[0]);
    };
  };
  const auto only_f64 = [](std::span<const TensorMeta> inputs,
                           const Attrs&) -> StatusOr<std::vector<TensorMeta>> {
    if (inputs[0].dtype != DType::kF64) return invalid_argument("F64 only");
    return std::vector<TensorMeta>{inputs[0]};
  };
  OpDef def = testing::op_def("op", "f -> f", 1, kernel(false));
  def.infer = only_f64;
  def.samples = {{.shapes = {{12}}}};
  CHECK(prove(def).rows_failed > 0);
  def.kernel = kernel(true);
  CHECK(prove(def).rows_failed == 0);
}

TEST_CASE("an in-place op that computes something else than its twin is seen",
          "[strategies][verify][flaws]") {
  OpTable table;
  OpDef add = testing::op_def("add", "*, * -> * | lin A+B", 2,
                              testing::binary_kernel(kernels::Binary::kAdd));
  add.samples = {{.shapes = {{8, 6}, {8, 6}}}};
  OpDef in_place = testing::op_def("add_", "*, * -> &A * | lin A+B", 2,
                                   testing::binary_kernel(kernels::Binary::kSub));
  in_place.samples = add.samples;
  table.must_add(add);
  table.must_add(in_place);
  const VerifyReport report = verify(table, *value_or_throw(table.find("add_")),
                                     {.completeness = VerifyOptions::Completeness::kSkip});
  REQUIRE(report.failures.size() == 1);
  CHECK(report.failures[0].row == "as add");
}

TEST_CASE("an operand that is read as if it were contiguous is seen",
          "[strategies][verify][flaws]") {
  const auto doubled = [](const Array& x, const Array& out) {
    const Array dense = x.as_strided(x.shape(), contiguous_strides(x.shape()), x.offset());
    KernelContext ctx;
    kernels::binary(ctx, kernels::Binary::kAdd, dense, dense, out);
  };
  const VerifyReport report = prove(one_operand(
      "* -> * | lin A", [doubled](KernelCall& call) { doubled(call.inputs[0], call.outputs[0]); }));
  REQUIRE_FALSE(report.failures.empty());
  CHECK(report.failures[0].row == "storage");
}

TEST_CASE("a crash on no elements and one on a single element are seen as what they are",
          "[strategies][verify][flaws]") {
  for (const std::int64_t size : {0, 1}) {
    const VerifyReport report = prove(one_operand("* -> * | lin A", [size](KernelCall& call) {
      const Shape& shape = call.inputs[0].shape();
      if (std::count(shape.begin(), shape.end(), size) > 0 && call.inputs[0].ndim() == 2) {
        throw Error(invalid_argument("not of this size"));
      }
      kernels::copy(call.ctx, call.inputs[0], call.outputs[0]);
    }));
    CAPTURE(size);
    REQUIRE_FALSE(report.failures.empty());
    CHECK(report.failures[0].detail.find("not of this size") != std::string::npos);
  }
}

TEST_CASE("sums beside infinities pass only where the op says so, and it says so only where true",
          "[strategies][verify][flaws]") {
  // A term of one factor is assumed finite where another of its product is a sum; here the rule
  // hides the product.
  const auto product = testing::binary_kernel(kernels::Binary::kMul);
  OpDef def = testing::op_def("op", "*, * -> * | lin A", 2, product);
  def.samples = {{.shapes = {{8, 6}, {8, 6}}}};
  const VerifyReport unsaid = prove(def);
  REQUIRE(unsaid.rows_failed > 0);
  CHECK(unsaid.failures[0].sample.ends_with("(infinities)"));
  def.finite = {1};
  CHECK(prove(def).failures.empty());
  OpDef first = testing::op_def("op", "*, * -> * | lin A", 2, [](KernelCall& call) {
    kernels::copy(call.ctx, call.inputs[0], call.outputs[0]);
  });
  first.samples = def.samples;
  CHECK(prove(first).failures.empty());
  first.finite = {1};
  const VerifyReport needless = prove(first);
  REQUIRE(needless.failures.size() == 1);
  CHECK(needless.failures[0].row == "finite");
}

TEST_CASE("a number in an attribute is tried at 0 and at infinity", "[strategies][verify][flaws]") {
  OpDef def = one_operand("* -> * | lin A", [](KernelCall& call) {
    kernels::binary_scalar(call.ctx, kernels::Binary::kDiv, call.inputs[0],
                           call.attrs.get_double("value"), call.outputs[0]);
  });
  def.attrs = {{"value", AttrDef::Type::kDouble, AttrValue{2.0}}};
  const VerifyReport report = prove(def);
  REQUIRE(report.rows_failed > 0);
  CHECK(report.failures[0].sample.find("value=0") != std::string::npos);
  def.rule = "* -> * | lin A if value!=0";
  CHECK(prove(def).rows_failed == 0);
}

TEST_CASE("a write that does not reach the operand's storage is seen",
          "[strategies][verify][flaws]") {
  OpDef def = testing::op_def("double_", "* -> &A * | lin A", 1, [](KernelCall& call) {
    const Array made = Array::empty(call.inputs[0].shape(), call.inputs[0].dtype());
    kernels::binary(call.ctx, kernels::Binary::kAdd, call.inputs[0], call.inputs[0], made);
    call.outputs[0] = made;
  });
  def.samples = {{.shapes = {{8, 6}}}};
  const VerifyReport report = prove(def);
  REQUIRE_FALSE(report.failures.empty());
  CHECK(report.failures[0].detail.find("storage") != std::string::npos);
}

TEST_CASE("every fault that is planted in an op is refuted, or no sample runs into it",
          "[strategies][verify][faults]") {
  OpTable table;
  add_builtin_ops(table);
  for (const char* name : {"amax", "select", "fill_", "gather", "rms_norm", "max", "add"}) {
    const MutantReport report = judge_faults(table, *value_or_throw(table.find(name)));
    CAPTURE(name);
    CHECK(report.refuted > 0);
    CHECK(report.survivors.empty());
  }
}

TEST_CASE("a failure carries the element, both values and the shortest call that shows it",
          "[strategies][verify][repro]") {
  const auto square = [](double x) { return x * x; };
  OpDef def = one_operand("* -> * | lin A", pointwise(square));
  def.samples = {{.shapes = {{8, 6}}}, {.shapes = {{3}}}};
  const VerifyReport report = prove(def);
  const auto on_two = std::find_if(
      report.failures.begin(), report.failures.end(), [](const VerifyFailure& failure) {
        return failure.mesh == "2" && failure.row == "P(sum) -> P(sum) (lin A)";
      });
  REQUIRE(on_two != report.failures.end());
  CHECK(on_two->sample.starts_with("[1]"));  // the smallest that can be made of the samples
  CHECK(on_two->rank == 0);
  CHECK(on_two->result == 0);
  CHECK(on_two->got != on_two->expected);
  REQUIRE(on_two->repro.has_value());
  const VerifyRepro& repro = *on_two->repro;
  CHECK(repro.mesh == Shape{2});
  REQUIRE(repro.inputs.size() == 1);
  REQUIRE(repro.inputs[0].local.size() == 2);
  REQUIRE(repro.results.size() == 1);
  // The ranks' summands make the operand whose square the one rank computes.
  const auto at = static_cast<std::size_t>(on_two->index[0]);
  const double whole = repro.inputs[0].local[0][at] + repro.inputs[0].local[1][at];
  CHECK(std::abs(whole * whole - repro.results[0].values[at]) < 1e-9);
  CHECK(on_two->expected == repro.results[0].values[at]);
}

TEST_CASE("mutants of a right rule are refuted, and survivors have reasons",
          "[strategies][verify][mutants]") {
  OpTable table;
  OpDef add = testing::op_def("add", "*, * -> * | lin A+B", 2,
                              testing::binary_kernel(kernels::Binary::kAdd));
  add.samples = {{.shapes = {{8, 6}, {8, 6}}}, {.shapes = {{5, 3}, {3}}}};
  add.declined = {"P(max), R; P(min), R; R, P(max); R, P(min): infinities meet"};
  table.must_add(add);
  const MutantReport report = judge_mutants(*table.ops()[0]);
  CHECK(report.refuted >= 20);
  for (const MutantSurvivor& survivor : report.survivors) {
    CAPTURE(survivor.change, survivor.rule, survivor.reason);
    CHECK(false);
  }
  // `aff A+B` beside `lin A+B` says nothing new.
  CHECK(report.equivalent > 0);
}

TEST_CASE("a mutant that no sample can tell apart survives with its reason",
          "[strategies][verify][mutants]") {
  OpTable table;
  OpDef add = testing::op_def("add", "*, * -> * | lin A+B", 2,
                              testing::binary_kernel(kernels::Binary::kAdd));
  add.samples = {{.shapes = {{3, 3}, {3, 3}}}};  // too small to be searched
  table.must_add(add);
  const MutantReport report = judge_mutants(*table.ops()[0]);
  const auto dropped = std::find_if(
      report.survivors.begin(), report.survivors.end(),
      [](const MutantSurvivor& survivor) { return survivor.change == "lin A+B dropped"; });
  REQUIRE(dropped != report.survivors.end());
  CHECK(dropped->reason.find("which no sample that is searched has") != std::string::npos);
}

}  // namespace
}  // namespace tessera
