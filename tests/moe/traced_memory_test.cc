// What a traced step tells of memory, and steps of the largest models, which no rank carries out.
// Nothing here is launched (testing/launch.h): ranks are threads whatever a program runs on, so
// that every process of mpirun would do the same.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_format.h"
#include "io/file.h"
#include "kernels/memory_use.h"
#include "moe/train/routing_scenario.h"
#include "moe/train/simulate.h"
#include "program/fold.h"
#include "program/memory.h"
#include "program/unfold.h"
#include "testing/results.h"
#include "tests/moe/compositions.h"
#include "tests/moe/trace_difference.h"
#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

/// What each rank's arrays took over two steps. Messages of ranks as threads need no buffers of
/// their own.
std::vector<TaggedMemory> executed_memory(const Composition& composition, const ModelConfig& config,
                                          const TokenData& data) {
  std::vector<TaggedMemory> all(static_cast<std::size_t>(composition.num_ranks()));
  throw_if_error(
      tessera::run_ranks(composition.num_ranks(), {.threads_per_rank = 1}, [&](World& world) {
        Runtime runtime(world);
        Model model(runtime, value_or_throw(MeshViews::make(composition.parallel, world.size())),
                    config, DType::kF32);
        model.parameters().initialize(0);
        Trainer trainer(model, data);
        for (std::int64_t step = 0; step < 2; ++step) trainer.step(step);
        all[static_cast<std::size_t>(world.rank())] = tagged_memory_of(*world.allocator());
      }));
  return all;
}

}  // namespace

TEST_CASE("a traced step tells of the memory that the second executed one takes",
          "[moe][simulate][memory]") {
  const std::size_t index = GENERATE_COPY(range(std::size_t{0}, compositions().size()));
  const Composition& each = compositions()[index];
  const Scenario scenario = GENERATE_COPY(Scenario::kBalanced, kUneven[index % 2]);
  CAPTURE(each.name, static_cast<int>(scenario));
  const ModelConfig config = config_of(each, scenario);
  const std::vector<std::string> files = {test_file("../../LICENSE")};
  const TokenData data = value_or_throw(TokenData::read(files, config));
  const std::vector<TaggedMemory> executed = executed_memory(each, config, data);
  OpTable ops;
  add_builtin_ops(ops);
  for (const int rank : {0, each.num_ranks() - 1}) {
    CAPTURE(rank);
    const SimulatedPlace place = {.rank = rank, .num_ranks = each.num_ranks()};
    const Program traced = value_or_throw(trace_step(config, each.parallel, place, data));
    const std::vector<StageMemory> classes = value_or_throw(memory_of(traced, ops));
    // Other ranks hold what is on meshes that they share with this one.
    const StageMemory& told = *std::ranges::max_element(classes, {}, &StageMemory::peak_bytes);
    const TaggedMemory& seen = executed[static_cast<std::size_t>(rank)];
    const std::pair<MemoryKind, MemoryTag> exact[] = {
        {MemoryKind::kParameter, MemoryTag::kParameters},
        {MemoryKind::kGradient, MemoryTag::kGradients},
        {MemoryKind::kOptimizer, MemoryTag::kOptimizerState}};
    for (const auto& [kind, tag] : exact) {
      const std::int64_t bytes = told.timeline.back().by_kind[static_cast<std::size_t>(kind)];
      // The first rank of a mesh has the longest parts.
      if (rank == 0) {
        CHECK(bytes == seen.used_of(tag));
      } else {
        CHECK(bytes >= seen.used_of(tag));
      }
    }
    const auto peak = static_cast<double>(seen.total_peak());
    constexpr double kTolerance = 0.02;
    if (rank == 0) {
      CHECK(static_cast<double>(told.peak_bytes) == Approx(peak).epsilon(kTolerance));
    } else {
      CHECK(static_cast<double>(told.peak_bytes) > (1 - kTolerance) * peak);
    }
  }
}

TEST_CASE("DeepSeek-V3 671B takes a simulated step of one rank of thousands", "[moe][simulate]") {
  const std::string path = test_file("../../configs/deepseek_v3_671b.json");
  const ModelConfig config =
      value_or_throw(parse_model_config(value_or_throw(read_file(path, 1 << 20)), path));
  // A batch of text, of which only the length counts.
  const std::filesystem::path text = std::filesystem::temp_directory_path() /
                                     absl::StrFormat("tessera_simulate_%d.txt", ::getpid());
  std::ofstream(text) << std::string(static_cast<std::size_t>(config.batch * (config.seq + 1)),
                                     'a');
  const std::vector<std::string> files = {text.string()};
  const TokenData data = value_or_throw(TokenData::read(files, config));
  std::filesystem::remove(text);
  const auto step_of = [&](std::int64_t num_ranks) {
    const ParallelConfig parallel = {
        .dp_shard = num_ranks / 128, .tp = 8, .ep = 64, .pp = 16, .pp_microbatches = 16};
    return value_or_throw(simulate_step(
        config, parallel,
        {.rank = num_ranks / 2 + 5, .num_ranks = num_ranks, .dtype = DType::kBF16}, data));
  };
  const SimulatedStep small = step_of(2048), large = step_of(16384);
  // The same calls in larger groups. Parameters, gradients and moments are cut further, and each
  // rank of dp has fewer sequences.
  CHECK(small.events.size() == large.events.size());
  CHECK(small.peak_bytes > large.peak_bytes);
  CHECK(small.peak_bytes < std::int64_t{512} << 30);
  // Its program tells of the same, and its layers are one body.
  const Program traced = value_or_throw(
      trace_step(config, {.dp_shard = 16, .tp = 8, .ep = 64, .pp = 16, .pp_microbatches = 16},
                 {.rank = 1029, .num_ranks = 2048, .dtype = DType::kBF16}, data));
  CHECK(trace_difference(traced, small.events) == "");
  const Program folded = fold(traced);
  CHECK(2 * folded.steps.size() < traced.steps.size());
  CHECK(value_or_throw(unfold(folded)).steps.size() == traced.steps.size());
}

}  // namespace tessera::testing
