// What FSDP keeps on a rank, by the allocator's own account.
#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/memory_use.h"
#include "parallel/fsdp.h"
#include "testing/results.h"
#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

constexpr int kRanks = 4;

/// Wide layers and few tokens, so that parameters count. Two micro-batches: gradients of the first
/// are there while the second runs.
ModelConfig wide_config(std::int64_t rows) {
  ModelConfig config = value_or_throw(
      parse_model_config(expected_results("softmax").find("config")->to_string(), "softmax"));
  config.dim = 96;
  config.n_layers = 4;
  config.moe_hidden_dim = 64;
  config.dense_hidden_dim = 320;
  config.batch = rows;
  config.accum = 2;
  config.seq = 32;
  config.steps = 3;
  return config;
}

/// Elements of a tensor's dim 0 in chunks of the ceiling over 4 ranks.
std::int64_t shard_elements(const Shape& shape, std::int64_t rank) {
  const std::int64_t chunk = (shape[0] + kRanks - 1) / kRanks;
  const std::int64_t rows = std::clamp<std::int64_t>(shape[0] - rank * chunk, 0, chunk);
  return num_elements(shape) / shape[0] * rows;
}

struct Memory {
  std::vector<double> used, peak, at_peak;  ///< by MemoryTag
  double shard = 0;                         ///< bytes of this rank's parameters, by hand
  std::vector<double> units;                ///< whole bytes of each unit, in order
  double of(const std::vector<double>& list, MemoryTag tag) const {
    return list[static_cast<std::size_t>(tag)];
  }
  double total_peak() const {
    double sum = 0;
    for (const double each : at_peak) sum += each;
    return sum;
  }
  double largest(std::size_t together) const {
    double most = 0;
    for (std::size_t i = 0; i + together <= units.size(); ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < together; ++j) sum += units[i + j];
      most = std::max(most, sum);
    }
    return most;
  }
};

Memory train_and_measure(World& world, const ParallelConfig& parallel, std::int64_t rows) {
  Runtime runtime(world);
  const MeshViews views = value_or_throw(MeshViews::make(parallel, world.size()));
  const ModelConfig config = wide_config(rows);
  const std::vector<std::string> files = {test_file("../../LICENSE")};
  const TokenData data = value_or_throw(TokenData::read(files, config));
  Model model(runtime, views, config, DType::kF32);
  model.parameters().initialize(7);
  Trainer trainer(model, data);
  for (std::int64_t step = 0; step < 2; ++step) trainer.step(step);
  const TaggedMemory memory = tagged_memory_of(*world.allocator());
  Memory out;
  out.used.assign(memory.used.begin(), memory.used.end());
  out.peak.assign(memory.peak.begin(), memory.peak.end());
  out.at_peak.assign(memory.at_peak.begin(), memory.at_peak.end());
  for (const auto& unit : model.parameters().units()) {
    double whole = 0;
    for (const Parameter* each : unit->parameters()) {
      const Shape& shape = each->stored().global_shape();
      whole += 4.0 * static_cast<double>(num_elements(shape));
      out.shard += 4.0 * static_cast<double>(shard_elements(shape, world.rank()));
    }
    out.units.push_back(whole);
  }
  return out;
}

/// Messages of ranks as threads need no buffers of their own.
std::vector<Memory> measure(int num_ranks, const ParallelConfig& parallel, std::int64_t rows) {
  std::vector<Memory> all(static_cast<std::size_t>(num_ranks));
  throw_if_error(run_ranks(num_ranks, {.threads_per_rank = 1}, [&](World& world) {
    all[static_cast<std::size_t>(world.rank())] = train_and_measure(world, parallel, rows);
  }));
  return all;
}

}  // namespace

TEST_CASE("peak memory under FSDP is shards, one gathered unit and activations",
          "[moe][fsdp][memory][C53]") {
  const Prefetch prefetch = GENERATE(Prefetch::kOff, Prefetch::kNext);
  const std::vector<Memory> ranks = measure(
      kRanks,
      {.dp_shard = kRanks, .fsdp = {.reshard = ReshardAfterForward::kAlways, .prefetch = prefetch}},
      kRanks);
  const Memory one = measure(1, {}, 1)[0];
  for (const Memory& rank : ranks) {
    CHECK(rank.of(rank.used, MemoryTag::kParameters) == rank.shard);
    CHECK(rank.of(rank.used, MemoryTag::kGradients) == rank.shard);
    CHECK(rank.of(rank.used, MemoryTag::kOptimizerState) == 2 * rank.shard);
    CHECK(rank.of(rank.used, MemoryTag::kGathered) == 0);
    const double gathered = rank.largest(prefetch == Prefetch::kOff ? 1 : 2);
    CHECK(rank.of(rank.peak, MemoryTag::kGathered) == gathered);
    // One rank with as many rows, which gathers nothing, says what activations take.
    const double activations = one.of(one.peak, MemoryTag::kActivations);
    const double expected = 4 * rank.shard + gathered + activations;
    CHECK(std::abs(rank.total_peak() - expected) < 0.02 * expected);
  }
  CHECK(one.of(one.peak, MemoryTag::kGathered) == 0);
}

}  // namespace tessera::testing
