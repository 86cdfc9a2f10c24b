// Captured training steps over NCCL emulated, by threads or by processes: what the program is
// linked with. Judges: the same steps by calls, and those of ranks as threads that share marks.
#include <chrono>
#include <map>
#include <string>

#include "emulation/nccl.h"
#include "tests/moe/training_run.h"
#include "tests/support/patience.h"
#include "tests/support/test_device.h"

namespace tessera::testing {
namespace {

RunOptions steps_of(const ParallelConfig& parallel, StepMode mode) {
  const bool pads = parallel.dispatch.rows_bound == 0 && parallel.ep > 1;
  return {.model = "grouped",
          .parallel = parallel,
          .num_ranks = static_cast<int>(parallel.dp_shard * parallel.tp * parallel.pp),
          .dtype = DType::kF32,
          .num_steps = 4,
          .change_config = [pads](ModelConfig& config) { shrink_to_capture(config, pads); },
          .mode = mode};
}

/// Losses, norms, counts and every element: bit for bit.
void check_equal(const RunResult& captured, const RunResult& each) {
  REQUIRE(captured.steps.size() == each.steps.size());
  for (std::size_t step = 0; step < each.steps.size(); ++step) {
    CAPTURE(step);
    CHECK(captured.steps[step].loss == each.steps[step].loss);
    CHECK(captured.steps[step].grad_norm == each.steps[step].grad_norm);
    CHECK(captured.steps[step].tokens_per_expert == each.steps[step].tokens_per_expert);
  }
  CHECK(!each.elements.empty());
  CHECK(captured.elements.size() == each.elements.size());
  for (const auto& [name, elements] : each.elements) {
    CAPTURE(name);
    CHECK(captured.elements.at(name).values == elements.values);
  }
}

std::map<std::string, std::int64_t> host_reads_of(const StepReport& step) {
  std::map<std::string, std::int64_t> reads;
  for (const EventLog::Total& total : step.moved) {
    if (total.kind == tessera::Event::Kind::kHostRead) reads[total.name] += total.count;
  }
  return reads;
}

}  // namespace

TEST_CASE("a captured step over NCCL trains bit for bit like one of calls, there and on threads",
          "[nccl][moe][capture]") {
  const ParallelConfig parallel = GENERATE(
      ParallelConfig{.dp_shard = 2, .ep = 2, .dispatch = {.rows_bound = 4096}},
      ParallelConfig{.dp_shard = 2, .tp = 2, .ep = 2, .dispatch = {.rows_bound = 4096}},
      ParallelConfig{
          .dp_shard = 2, .ep = 2, .dispatch = {.dispatcher = "all_gather", .rows_bound = 4096}},
      ParallelConfig{
          .dp_shard = 2,
          .tp = 2,
          .ep = 4,
          .dispatch = {.dispatcher = "hierarchical", .ranks_per_node = 2, .rows_bound = 4096}},
      ParallelConfig{
          .dp_shard = 2, .tp = 2, .ep = 4, .dispatch = {.dispatcher = "peer", .rows_bound = 4096}},
      ParallelConfig{.dp_shard = 2, .ep = 2},  // padded to capacity
      ParallelConfig{.dp_shard = 2, .ep = 2, .pp = 2, .dispatch = {.rows_bound = 4096}});
  CAPTURE(parallel.dp_shard, parallel.ep, parallel.pp, parallel.dispatch.rows_bound);
  const RunResult captured = train(steps_of(parallel, StepMode::kCaptured));
  check_equal(captured, train(steps_of(parallel, StepMode::kEach)));
  RunOptions on_threads = steps_of(parallel, StepMode::kCaptured);
  on_threads.allocator = memory_of_rank;
  check_equal(captured, train_on_threads(on_threads));
  for (const StepReport& step : captured.steps) {
    CHECK(host_reads_of(step) == std::map<std::string, std::int64_t>{{"moe.step", 1}});
  }
}

TEST_CASE("a captured step over NCCL that reads sizes on the host is refused by name",
          "[nccl][moe][capture][errors]") {
  RunOptions options = steps_of({.dp_shard = 2, .ep = 2}, StepMode::kCaptured);
  options.change_config = shrink;
  CHECK_THROWS_WITH(train(options),
                    Catch::Contains("host read moe.dispatch.counts of counts_E in layers.1.moe."
                                    "routed_experts: emulated:") &&
                        Catch::Contains("its work is captured"));
}

TEST_CASE("a card that fails in a replayed step ends the step on all ranks, with its name",
          "[nccl][moe][capture][faults]") {
  RunOptions options = steps_of({.dp_shard = 2, .tp = 2, .ep = 2, .dispatch = {.rows_bound = 4096}},
                                StepMode::kCaptured);
  options.num_steps = 2;
  options.inspect = [](Model& model, Trainer& trainer) -> std::vector<double> {
    const auto rank = static_cast<int>(model.context().runtime.rank());
    if (rank == 2) emulation::plant_nccl_fault(rank, emulation::NcclFault::kFails, 7);
    try {
      return {trainer.step(2).loss};
    } catch (const Error& error) {
      if (absl::IsUnavailable(error.status())) throw;
      throw Error(internal_error(std::string("a rank says: ") + error.what()));
    }
  };
  const auto began = std::chrono::steady_clock::now();
  CHECK_THROWS_WITH(train(options),
                    Catch::Contains("rank 2: NCCL: remote process exited") &&
                        Catch::Contains("in launch 2 of captured work, which has "));
  CHECK(std::chrono::steady_clock::now() - began < kSlowdown * 2 * kSoon);
  emulation::nccl_heals();
}

}  // namespace tessera::testing
