#include "moe/layer/capacity.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

/// What an expert ranks its assignments by: the larger stays.
DTensor rank_values(const LayerContext& context, const Routing& routing) {
  if (context.config.routing.drop_policy == DropPolicy::kProbability) {
    return routing.weights_BLK.detach();
  }
  const DTensor number_BL1 = unsqueeze(token_numbers(context, routing.weights_BLK.size(0)), -1);
  return expand(neg(cast(number_BL1, routing.weights_BLK.dtype())),
                routing.weights_BLK.global_shape());
}

constexpr double kLowest = -std::numeric_limits<double>::infinity();

DTensor lowest_like(const DTensor& x) {
  DTensor out = zeros_like(x);
  return fill_(out, kLowest);
}

DTensor false_like(const DTensor& x) { return cast(zeros_like(x), DType::kBool); }

}  // namespace

std::int64_t expert_capacity(const MoeConfig& config, std::int64_t num_tokens) {
  const double even = static_cast<double>(num_tokens * config.router_top_k) /
                      static_cast<double>(config.num_experts);
  return static_cast<std::int64_t>(std::ceil(even * *config.routing.capacity_factor));
}

ExpertRoom expert_room(const MoeConfig& config, const DTensor& x_BLD, const ExpertGroup& group) {
  const std::int64_t batch = x_BLD.size(0), seq = x_BLD.size(1);
  const bool by_sequence = config.routing.capacity_scope == CapacityScope::kSequence;
  const std::int64_t room = expert_capacity(config, by_sequence ? seq : batch * seq);
  const auto limit = [&](std::int64_t tokens, std::int64_t sequences) {
    return std::min(tokens, by_sequence ? room * sequences : room);
  };
  const Spec& spec = x_BLD.spec();
  const AxisGroup all = group.all();
  const Mesh ranks = value_or_throw(all.mesh.sub_mesh(all.axes, x_BLD.runtime().rank()));
  std::set<std::int64_t> sequences;  // that the group has tokens of
  std::int64_t tokens = 0;
  ExpertRoom out;
  for (const std::int64_t rank : ranks.ranks()) {
    const Coord coord = *spec.mesh().coord_of(rank);
    const Shape local = spec.local_shape(coord);
    tokens += local[0] * local[1];
    out.of_sender = std::max(out.of_sender, limit(local[0] * local[1], local[0]));
    for (const Interval& rows : local_intervals(spec.mesh(), batch, spec.layout().dims[0], coord)) {
      for (std::int64_t row = rows.start; row < rows.stop; ++row) sequences.insert(row);
    }
  }
  out.of_group = limit(tokens, static_cast<std::int64_t>(sequences.size()));
  return out;
}

Status check_padding_to_capacity(const RoutingConfig& routing, const DispatchConfig& dispatch) {
  if (!routing.pad_to_capacity) return absl::OkStatus();
  if (dispatch.rows_bound == 0) return absl::OkStatus();
  return invalid_argument(absl::StrFormat(
      "pad_to_capacity fixes the size of every buffer, so rows_bound %d has nothing to bound; "
      "leave one of them out",
      dispatch.rows_bound));
}

DTensor map_within_capacity(const LayerContext& context, const Routing& routing) {
  const NoGrad no_grad(context.runtime);
  const MoeConfig& c = context.config;
  const std::int64_t batch = routing.map_BLE.size(0), seq = routing.map_BLE.size(1);
  const bool by_sequence = c.routing.capacity_scope == CapacityScope::kSequence;
  const std::int64_t room = expert_capacity(c, by_sequence ? seq : batch * seq);

  DTensor value_BLE = lowest_like(routing.scores_BLE.detach());
  value_BLE = scatter(value_BLE, -1, routing.ids_BLK, rank_values(context, routing));
  const DTensor absent_BLE = logical_not(routing.map_BLE);
  value_BLE = masked_fill(value_BLE, absent_BLE, kLowest);  // padding chooses nothing
  const auto [best_BCE, place_BCE] = topk(value_BLE, std::min(room, seq), 1);
  DTensor within_BLE = false_like(value_BLE);
  if (by_sequence) {
    scatter_(within_BLE, 1, place_BCE, 1.0);
  } else {
    // The best of all sequences are among the best of each.
    const DTensor best_NE = flatten(best_BCE, 0, 1);
    const DTensor place_ME = topk(best_NE, std::min(room, best_NE.size(0)), 0).second;
    DTensor chosen_NE = false_like(best_NE);
    scatter_(chosen_NE, 0, place_ME, 1.0);
    scatter_(within_BLE, 1, place_BCE, unflatten(chosen_NE, 0, {batch, best_BCE.size(1)}));
  }
  return logical_and(routing.map_BLE, redistribute(within_BLE, context.routed_tokens()));
}

}  // namespace tessera
