// Compositions that people write by hand, found by the solver from parameters that are free: code
// of one rank is captured with its backward pass, laid on a mesh, and solved. They are run in
// tests/execute/.
#include <algorithm>
#include <catch2/catch.hpp>

#include "program/unfold.h"
#include "tests/support/builtin_ops.h"
#include "tests/support/compositions.h"

namespace tessera::testing {
namespace {

const Topology& node8() {
  static const Topology topology = value_or_throw(topology_preset("node8"));
  return topology;
}

PropagatedProgram solve(const Composition& of, const std::vector<std::string>& pins,
                        const PropagateOptions& options) {
  PropagatedProgram solved = solved_with(of.free(), pins, builtin_ops(), options);
  CHECK(value_or_throw(price_of(solved.program, builtin_ops(), options)) ==
        Approx(solved.cost).epsilon(1e-9));
  return solved;
}

/// As cheap as the composition that is pinned by hand, within rounding of sums.
PropagatedProgram check_found(const Composition& of) {
  CAPTURE(of.name);
  const PropagateOptions options = of.options(node8());
  const PropagatedProgram found = solve(of, of.pins, options);
  for (const auto& [name, placements] : of.found) {
    CAPTURE(name);
    CHECK(placements_of(found.program, name) == placements);
  }
  if (of.memory_cap) CHECK(found.peak_bytes <= *of.memory_cap);
  std::vector<std::string> written = of.by_hand;
  written.insert(written.end(), of.pins.begin(), of.pins.end());
  CHECK(found.cost <= solve(of, written, options).cost * (1 + 1e-9));
  return found;
}

TEST_CASE("a column-cut and a row-cut matrix around an activation", "[capture][solver]") {
  check_found(two_products());
}

TEST_CASE("heads over ranks: projections by columns, the output by rows", "[capture][solver]") {
  check_found(attention_by_heads());
}

/// Where what an op makes lies, of the first such op.
std::string made_by(const PropagatedProgram& solved, const std::string& op) {
  const Program flat = value_or_throw(unfold(solved.program));
  for (const AnyStep& step : flat.steps) {
    const auto* call = std::get_if<CallStep>(&step.what);
    if (call != nullptr && call->op == op) return placements_of(flat, call->out[0].name);
  }
  return "none";
}

TEST_CASE("norms between cut products run on a share of the sequence", "[capture][solver]") {
  const PropagatedProgram found = check_found(sequence_parallel());
  CHECK(made_by(found, "rms_norm") == "(S(1))");
  CHECK(made_by(found, "add") == "(S(1))");
}

TEST_CASE("the vocabulary is cut in the embedding and in the loss", "[capture][solver]") {
  check_found(vocabulary_parallel());
}

TEST_CASE("parameters are cut over the data axis where memory forces it", "[capture][solver]") {
  const Composition trained = trained_layers();
  PropagateOptions uncapped = trained.options(node8());
  uncapped.memory_cap.reset();
  const PropagatedProgram free = solve(trained, trained.pins, uncapped);
  for (const char* each : {"w1", "w2", "w1.m", "w2.v"}) {
    CHECK(placements_of(free.program, each) == "(R)");
  }
  CHECK(free.peak_bytes > 9 << 20);
  const PropagatedProgram found = check_found(trained);
  int cut = 0;
  for (const char* each : {"w1", "w2", "w1.m", "w1.v", "w2.m", "w2.v"}) {
    cut += placements_of(found.program, each) != "(R)";
  }
  CHECK(cut >= 3);
  PropagateOptions impossible;
  impossible.memory_cap = 1 << 20;
  const auto refused = propagate_program(trained.free(), builtin_ops(), impossible);
  REQUIRE(refused.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(message_of(refused.status())).find("1.0 MiB") != std::string::npos);
}

TEST_CASE("experts lie on the data axis where tokens are fewer than weights", "[capture][solver]") {
  check_found(experts_on_data_axis());
}

}  // namespace
}  // namespace tessera::testing
