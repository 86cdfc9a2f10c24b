// Plans that the solver finds from parameters that are free (tests/capture/solved_plans_test.cc
// prices them), run: on four ranks, which processes are, too.
#include "tests/execute/composition_runs.h"

namespace tessera::testing {
namespace {

constexpr CompositionSize kSmall = {.dtype = DType::kF64, .divisor = 4, .ranks = 4};

TEST_CASE("compositions run on four ranks as they were solved", "[execute][solver]") {
  const auto make =
      GENERATE(two_products, attention_by_heads, sequence_parallel, experts_on_data_axis);
  const Composition of = make(kSmall);
  const Topology node = value_or_throw(topology_preset("node8"));
  const PropagatedProgram found = solved_with(of.free(), of.pins, builtin_ops(), of.options(node));
  for (const auto& [name, placements] : of.found) {
    CAPTURE(name);
    CHECK(placements_of(found.program, name) == placements);
  }
  check_run(of, found);
}

TEST_CASE("parameters that memory cuts are trained as on one rank, within the cap",
          "[execute][solver]") {
  const Composition of = trained_layers(kSmall);
  const Composition full = trained_layers();
  const Topology node = value_or_throw(topology_preset("node8"));
  const PropagatedProgram found = solved_with(of.free(), of.pins, builtin_ops(), of.options(node));
  CHECK(plan_of(found.program) ==
        plan_of(solved_with(full.free(), full.pins, builtin_ops(), full.options(node)).program));
  check_run(of, found);
  PropagateOptions uncapped = of.options(node);
  uncapped.memory_cap.reset();
  CHECK(solved_with(of.free(), of.pins, builtin_ops(), uncapped).peak_bytes > *of.memory_cap);
}

TEST_CASE("two moves before a product run in 60 times fewer bytes than one after it",
          "[execute][solver]") {
  const Composition of = product_then_relu({.dtype = DType::kF64, .ranks = 4});
  const auto bytes_of = [&](PropagateMode mode) {
    const PropagatedProgram found = solved_with(of.free(), of.pins, builtin_ops(), {.mode = mode});
    const std::optional<std::int64_t> bytes = check_run(of, found);
    if (bytes) CHECK(static_cast<double>(*bytes) == found.cost);
    return found.cost;
  };
  // Twice those of F32.
  CHECK(bytes_of(PropagateMode::kSolve) == 2 * 52224);
  CHECK(bytes_of(PropagateMode::kGreedy) == 2 * 3145728);
}

}  // namespace
}  // namespace tessera::testing
