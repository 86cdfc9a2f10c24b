#include "moe/train/stages.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

StatusOr<std::int64_t> stages_per_rank(const ParallelConfig& parallel) {
  const bool interleaves = parallel.pp_schedule == PipelineOrder::kInterleaved1F1B;
  if (interleaves && parallel.pp < 2) {
    return invalid_argument(absl::StrFormat(
        "parallel: pp_schedule interleaved_1f1b needs pp of at least 2, not %d", parallel.pp));
  }
  if (parallel.pp_stages_per_rank == 0) return interleaves ? 2 : 1;
  if (interleaves == (parallel.pp_stages_per_rank > 1)) return parallel.pp_stages_per_rank;
  return invalid_argument(absl::StrFormat(
      "parallel: pp_stages_per_rank is %d; pp_schedule %s", parallel.pp_stages_per_rank,
      interleaves ? "interleaved_1f1b needs at least 2" : "1f1b has one stage a rank"));
}

/// Forward passes of a step through all stages, which its schedule lists.
constexpr std::int64_t kMostPasses = 1 << 22;

/// Rows of micro-batches and layers of stages alike: piece i of n of `count`, early ones larger.
struct Piece {
  std::int64_t begin, end;
};
Piece piece_of(std::int64_t count, std::int64_t pieces, std::int64_t i) {
  const auto begin = [&](std::int64_t at) {
    return count / pieces * at + std::min(at, count % pieces);
  };
  return {begin(i), begin(i + 1)};
}

/// Pieces of each of the config's micro-batches.
StatusOr<std::int64_t> pieces_of(const ModelConfig& config, const ParallelConfig& parallel) {
  const std::int64_t asked = parallel.pp_microbatches;
  if (asked > config.batch) {
    return invalid_argument(
        absl::StrFormat("parallel: pp_microbatches is %d; a micro-batch has %d sequences, so at "
                        "most that many pieces",
                        asked, config.batch));
  }
  const std::int64_t data_ranks = parallel.dp_replicate * parallel.dp_shard;
  const std::int64_t most = asked > 0 ? asked
                            : parallel.pp == 1
                                ? 1
                                : std::max<std::int64_t>(1, config.batch / data_ranks);
  if (asked > 0 || parallel.pp_schedule == PipelineOrder::k1F1B) return most;
  // Rounds of just pp micro-batches hold the least, where such a number is to be had.
  for (std::int64_t pieces = most; pieces >= 1; --pieces) {
    if (config.accum * pieces % parallel.pp == 0) return pieces;
  }
  return most;
}

std::string listed(const std::vector<std::int64_t>& values) {
  std::string text;
  for (const std::int64_t value : values) {
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  }
  return "[" + text + "]";
}

/// The number of layers of each stage.
StatusOr<std::vector<std::int64_t>> layers_of_stages(const ModelConfig& config,
                                                     const ParallelConfig& parallel,
                                                     const PipelineShape& shape) {
  const std::int64_t stages = shape.num_stages();
  if (stages > config.n_layers) {
    return invalid_argument(
        absl::StrFormat("parallel: pp %d x %d stages a rank are %d stages, but the model has %d "
                        "layers; a stage has at least one",
                        shape.ranks, shape.stages_per_rank, stages, config.n_layers));
  }
  if (parallel.pp_layers.empty()) {
    std::vector<std::int64_t> layers;
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      const Piece piece = piece_of(config.n_layers, stages, stage);
      layers.push_back(piece.end - piece.begin);
    }
    return layers;
  }
  const std::string seen = "parallel: pp_layers is " + listed(parallel.pp_layers);
  if (static_cast<std::int64_t>(parallel.pp_layers.size()) != stages) {
    return invalid_argument(absl::StrFormat(
        "%s, %d numbers; pp %d x %d stages a rank are %d stages, each of which needs one", seen,
        parallel.pp_layers.size(), shape.ranks, shape.stages_per_rank, stages));
  }
  std::int64_t sum = 0;
  for (const std::int64_t layers : parallel.pp_layers) {
    if (layers < 1) return invalid_argument(seen + "; a stage has at least one layer");
    // No sum can overflow: what is more than the model has is refused at once.
    sum = layers > config.n_layers - sum ? config.n_layers + 1 : sum + layers;
    if (sum > config.n_layers) break;
  }
  if (sum == config.n_layers) return parallel.pp_layers;
  return invalid_argument(absl::StrFormat("%s, which adds up to %s the model's %d layers", seen,
                                          sum > config.n_layers ? "more than" : "less than",
                                          config.n_layers));
}

}  // namespace

StatusOr<PipelinePlan> plan_pipeline(const ModelConfig& config, const ParallelConfig& parallel) {
  TSR_ASSIGN_OR_RETURN(const std::int64_t per_rank, stages_per_rank(parallel));
  TSR_ASSIGN_OR_RETURN(const std::int64_t pieces, pieces_of(config, parallel));
  PipelinePlan plan;
  plan.shape = {
      .ranks = parallel.pp, .stages_per_rank = per_rank, .micro_batches = config.accum * pieces};
  TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> layers,
                       layers_of_stages(config, parallel, plan.shape));
  if (plan.shape.micro_batches > kMostPasses / plan.shape.num_stages()) {
    return invalid_argument(absl::StrFormat(
        "parallel: %d micro-batches a step (accum %d, %d pieces each) in %d stages; at most %d "
        "passes are scheduled",
        plan.shape.micro_batches, config.accum, pieces, plan.shape.num_stages(), kMostPasses));
  }
  std::int64_t first = 0;
  for (std::int64_t stage = 0; stage < plan.shape.num_stages(); ++stage) {
    const std::int64_t end = first + layers[static_cast<std::size_t>(stage)];
    plan.parts.push_back({.stage = stage,
                          .first_layer = first,
                          .end_layer = end,
                          .has_embedding = stage == 0,
                          .has_head = stage + 1 == plan.shape.num_stages()});
    first = end;
  }
  for (std::int64_t accum = 0; accum < config.accum; ++accum) {
    for (std::int64_t i = 0; i < pieces; ++i) {
      const Piece rows = piece_of(config.batch, pieces, i);
      plan.micro_batches.push_back(
          {.accum = accum, .first_row = rows.begin, .rows = rows.end - rows.begin});
    }
  }
  return plan;
}

}  // namespace tessera
