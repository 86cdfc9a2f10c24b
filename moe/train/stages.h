// moe/train/stages.h: the model cut into pipeline stages, and a step's tokens into micro-batches.
#pragma once

#include <cstdint>
#include <vector>

#include "moe/train/config.h"
#include "parallel/pipeline_schedule.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// The layers of one stage. The first stage holds the embedding, the last one norm and head.
struct ModelPart {
  std::int64_t stage = 0;
  std::int64_t first_layer = 0;
  std::int64_t end_layer = 0;  ///< one past the last
  bool has_embedding = true;
  bool has_head = true;
  bool operator==(const ModelPart&) const = default;
};

/// Rows [first, first + rows) of micro-batch `accum` of the config.
struct MicroBatch {
  std::int64_t accum = 0;
  std::int64_t first_row = 0;
  std::int64_t rows = 0;
  bool operator==(const MicroBatch&) const = default;
};

/// How a model and its steps are spread over pp.
struct PipelinePlan {
  PipelineShape shape;
  std::vector<ModelPart> parts;           ///< by stage; layers as pp_layers says, else as even as
                                          ///< can be, early ones more
  std::vector<MicroBatch> micro_batches;  ///< of a step, rows as even as can be
};
/// Errors: InvalidArgument naming key and sizes: more stages than layers, several stages a rank
/// without an order that interleaves them (and the other way round), pp_layers that are not one
/// number of at least 1 a stage or do not add up to the layers, more pieces than a micro-batch has
/// sequences.
StatusOr<PipelinePlan> plan_pipeline(const ModelConfig& config, const ParallelConfig& parallel);

}  // namespace tessera
