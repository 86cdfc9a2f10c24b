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
