#include "moe/routing_config.h"

#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "moe/read_choice.h"

namespace tessera {
namespace {

Status read_flag(const JsonView& object, std::string_view key, bool& field) {
  const std::optional<JsonView> at = object.find(key);
  if (!at) return absl::OkStatus();
  TSR_ASSIGN_OR_RETURN(field, at->boolean());
  return absl::OkStatus();
}

Status read_coefficient(const JsonView& object, std::string_view key, double& field) {
  const std::optional<JsonView> at = object.find(key);
  if (!at) return absl::OkStatus();
  TSR_ASSIGN_OR_RETURN(field, at->number());
  if (std::isfinite(field) && field >= 0.0) return absl::OkStatus();
  return at->error(absl::StrFormat("is %g; 0 (off) or more is allowed", field));
}

Status read_jitter(const JsonView& object, double& field) {
  const std::optional<JsonView> at = object.find("input_jitter");
  if (!at) return absl::OkStatus();
  TSR_ASSIGN_OR_RETURN(field, at->number());
  if (field >= 0.0 && field < 1.0) return absl::OkStatus();
  return at->error(absl::StrFormat("is %g; noise in 1 ± jitter needs a jitter in [0, 1)", field));
}

Status read_capacity_factor(const JsonView& object, std::optional<double>& field) {
  const std::optional<JsonView> at = object.find("capacity_factor");
  if (!at || at->kind() == Json::Kind::kNull) return absl::OkStatus();
  TSR_ASSIGN_OR_RETURN(field, at->number());
  if (std::isfinite(*field) && *field > 0.0) return absl::OkStatus();
  return at->error(absl::StrFormat(
      "is %g; a number above 0 is allowed (1 is room for an even load), or null for no limit",
      *field));
}

}  // namespace

Status read_routing_config(const JsonView& object, RoutingConfig& config) {
  TSR_RETURN_IF_ERROR(read_flag(object, "bias_centred", config.bias_centred));
  TSR_RETURN_IF_ERROR(read_coefficient(object, "seq_aux_coeff", config.seq_aux_coeff));
  TSR_RETURN_IF_ERROR(read_coefficient(object, "batch_aux_coeff", config.batch_aux_coeff));
  TSR_RETURN_IF_ERROR(read_coefficient(object, "global_aux_coeff", config.global_aux_coeff));
  TSR_RETURN_IF_ERROR(read_coefficient(object, "z_loss_coeff", config.z_loss_coeff));
  TSR_RETURN_IF_ERROR(read_flag(object, "force_balance", config.force_balance));
  TSR_RETURN_IF_ERROR(read_jitter(object, config.input_jitter));
  TSR_RETURN_IF_ERROR(read_flag(object, "shared_expert_gate", config.shared_expert_gate));
  TSR_RETURN_IF_ERROR(read_capacity_factor(object, config.capacity_factor));
  TSR_RETURN_IF_ERROR(read_flag(object, "pad_to_capacity", config.pad_to_capacity));
  TSR_RETURN_IF_ERROR(read_choice(
      object, "capacity_scope",
      {{"microbatch", CapacityScope::kMicrobatch}, {"sequence", CapacityScope::kSequence}},
      config.capacity_scope));
  return read_choice(
      object, "drop_policy",
      {{"probability", DropPolicy::kProbability}, {"position", DropPolicy::kPosition}},
      config.drop_policy);
}

}  // namespace tessera
