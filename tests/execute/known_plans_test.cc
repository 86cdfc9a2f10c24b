// The plans of tests/capture/solved_plans_test.cc in smaller sizes, run on eight ranks.
#include "tests/execute/composition_runs.h"

namespace tessera::testing {
namespace {

TEST_CASE("known plans are found and run on eight ranks", "[execute][solver]") {
  const auto make = GENERATE(two_products, attention_by_heads, sequence_parallel,
                             vocabulary_parallel, experts_on_data_axis);
  const Composition of = make({.dtype = DType::kF64, .divisor = 4});
  const Composition full = make({});
  CAPTURE(of.name);
  const Topology node = value_or_throw(topology_preset("node8"));
  const PropagatedProgram found = solved_with(of.free(), of.pins, builtin_ops(), of.options(node));
  CHECK(plan_of(found.program) ==
        plan_of(solved_with(full.free(), full.pins, builtin_ops(), full.options(node)).program));
  check_run(of, found);
}

}  // namespace
}  // namespace tessera::testing
