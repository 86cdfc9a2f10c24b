// Training with all arrays and kernels on the emulated device, against another system's recorded
// run.
#include <cmath>
#include <string>
#include <vector>

#include "emulation/control.h"
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

}  // namespace

TEST_CASE("a World's own arrays of the host stay there", "[moe][device]") {
  const std::unique_ptr<World> world = make_single_world({.allocator = memory_of_rank});
  CHECK(&world->host_allocator()->device() == &cpu_device());
}

TEST_CASE("one rank on a device repeats another system's losses", "[moe][parity][device]") {
  const std::string model = GENERATE("softmax", "grouped");
  CAPTURE(model);
  check_recorded(
      model,
      train({.model = model, .dtype = DType::kF32, .num_steps = 2, .allocator = memory_of_rank}));
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
                               .allocator = memory_of_rank}));
}

TEST_CASE("losses under every dispatcher on devices are those of the host",
          "[moe][device][dispatch]") {
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
      ParallelConfig{.tp = 2, .ep = 2, .dispatch = {.dispatcher = "all_gather", .chunks = 2}},
      ParallelConfig{
          .dp_shard = 2, .ep = 2, .dispatch = {.dispatcher = "all_gather", .rows_bound = 4096}},
      ParallelConfig{.dp_shard = 2,
                     .tp = 2,
                     .ep = 4,
                     .dispatch = {.dispatcher = "hierarchical", .ranks_per_node = 2}},
      ParallelConfig{.dp_shard = 2, .tp = 2, .ep = 2, .etp = 2, .dispatch = {.dispatcher = "peer"}},
      ParallelConfig{.dp_shard = 2,
                     .tp = 2,
                     .ep = 4,
                     .dispatch = {.dispatcher = "peer", .ranks_per_node = 2, .rows_bound = 4096}});
  CAPTURE(parallel.dispatch.dispatcher, parallel.dispatch.rows_bound);
  const RunResult device = run(parallel, memory_of_rank);
  for (std::size_t step = 0; step < 2; ++step) {
    CAPTURE(step);
    CHECK(std::abs(device.steps.at(step).loss - host.steps.at(step).loss) < 2e-6);
    CHECK(std::abs(device.steps[step].grad_norm - host.steps[step].grad_norm) < 2e-6);
    CHECK(device.steps[step].tokens_per_expert == host.steps[step].tokens_per_expert);
  }
}

namespace {

/// Losses, norms, counts and every element: bit for bit.
void check_equal(const RunResult& captured, const RunResult& each) {
  REQUIRE(captured.steps.size() == each.steps.size());
  for (std::size_t step = 0; step < each.steps.size(); ++step) {
    CAPTURE(step);
    CHECK(captured.steps[step].loss == each.steps[step].loss);
    CHECK(captured.steps[step].grad_norm == each.steps[step].grad_norm);
    CHECK(captured.steps[step].lr == each.steps[step].lr);
    CHECK(captured.steps[step].tokens_per_expert == each.steps[step].tokens_per_expert);
  }
  CHECK(captured.elements.size() == each.elements.size());
  for (const auto& [name, elements] : each.elements) {
    CAPTURE(name);
    CHECK(captured.elements.at(name).values == elements.values);
  }
}

RunOptions on_devices(const ParallelConfig& parallel, StepMode mode) {
  return {.model = "grouped",
          .parallel = parallel,
          .num_ranks = static_cast<int>(parallel.dp_shard * parallel.tp * parallel.pp),
          .dtype = DType::kF32,
          .num_steps = 2,
          .change_config = shrink,
          .mode = mode,
          .allocator = memory_of_rank};
}

}  // namespace

TEST_CASE("a captured step, done again with new data, trains bit for bit like one of calls",
          "[moe][device][capture]") {
  const ParallelConfig parallel = GENERATE(
      ParallelConfig{},
      ParallelConfig{.dp_shard = 2, .tp = 2, .ep = 2, .dispatch = {.rows_bound = 4096}},
      ParallelConfig{
          .dp_shard = 2, .ep = 2, .dispatch = {.dispatcher = "all_gather", .rows_bound = 4096}},
      ParallelConfig{
          .dp_shard = 2,
          .tp = 2,
          .ep = 4,
          .dispatch = {.dispatcher = "hierarchical", .ranks_per_node = 2, .rows_bound = 4096}},
      ParallelConfig{
          .dp_shard = 2, .ep = 2, .dispatch = {.dispatcher = "peer", .rows_bound = 4096}},
      ParallelConfig{.dp_shard = 2, .ep = 2},  // padded to capacity
      ParallelConfig{.dp_shard = 2, .ep = 2, .pp = 2, .dispatch = {.rows_bound = 4096}});
  CAPTURE(parallel.dp_shard, parallel.ep, parallel.pp, parallel.dispatch.rows_bound);
  const bool pads = parallel.dispatch.rows_bound == 0 && parallel.ep > 1;
  const auto run = [&](StepMode mode) {
    RunOptions options = on_devices(parallel, mode);
    options.num_steps = 4;
    options.change_config = [pads](ModelConfig& config) { shrink_to_capture(config, pads); };
    return train(options);
  };
  check_equal(run(StepMode::kCaptured), run(StepMode::kEach));
}

TEST_CASE("a step without memory names bytes and op, and leaves the state whole",
          "[moe][device][errors]") {
  if (device_kind() != DeviceId::Kind::kEmulated) return;  // whose memory has a limit to set
  RunOptions options = on_devices({}, StepMode::kEach);
  const RunResult whole = train(options);
  static std::vector<std::string> errors;
  errors.clear();
  options.num_steps = 0;
  options.inspect = [](Model&, Trainer& trainer) {
    const auto loss_of = [&](std::int64_t step) -> double {
      for (std::size_t bytes = 1 << 10;; bytes += bytes / 8) {
        emulation::set_device_memory(bytes);
        try {
          return trainer.step(step).loss;
        } catch (const Error& failed) {
          errors.emplace_back(failed.what());
        }
      }
    };
    std::vector<double> losses = {loss_of(0), loss_of(1)};
    emulation::set_device_memory(std::size_t{16} << 30);
    losses.push_back(static_cast<double>(trainer.optimizer().num_steps()));
    return losses;
  };
  CHECK(train(options).inspected ==
        std::vector<double>{whole.steps[0].loss, whole.steps[1].loss, 2});
  CHECK(errors.size() > 5);
  int name_ops = 0;
  for (const std::string& error : errors) {
    CAPTURE(error);
    CHECK(error.find("emulated:0: no memory for a buffer of ") != std::string::npos);
    CHECK(error.find(" are free") != std::string::npos);
    name_ops += error.find(": emulated:0: no memory") != std::string::npos;
  }
  CHECK(name_ops > 3);
}

TEST_CASE("a captured step that reads on the host, or draws noise, is refused by name",
          "[moe][device][capture][errors][C37]") {
  RunOptions options = on_devices({.dp_shard = 2, .ep = 2}, StepMode::kCaptured);
  const std::string device = to_string(DeviceId{.kind = device_kind(), .ordinal = 0});
  CHECK_THROWS_WITH(train(options),
                    Catch::Contains("host read moe.dispatch.counts of counts_E in layers.1.moe."
                                    "routed_experts: " +
                                    device.substr(0, device.find(':') + 1)) &&
                        Catch::Contains("its work is captured"));
  options.allocator = nullptr;
  CHECK_THROWS_WITH(train(options), Catch::Contains("cpu:0: its work is done at once"));
  options.change_config = [](ModelConfig& config) {
    shrink(config);
    config.routing.input_jitter = 0.1;
  };
  CHECK_THROWS_WITH(train(options), Catch::Contains("capture: input_jitter is 0.1"));
}

}  // namespace tessera::testing
