// moe/train/routing_report.h: what routing did in one optimizer step beyond the counts of tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "moe/train/model.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Global sums over the step's micro-batches and all MoE layers; absent where the model's
/// config leaves the option out.
struct RoutingReport {
  std::optional<double> aux_loss;  ///< of sequences, micro-batches and the step together
  std::optional<double> z_loss;
  std::optional<std::int64_t> dropped;  ///< assignments for which their expert had no room
};
/// Whether there is anything to report.
bool reports_routing(const RoutingConfig& config);
/// This stage's part of the sums, plain F64 (kRoutingSums), and starts them again; to be called
/// before Model::take_expert_counts(), which starts the counts again. Collective: yes, all-reduces
/// of scalars where an option is on, over the mesh.
DTensor take_routing_sums(Model& model);
inline constexpr std::int64_t kRoutingSums = 3;
/// Of sums over all stages.
RoutingReport routing_report(const RoutingConfig& config, std::span<const double> sums);

}  // namespace tessera
