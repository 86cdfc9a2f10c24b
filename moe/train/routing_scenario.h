// moe/train/routing_scenario.h: how tokens choose experts in a step that is told of before it runs:
// balanced, the worst for one rank, or by the loads that a run counted.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "moe/train/config.h"
#include "moe/train/simulate.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// With which rank `place.rank` receives as many rows as a rank can: every token chooses the first
/// K experts of its position along ep, and where it holds fewer those that follow, after the last
/// the first. Errors: those of MeshViews; InvalidArgument for a rank that is not in the world.
StatusOr<std::vector<double>> worst_loads(const ModelConfig& config, const ParallelConfig& parallel,
                                          const SimulatedPlace& place);

/// {"version":1,"experts":[…]}, or a line of tessera-train --log, whose layers are added up.
/// Errors: InvalidArgument with source and place, and those of check_loads().
StatusOr<std::vector<double>> parse_loads(std::string_view text, std::string_view source,
                                          const ModelConfig& config);

/// Lets `config` force the routing "balanced", "worst" for `place.rank`, or that of the loads in
/// the file of that name. Errors: those above; NotFound for a file that is not there.
Status force_routing(const std::string& scenario, const ParallelConfig& parallel,
                     const SimulatedPlace& place, ModelConfig& config);

}  // namespace tessera
