#include "moe/train/config_forms.h"

#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

StatusOr<std::array<double, 2>> read_betas(const JsonView& at) {
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> items, at.items());
  if (items.size() != 2) return at.error("must be a list of two numbers");
  std::array<double, 2> betas = {};
  for (std::size_t i = 0; i < 2; ++i) {
    TSR_ASSIGN_OR_RETURN(betas[i], items[i].number());
    if (betas[i] < 0 || betas[i] >= 1) return at.error("must lie in [0, 1)");
  }
  return betas;
}

/// The key `key` of a group; where it is absent `field` stays.
Status read_number(const JsonView& object, std::string_view key, double& field) {
  const std::optional<JsonView> at = object.find(key);
  if (!at) return absl::OkStatus();
  return NumberForm{.high = std::numeric_limits<double>::max()}.read(*at, field);
}

StatusOr<ParamGroup> read_group(const JsonView& at) {
  TSR_RETURN_IF_ERROR(at.check_keys({"pattern"}, {"lr_scale", "weight_decay", "betas"}));
  ParamGroup group;
  TSR_ASSIGN_OR_RETURN(const JsonView pattern, at.at("pattern"));
  TSR_ASSIGN_OR_RETURN(group.pattern, pattern.text());
  TSR_RETURN_IF_ERROR(read_number(at, "lr_scale", group.lr_scale));
  if (at.find("weight_decay")) {
    group.weight_decay = 0.0;
    TSR_RETURN_IF_ERROR(read_number(at, "weight_decay", *group.weight_decay));
  }
  if (const std::optional<JsonView> betas = at.find("betas")) {
    TSR_ASSIGN_OR_RETURN(group.betas, read_betas(*betas));
  }
  return group;
}

Json group_json(const ParamGroup& group) {
  Json json = Json::object({{"pattern", group.pattern}, {"lr_scale", group.lr_scale}});
  if (group.weight_decay) json.set("weight_decay", *group.weight_decay);
  if (group.betas) json.set("betas", Json::array({(*group.betas)[0], (*group.betas)[1]}));
  return json;
}

}  // namespace

Status IntegerForm::read(const JsonView& at, std::int64_t& field) const {
  TSR_ASSIGN_OR_RETURN(field, at.integer_in(low, high));
  return absl::OkStatus();
}

Status OptionalIntegerForm::read(const JsonView& at, std::optional<std::int64_t>& field) const {
  if (at.kind() == Json::Kind::kNull) return absl::OkStatus();
  TSR_ASSIGN_OR_RETURN(field, at.integer_in(1, high));
  return absl::OkStatus();
}

Status NumberForm::read(const JsonView& at, double& field) const {
  TSR_ASSIGN_OR_RETURN(field, at.number());
  if (field >= low && (!high || field <= *high)) return absl::OkStatus();
  return at.error(high ? absl::StrFormat("is %g; allowed is %g to %g", field, low, *high)
                       : absl::StrFormat("is %g; at least %g is allowed", field, low));
}

Status OptionalNumberForm::read(const JsonView& at, std::optional<double>& field) const {
  if (at.kind() == Json::Kind::kNull) return absl::OkStatus();
  TSR_ASSIGN_OR_RETURN(field, at.number());
  return absl::OkStatus();
}

Status FlagForm::read(const JsonView& at, bool& field) const {
  TSR_ASSIGN_OR_RETURN(field, at.boolean());
  return absl::OkStatus();
}

Status CoefficientForm::read(const JsonView& at, double& field) const {
  TSR_ASSIGN_OR_RETURN(field, at.number());
  if (std::isfinite(field) && field >= 0.0) return absl::OkStatus();
  return at.error(absl::StrFormat("is %g; 0 (off) or more is allowed", field));
}

Status JitterForm::read(const JsonView& at, double& field) const {
  TSR_ASSIGN_OR_RETURN(field, at.number());
  if (field >= 0.0 && field < 1.0) return absl::OkStatus();
  return at.error(absl::StrFormat("is %g; noise in 1 ± jitter needs a jitter in [0, 1)", field));
}

Status CapacityForm::read(const JsonView& at, std::optional<double>& field) const {
  TSR_RETURN_IF_ERROR(OptionalNumberForm::read(at, field));
  if (!field || (std::isfinite(*field) && *field > 0.0)) return absl::OkStatus();
  return at.error(absl::StrFormat(
      "is %g; a number above 0 is allowed (1 is room for an even load), or null for no limit",
      *field));
}

Status LoadsForm::read(const JsonView& at, std::vector<double>& field) const {
  if (at.kind() == Json::Kind::kNull) return absl::OkStatus();
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> items, at.items());
  if (items.empty()) return at.error("is empty; a load for each expert is needed, or null");
  for (const JsonView& item : items) {
    TSR_ASSIGN_OR_RETURN(field.emplace_back(), item.number());
  }
  return absl::OkStatus();
}
Json LoadsForm::write(const std::vector<double>& field) const {
  return field.empty() ? Json() : Json(Json::Array(field.begin(), field.end()));
}

Status NormTypeForm::read(const JsonView& at, double& field) const {
  if (at.kind() == Json::Kind::kString) {
    return read_choice(at, {{"inf", std::numeric_limits<double>::infinity()}}, field);
  }
  TSR_ASSIGN_OR_RETURN(field, at.number());
  if (field > 0.0) return absl::OkStatus();
  return at.error(absl::StrFormat("is %g; a number above 0 or \"inf\" is allowed", field));
}
Json NormTypeForm::write(double field) const {
  return std::isinf(field) ? Json("inf") : Json(field);
}

Status StateDtypeForm::read(const JsonView& at, std::optional<DType>& field) const {
  DType dtype = DType::kF32;
  TSR_RETURN_IF_ERROR(
      read_choice(at, {{"BF16", DType::kBF16}, {"F32", DType::kF32}, {"F64", DType::kF64}}, dtype));
  field = dtype;
  return absl::OkStatus();
}
Json StateDtypeForm::write(const std::optional<DType>& field) const {
  return field ? Json(name_of(*field)) : Json();
}

Status PadIdForm::read(const JsonView& at, ModelConfig& config) const {
  if (at.kind() == Json::Kind::kNull) return absl::OkStatus();
  TSR_ASSIGN_OR_RETURN(config.pad_id, at.integer_in(0, config.vocab - 1));
  return absl::OkStatus();
}

Status BetasForm::read(const JsonView& at, ModelConfig& config) const {
  TSR_ASSIGN_OR_RETURN(const auto betas, read_betas(at));
  config.beta1 = betas[0];
  config.beta2 = betas[1];
  return absl::OkStatus();
}
Json BetasForm::write(const ModelConfig& config) const {
  return Json::array({config.beta1, config.beta2});
}

Status NesterovForm::read(const JsonView& at, ModelConfig& config) const {
  TSR_ASSIGN_OR_RETURN(const bool nesterov, at.boolean());
  config.momentum_form = nesterov ? Momentum::kNesterov : Momentum::kPlain;
  if (nesterov && config.momentum == 0.0) return at.error("is true, but momentum is 0");
  return absl::OkStatus();
}
Json NesterovForm::write(const ModelConfig& config) const {
  return {config.momentum_form == Momentum::kNesterov};
}

Status ParamGroupsForm::read(const JsonView& at, std::vector<ParamGroup>& field) const {
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> items, at.items());
  for (const JsonView& item : items) {
    TSR_ASSIGN_OR_RETURN(ParamGroup group, read_group(item));
    field.push_back(std::move(group));
  }
  return absl::OkStatus();
}
Json ParamGroupsForm::write(const std::vector<ParamGroup>& field) const {
  Json::Array groups;
  for (const ParamGroup& group : field) groups.push_back(group_json(group));
  return {std::move(groups)};
}

}  // namespace tessera
