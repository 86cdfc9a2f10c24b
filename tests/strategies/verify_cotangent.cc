// How far an infinite or NaN element of a cotangent may reach: what the prover refutes, what it
// lets pass, and what an op may state.
#include "kernels/elementwise.h"
#include "strategies/verify/verify.h"

namespace tessera {
namespace {

/// The built-in ops and max(x, 0) with a gradient of the test's own.
OpTable with_rectifier(Gradient gradient, std::string spreads = "") {
  OpTable table;
  add_builtin_ops(table);
  table.must_add({.name = "rectifier",
                  .doc = "An op of the tests.",
                  .args = {in("x")},
                  .rule = "* -> * | mono A",
                  .kernel =
                      [](KernelCall& call) {
                        kernels::unary(call.ctx, kernels::Unary::kRelu, call.inputs[0],
                                       call.outputs[0]);
                      },
                  .gradient = std::move(gradient),
                  .saved_inputs = {0},
                  .cotangent_spreads = std::move(spreads),
                  .samples = {{.shapes = {{8, 6}}}, {.shapes = {{5, 3}}}}});
  return table;
}

Var is_positive(GradContext& c) { return c.call("gt_scalar", {c.input(0)}, {{"value", 0.0}}); }
std::vector<Var> by_slope(GradContext& c) {
  const Var slope = c.call("to", {is_positive(c)}, {{"dtype", DType::kF64}});
  return {c.call("mul", {c.cotangent(0), slope})};
}
std::vector<Var> by_choice(GradContext& c) {
  return {c.call("where_scalar", {is_positive(c), c.cotangent(0)}, {{"other", 0.0}})};
}

std::vector<VerifyFailure> failures_of(const OpTable& table, std::string_view op) {
  return verify(table, *value_or_throw(table.find(op)),
                {.meshes = {{2}}, .completeness = VerifyOptions::Completeness::kSkip})
      .failures;
}

}  // namespace

TEST_CASE("a gradient that multiplies by a slope of 0 is refuted, one that chooses is not",
          "[strategies][verify][gradient]") {
  const auto found = failures_of(with_rectifier(by_slope), "rectifier");
  REQUIRE(!found.empty());
  for (const VerifyFailure& failure : found) {
    CHECK(failure.row == "cotangent");
    CHECK_THAT(failure.detail, Catch::Contains("nan where that of result 0 is inf at element") &&
                                   Catch::Contains("on which it does not depend"));
  }
  CHECK(failures_of(with_rectifier(by_choice), "rectifier").empty());
}

TEST_CASE("an op may state that a cotangent spreads, where it is true",
          "[strategies][verify][gradient]") {
  const std::string reason = "to what is not positive: the test says so";
  CHECK(failures_of(with_rectifier(by_slope, reason), "rectifier").empty());
  const auto found = failures_of(with_rectifier(by_choice, reason), "rectifier");
  REQUIRE(found.size() == 1);
  CHECK(found[0].detail == "it is said to spread, but does so on no sample");
}

TEST_CASE("a gradient that is wrong is told once", "[strategies][verify][gradient]") {
  const auto found =
      failures_of(with_rectifier([](GradContext& c) -> std::vector<Var> {
                    return {c.call("mul_scalar", {by_slope(c)[0]}, {{"value", 2.0}})};
                  }),
                  "rectifier");
  for (const VerifyFailure& failure : found) CHECK(failure.row == "gradient");
  CHECK(!found.empty());
}

TEST_CASE("a slope that is 0 at one point may multiply", "[strategies][verify][gradient]") {
  OpTable table;
  add_builtin_ops(table);
  // 2x and sin are 0 at the zeros among tied values, and 0·∞ is NaN there.
  for (const char* op : {"square", "cos", "mul"}) {
    INFO(op);
    CHECK(failures_of(table, op).empty());
  }
}

}  // namespace tessera
