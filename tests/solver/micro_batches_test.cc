// Micro-batches whose steps stand between one another's, as a pipeline's schedule orders them.
#include <catch2/catch.hpp>

#include "program/solver/propagate_program.h"
#include "program/unfold.h"
#include "tests/solver/small_program.h"

namespace tessera {
namespace {

using testing::SmallProgram;

enum class Written : std::uint8_t { kWithMicroBatches, kWithout };

/// Two cut products with their gradients, one micro-batch forward while another goes backward, and
/// gradients that are added up.
Program schedule(int count, Written written) {
  SmallProgram made({2, 4}, {"dp", "tp"});
  made.value("w1", {64, 256}, ValueRole::kParameter);
  made.value("w2", {256, 64}, ValueRole::kParameter);
  const auto name = [](const std::string& base, int m) { return base + std::to_string(m); };
  const auto begin = [&](int m, StepPhase phase) {
    made.phase = phase;
    if (written == Written::kWithMicroBatches) made.micro_batch = m;
  };
  const auto forward = [&](int m) {
    begin(m, StepPhase::kForward);
    made.call("matmul", {name("x", m), "w1"}, name("h", m));
    made.call("relu", {name("h", m)}, name("r", m));
    made.call("matmul", {name("r", m), "w2"}, name("y", m));
  };
  const auto backward = [&](int m) {
    begin(m, StepPhase::kBackward);
    made.call("transpose", {name("r", m)}, name("rt", m), {{"dim0", 0}, {"dim1", 1}});
    made.call("matmul", {name("rt", m), name("y", m)}, name("dw", m));
    if (m > 0) made.call("add", {name(m > 1 ? "sum" : "dw", m - 1), name("dw", m)}, name("sum", m));
  };
  for (int m = 0; m < count; ++m) made.value(name("x", m), {128, 64});
  forward(0);
  for (int m = 1; m < count; ++m) {
    forward(m);
    backward(m - 1);
  }
  backward(count - 1);
  return made.program();
}

TEST_CASE("micro-batches are decided once", "[solver]") {
  const Topology node = value_or_throw(topology_preset("node8"));
  const PropagateOptions options{.topology = &node, .rate = {.tflops = 0.01, .gb_per_s = 5.0}};
  const auto solve = [&](int count, Written written) {
    return value_or_throw(
        propagate_program(schedule(count, written), testing::builtin_ops(), options));
  };
  const PropagatedProgram two = solve(2, Written::kWithMicroBatches);
  const PropagatedProgram three = solve(3, Written::kWithMicroBatches);
  const PropagatedProgram eight = solve(8, Written::kWithMicroBatches);
  const PropagatedProgram apart = solve(8, Written::kWithout);
  CHECK(two.is_exact);
  CHECK(eight.is_exact);
  // Of the first micro-batch nothing is added yet, and of the second to what is no sum.
  CHECK(three.num_variables <= two.num_variables + 2);
  CHECK(eight.num_variables == three.num_variables);
  CHECK(apart.num_variables > 2 * eight.num_variables);
  CHECK(eight.cost == Approx(apart.cost));
  CHECK(value_or_throw(price_of(eight.program, testing::builtin_ops(), options)) ==
        Approx(eight.cost).epsilon(1e-9));
  // All lie alike.
  std::map<std::string, std::string> of_first;
  const Program flat = value_or_throw(unfold(eight.program));
  for (const AnyStep& step : flat.steps) {
    const auto* call = std::get_if<CallStep>(&step.what);
    if (call == nullptr || call->op == "add") continue;
    const std::string made = call->out[0].name.substr(0, call->out[0].name.size() - 1);
    const std::string placed = value_or_throw(spec_of(flat, call->out[0])).to_string();
    CAPTURE(call->out[0].name);
    CHECK(of_first.try_emplace(made, placed).first->second == placed);
  }
  CHECK(of_first.size() == 5);
}

}  // namespace
}  // namespace tessera
