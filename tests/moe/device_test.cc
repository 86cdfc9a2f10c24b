// Training with all arrays and kernels on the emulated device, against another system's recorded
// run.
#include <cmath>

#include "kernels/cuda_device.h"
#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

double number_at(const Json& object, std::string_view key) {
  return *object.find(key)->if_number();
}

}  // namespace

TEST_CASE("ranks do not exchange arrays of a device yet, and say so", "[moe][device][errors]") {
  const std::shared_ptr<Device> device = value_or_throw(make_emulated_device(0));
  const std::unique_ptr<World> world =
      make_single_world({.allocator = [&](std::int64_t) { return device->make_allocator(); }});
  CHECK(&world->host_allocator()->device() == &cpu_device());
  const Array x = Array::zeros({2}, DType::kF32, world->allocator());
  CHECK_THROWS_WITH(everyone(*world).all_reduce(x, x, ReduceOp::kSum),
                    "all_reduce: in lies on emulated:0; ranks exchange arrays of the host so far");
}

TEST_CASE("one rank on a device repeats another system's losses", "[moe][parity][device]") {
  const std::string model = GENERATE("softmax", "grouped");
  CAPTURE(model);
  const Json expected = expected_results(model);
  const RunResult run =
      train({.model = model, .dtype = DType::kF32, .num_steps = 3, .allocator = [](std::int64_t) {
               return value_or_throw(make_emulated_device(0))->make_allocator();
             }});
  const Json::Array& steps = *expected.find("steps")->if_array();
  REQUIRE(run.steps.size() == 3);
  for (std::size_t step = 0; step < run.steps.size(); ++step) {
    CAPTURE(step);
    CHECK(std::abs(run.steps[step].loss - number_at(steps[step], "loss")) < 2e-6);
    CHECK(std::abs(run.steps[step].grad_norm - number_at(steps[step], "grad_norm")) < 2e-6);
  }
}

}  // namespace tessera::testing
