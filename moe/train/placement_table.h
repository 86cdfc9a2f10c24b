// moe/train/placement_table.h: how every parameter of a model lies on its mesh, found without
// training: for any number of ranks, of which none is started.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/json.h"
#include "moe/train/config.h"
#include "placement/api.h"
#include "placement/spec.h"

namespace tessera TSR_API {

struct PlacedParameter {
  std::string name;
  std::int64_t stage = 0;  ///< of pp
  Spec stored;
  Spec used;  ///< as the forward pass needs it
};

/// Every parameter, stage by stage, in the order of their making. Errors: InvalidArgument for
/// degrees that do not fit the ranks, or sizes that do not fit the degrees. Cost: no more memory
/// than a few megabytes, whatever the model's size.
StatusOr<std::vector<PlacedParameter>> placed_parameters(const ModelConfig& config,
                                                         const ParallelConfig& parallel,
                                                         std::int64_t num_ranks, DType dtype);

/// A table: name, shape, mesh, placements (or layout), local shape of the stage's first rank.
std::string describe_placements(const std::vector<PlacedParameter>& parameters);
/// {"parameters":[{"name","stage","tensor","mesh","placements","used":{"placements"},"local_shape"},
/// …]}; "layout" for "placements" where there is no placement list.
Json placements_json(const std::vector<PlacedParameter>& parameters);

}  // namespace tessera
