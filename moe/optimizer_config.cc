#include "moe/optimizer_config.h"

#include <limits>
#include <utility>

#include "absl/strings/str_format.h"
#include "moe/read_choice.h"

namespace tessera {
namespace {

Status read_number(const JsonView& object, std::string_view key, double low, double high,
                   double& field) {
  const std::optional<JsonView> at = object.find(key);
  if (!at) return absl::OkStatus();
  TSR_ASSIGN_OR_RETURN(field, at->number());
  if (field >= low && field <= high) return absl::OkStatus();
  return at->error(absl::StrFormat("is %g; allowed is %g to %g", field, low, high));
}

Status read_norm_type(const JsonView& at, double& field) {
  if (at.kind() == Json::Kind::kString) {
    return read_choice(at, {{"inf", std::numeric_limits<double>::infinity()}}, field);
  }
  TSR_ASSIGN_OR_RETURN(field, at.number());
  if (field > 0.0) return absl::OkStatus();
  return at.error(absl::StrFormat("is %g; a number above 0 or \"inf\" is allowed", field));
}

Status read_state_dtype(const JsonView& at, std::optional<DType>& field) {
  DType dtype = DType::kF32;
  TSR_RETURN_IF_ERROR(
      read_choice(at, {{"BF16", DType::kBF16}, {"F32", DType::kF32}, {"F64", DType::kF64}}, dtype));
  field = dtype;
  return absl::OkStatus();
}

StatusOr<ParamGroup> read_group(const JsonView& at) {
  TSR_RETURN_IF_ERROR(at.check_keys({"pattern"}, {"lr_scale", "weight_decay", "betas"}));
  ParamGroup group;
  TSR_ASSIGN_OR_RETURN(const JsonView pattern, at.at("pattern"));
  TSR_ASSIGN_OR_RETURN(group.pattern, pattern.text());
  constexpr double kAny = std::numeric_limits<double>::max();
  TSR_RETURN_IF_ERROR(read_number(at, "lr_scale", 0.0, kAny, group.lr_scale));
  if (at.find("weight_decay")) {
    group.weight_decay = 0.0;
    TSR_RETURN_IF_ERROR(read_number(at, "weight_decay", 0.0, kAny, *group.weight_decay));
  }
  if (const std::optional<JsonView> betas = at.find("betas")) {
    TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> items, betas->items());
    if (items.size() != 2) return betas->error("must be a list of two numbers");
    group.betas = {0.0, 0.0};
    for (std::size_t i = 0; i < 2; ++i) {
      TSR_ASSIGN_OR_RETURN((*group.betas)[i], items[i].number());
      if ((*group.betas)[i] < 0 || (*group.betas)[i] >= 1) {
        return betas->error("must lie in [0, 1)");
      }
    }
  }
  return group;
}

Status read_groups(const JsonView& at, std::vector<ParamGroup>& field) {
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> items, at.items());
  for (const JsonView& item : items) {
    TSR_ASSIGN_OR_RETURN(ParamGroup group, read_group(item));
    field.push_back(std::move(group));
  }
  return absl::OkStatus();
}

}  // namespace

Status read_optimizer_keys(const JsonView& object, ModelConfig& config) {
  TSR_RETURN_IF_ERROR(read_choice(object, "optimizer",
                                  {{"adamw", OptimizerKind::kAdamW},
                                   {"adam", OptimizerKind::kAdam},
                                   {"sgd", OptimizerKind::kSgd}},
                                  config.optimizer));
  TSR_RETURN_IF_ERROR(read_number(object, "momentum", 0.0, 1.0, config.momentum));
  if (const std::optional<JsonView> at = object.find("nesterov")) {
    TSR_ASSIGN_OR_RETURN(const bool nesterov, at->boolean());
    config.momentum_form = nesterov ? Momentum::kNesterov : Momentum::kPlain;
    if (nesterov && config.momentum == 0.0) return at->error("is true, but momentum is 0");
  }
  if (const std::optional<JsonView> at = object.find("state_dtype")) {
    TSR_RETURN_IF_ERROR(read_state_dtype(*at, config.state_dtype));
  }
  if (const std::optional<JsonView> at = object.find("param_groups")) {
    TSR_RETURN_IF_ERROR(read_groups(*at, config.param_groups));
  }
  if (const std::optional<JsonView> at = object.find("norm_type")) {
    TSR_RETURN_IF_ERROR(read_norm_type(*at, config.norm_type));
  }
  TSR_RETURN_IF_ERROR(read_choice(object, "decay",
                                  {{"linear", DecayShape::kLinear},
                                   {"sqrt", DecayShape::kSqrt},
                                   {"cosine", DecayShape::kCosine}},
                                  config.decay));
  return read_number(object, "min_lr_factor", 0.0, 1.0, config.min_lr_factor);
}

OptimizerConfig optimizer_config_of(const ModelConfig& config) {
  return {.kind = config.optimizer,
          .beta1 = config.beta1,
          .beta2 = config.beta2,
          .eps = config.eps,
          .weight_decay = config.weight_decay,
          .momentum = config.momentum,
          .momentum_form = config.momentum_form,
          .state_dtype = config.state_dtype,
          .groups = config.param_groups};
}

LearningRate learning_rate_of(const ModelConfig& config) {
  return {.base = config.lr,
          .steps = config.steps,
          .warmup = config.warmup,
          .decay_ratio = config.decay_ratio,
          .shape = config.decay,
          .min_factor = config.min_lr_factor};
}

}  // namespace tessera
