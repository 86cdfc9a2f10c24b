#include "moe/capacity.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera {
namespace {

/// What an expert ranks its assignments by: the larger stays.
DTensor rank_values(const ModelContext& context, const Routing& routing) {
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

std::int64_t expert_capacity(const ModelConfig& config, std::int64_t num_tokens) {
  const double even = static_cast<double>(num_tokens * config.router_top_k) /
                      static_cast<double>(config.num_experts);
  return static_cast<std::int64_t>(std::ceil(even * *config.routing.capacity_factor));
}

DTensor map_within_capacity(const ModelContext& context, const Routing& routing) {
  const NoGrad no_grad(context.runtime);
  const ModelConfig& c = context.config;
  const std::int64_t batch = routing.map_BLE.size(0), seq = routing.map_BLE.size(1);
  const bool by_sequence = c.routing.capacity_scope == CapacityScope::kSequence;
  const std::int64_t room = expert_capacity(c, by_sequence ? seq : batch * seq);

  DTensor value_BLE = lowest_like(routing.scores_BLE.detach());
  value_BLE = scatter(value_BLE, -1, routing.ids_BLK, rank_values(context, routing));
  const DTensor absent_BLE = call(context.runtime, "logical_not", {{routing.map_BLE}})[0];
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
  const DTensor both[] = {routing.map_BLE, redistribute(within_BLE, context.routed_tokens())};
  return call(context.runtime, "logical_and", both)[0];
}

}  // namespace tessera
