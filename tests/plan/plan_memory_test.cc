// What a placed step holds on a rank that is simulated, beside what its program says. No ranks are
// launched (testing/launch.h): every process of mpirun would do the same.
#include <catch2/catch.hpp>
#include <limits>

#include "kernels/memory_use.h"
#include "kernels/shapes_device.h"
#include "program/memory.h"
#include "runtime/sim/sim_world.h"
#include "tests/execute/composition_runs.h"
#include "tests/plan/placed_step.h"

namespace tessera::testing {
namespace {

/// What a simulated rank holds at most in one run of a program, on shapes alone.
std::int64_t peak_bytes(const Program& program) {
  SimOptions options;
  options.value_bytes = std::numeric_limits<std::int64_t>::max();
  options.device = &shapes_device();
  const auto world = value_or_throw(make_sim_world(0, program.ranks, options));
  Runtime runtime(*world);
  const auto run = value_or_throw(ProgramRun::make(runtime, program));
  ProgramTensors given;
  for (const WantedValue& wanted : run->wanted()) {
    given[wanted.name] = empty(runtime, wanted.spec);
  }
  run->run(std::move(given));
  return memory_use_of(*world->allocator()).peak_bytes;
}

}  // namespace

TEST_CASE("a plan holds no more than its program says", "[moe][plan]") {
  const std::string model = GENERATE("softmax", "grouped");
  const Shape mesh = GENERATE(Shape{4}, Shape{2, 2});
  CAPTURE(model, to_string(mesh));
  const OpenStep open = value_or_throw(open_step(job_of(model).config, DType::kF64));
  const Program plan = by_hand(open.program, mesh_of(mesh));
  const std::vector<StageMemory> said = value_or_throw(memory_of(plan, builtin_ops()));
  REQUIRE(said.size() == 1);
  const std::int64_t held = peak_bytes(plan);
  CHECK(held <= said[0].peak_bytes);
  CHECK(held > said[0].peak_bytes / 2);
}

}  // namespace tessera::testing
