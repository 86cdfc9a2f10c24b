// moe/routing_report.h: what routing did in one optimizer step beyond the counts of tokens.
#pragma once

#include <cstdint>
#include <optional>

#include "moe/model.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Global sums over the step's micro-batches and all MoE layers; absent where the model's
/// config leaves the option out.
struct RoutingReport {
  std::optional<double> aux_loss;  ///< of sequences, micro-batches and the step together
  std::optional<double> z_loss;
  std::optional<std::int64_t> dropped;  ///< assignments for which their expert had no room
};
/// Starts the losses again; to be called before Model::balance_experts(), which starts the counts
/// again. Collective: yes, all-reduces of scalars where an option is on, over the mesh
/// and over pp.
RoutingReport take_routing_report(Model& model);

}  // namespace tessera
