// Training with all arrays and kernels on the emulated device, against another system's recorded
// run.
#include <cmath>

#include "tests/moe/training_run.h"
#include "tests/support/test_device.h"

namespace tessera::testing {
namespace {

double number_at(const Json& object, std::string_view key) {
  return *object.find(key)->if_number();
}

/// The recorded losses and gradient norms of a parity model, within what F32 allows.
void check_recorded(const std::string& model, const RunResult& run) {
  const Json expected = expected_results(model);
  const Json::Array& steps = *expected.find("steps")->if_array();
  REQUIRE(!run.steps.empty());
  for (std::size_t step = 0; step < run.steps.size(); ++step) {
    CAPTURE(step);
    CHECK(std::abs(run.steps[step].loss - number_at(steps[step], "loss")) < 2e-6);
    CHECK(std::abs(run.steps[step].grad_norm - number_at(steps[step], "grad_norm")) < 2e-6);
  }
}

/// Two ranks share a card.
std::shared_ptr<Allocator> memory_of_device(std::int64_t rank) {
  return device_of_card(rank / 2)->make_allocator();
}

}  // namespace

TEST_CASE("a World's own arrays of the host stay there", "[moe][device]") {
  const std::unique_ptr<World> world = make_single_world({.allocator = memory_of_device});
  CHECK(&world->host_allocator()->device() == &cpu_device());
}

TEST_CASE("one rank on a device repeats another system's losses", "[moe][parity][device]") {
  const std::string model = GENERATE("softmax", "grouped");
  CAPTURE(model);
  check_recorded(
      model,
      train({.model = model, .dtype = DType::kF32, .num_steps = 2, .allocator = memory_of_device}));
}

TEST_CASE("ranks on devices repeat another system's losses", "[moe][parity][device]") {
  const std::string model = GENERATE("softmax", "grouped");
  CAPTURE(model);
  const ParallelConfig parallel =
      model == "softmax" ? ParallelConfig{.dp_shard = 2, .cp = 2, .tp = 2, .ep = 4}
                         : ParallelConfig{.dp_replicate = 2, .dp_shard = 2, .tp = 2, .ep = 2};
  check_recorded(model, train({.model = model,
                               .parallel = parallel,
                               .num_ranks = 8,
                               .dtype = DType::kF32,
                               .num_steps = 2,
                               .allocator = memory_of_device}));
}

TEST_CASE("losses under every dispatcher on devices are those of the host",
          "[moe][device][dispatch]") {
  using enum DispatcherKind;
  const auto run = [](const ParallelConfig& parallel, auto allocator) {
    return train({.model = "grouped",
                  .parallel = parallel,
                  .num_ranks = static_cast<int>(parallel.dp_shard * parallel.tp),
                  .dtype = DType::kF32,
                  .num_steps = 2,
                  .change_config = shrink,
                  .allocator = allocator});
  };
  static const RunResult host = run({}, nullptr);
  const ParallelConfig parallel = GENERATE(
      ParallelConfig{
          .dp_shard = 2, .tp = 2, .ep = 2, .etp = 2, .dispatch = {.expert_alignment = 16}},
      ParallelConfig{.dp_shard = 2, .ep = 2, .dispatch = {.rows_bound = 4096}},
      ParallelConfig{.tp = 2, .ep = 2, .dispatch = {.kind = kAllGather, .chunks = 2}},
      ParallelConfig{.dp_shard = 2, .ep = 2, .dispatch = {.kind = kAllGather, .rows_bound = 4096}},
      ParallelConfig{.dp_shard = 2,
                     .tp = 2,
                     .ep = 4,
                     .dispatch = {.kind = kHierarchical, .ranks_per_node = 2}});
  CAPTURE(static_cast<int>(parallel.dispatch.kind), parallel.dispatch.rows_bound);
  const RunResult device = run(parallel, memory_of_device);
  for (std::size_t step = 0; step < 2; ++step) {
    CAPTURE(step);
    CHECK(std::abs(device.steps.at(step).loss - host.steps.at(step).loss) < 2e-6);
    CHECK(std::abs(device.steps[step].grad_norm - host.steps[step].grad_norm) < 2e-6);
    CHECK(device.steps[step].tokens_per_expert == host.steps[step].tokens_per_expert);
  }
}

}  // namespace tessera::testing
