// moe/layer/routing_config.h: how tokens choose experts beyond the plain top-k: losses that even
// the load, capacity, noise, and what balances the experts' bias.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "placement/api.h"

namespace tessera TSR_API {

/// Which of an expert's assignments stay where it has no room for all.
enum class DropPolicy : std::uint8_t {
  kProbability,  ///< those of the largest weights; of equal ones the earlier tokens
  kPosition      ///< those of the earliest tokens
};
/// The tokens among which an expert's room is shared out.
enum class CapacityScope : std::uint8_t {
  kMicrobatch,  ///< all tokens of the global micro-batch
  kSequence     ///< each sequence by itself, so that accumulation changes nothing
};

/// Coefficients of 0 leave a loss out. Source: Megatron-LM's and torchtitan's routers.
struct RoutingConfig {
  bool bias_centred = true;          ///< the bias update's mean is taken off (torchtitan)
  double seq_aux_coeff = 0.0;        ///< load of each sequence
  double batch_aux_coeff = 0.0;      ///< … of each global micro-batch
  double global_aux_coeff = 0.0;     ///< … of the optimizer step so far
  double z_loss_coeff = 0.0;         ///< squared log-sum-exp of the logits
  bool force_balance = false;        ///< debug: token t's slot k goes to expert (t·K + k) mod E
  std::vector<double> forced_loads;  ///< debug: of each expert, see ForcedRouting; empty: free
  double input_jitter = 0.0;         ///< the gate's input times uniform noise in 1 ± jitter
  bool shared_expert_gate = false;   ///< shared experts' output times sigmoid(x·w)
  std::optional<double> capacity_factor;  ///< room of ceil(tokens·K/E · factor) per expert
  bool pad_to_capacity = false;           ///< every expert's rows are filled up to its room
  CapacityScope capacity_scope = CapacityScope::kMicrobatch;
  DropPolicy drop_policy = DropPolicy::kProbability;

  bool is_forced() const { return force_balance || !forced_loads.empty(); }
  bool uses_aux_loss() const {
    return seq_aux_coeff > 0.0 || batch_aux_coeff > 0.0 || global_aux_coeff > 0.0;
  }
};

}  // namespace tessera
