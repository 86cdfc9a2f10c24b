#include "moe/stages.h"

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
  if (parallel.pp_schedule == PipelineOrder::k1F1B) return most;
  for (std::int64_t pieces = most; pieces >= (asked > 0 ? asked : 1); --pieces) {
    if (config.accum * pieces % parallel.pp == 0) return pieces;
  }
  return invalid_argument(absl::StrFormat(
      "parallel: interleaved_1f1b runs micro-batches in rounds of pp %d, but accum %d x "
      "pp_microbatches %s %d is no multiple of it",
      parallel.pp, config.accum, asked > 0 ? "of" : "of at most", most));
}

}  // namespace

StatusOr<PipelinePlan> plan_pipeline(const ModelConfig& config, const ParallelConfig& parallel) {
  TSR_ASSIGN_OR_RETURN(const std::int64_t per_rank, stages_per_rank(parallel));
  TSR_ASSIGN_OR_RETURN(const std::int64_t pieces, pieces_of(config, parallel));
  PipelinePlan plan;
  plan.shape = {
      .ranks = parallel.pp, .stages_per_rank = per_rank, .micro_batches = config.accum * pieces};
  const std::int64_t stages = plan.shape.num_stages();
  if (stages > config.n_layers) {
    return invalid_argument(
        absl::StrFormat("parallel: pp %d x %d stages a rank are %d stages, but the model has %d "
                        "layers; a stage has at least one",
                        parallel.pp, per_rank, stages, config.n_layers));
  }
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const Piece layers = piece_of(config.n_layers, stages, stage);
    plan.parts.push_back({.stage = stage,
                          .first_layer = layers.begin,
                          .end_layer = layers.end,
                          .has_embedding = stage == 0,
                          .has_head = stage + 1 == stages});
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
