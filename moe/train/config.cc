#include "moe/train/config.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "io/file.h"
#include "moe/layer/forced_routing.h"
#include "moe/train/config_forms.h"
#include "placement/checked_int.h"

namespace tessera {
namespace {

constexpr std::int64_t kMaxConfigBytes = 1 << 20;

/// A key of the config: what it is to a checkpoint, and whether every config has it.
enum class Presence : std::uint8_t { kRequired, kOptional };
struct Field {
  std::string_view key;
  ConfigRole role;
  Presence presence = Presence::kRequired;
};
constexpr Field model(std::string_view key) { return {key, ConfigRole::kModel}; }
constexpr Field recipe(std::string_view key) { return {key, ConfigRole::kRecipe}; }
constexpr Field optional(Field field) { return {field.key, field.role, Presence::kOptional}; }

// Every key, once: what reads a config, writes one or lists its keys visits them all, by
// visit(field, value, form). `Config` is ModelConfig, const or not.
template <class Config, class Visit>
void visit_sizes(Config& c, Visit& visit) {
  visit(model("dim"), c.dim, IntegerForm{1});
  visit(model("n_layers"), c.n_layers, IntegerForm{1, kMostLayers});
  visit(model("n_dense_layers"), c.n_dense_layers, IntegerForm{0, kMostLayers});
  visit(model("n_heads"), c.n_heads, IntegerForm{1, kMostParts});
  visit(model("q_lora_rank"), c.q_lora_rank, IntegerForm{0});
  visit(model("kv_lora_rank"), c.kv_lora_rank, IntegerForm{1});
  visit(model("qk_nope_head_dim"), c.qk_nope_head_dim, IntegerForm{1});
  visit(model("rope_dim"), c.rope_dim, IntegerForm{2});
  visit(model("v_head_dim"), c.v_head_dim, IntegerForm{1});
  visit(model("mscale"), c.mscale, NumberForm{0.0});
  visit(model("dense_hidden_dim"), c.dense_hidden_dim, IntegerForm{1});
  visit(model("moe_hidden_dim"), c.moe_hidden_dim, IntegerForm{1});
  visit(model("num_experts"), c.num_experts, IntegerForm{1, kMostParts});
  visit(model("num_shared_experts"), c.num_shared_experts, IntegerForm{0, kMostParts});
  visit(model("router_top_k"), c.router_top_k, IntegerForm{1, kMostParts});
  visit(model("score_func"), c.score_func,
        ChoiceForm<ScoreFunction>{{{"softmax", ScoreFunction::kSoftmax},
                                   {"sigmoid", ScoreFunction::kSigmoid},
                                   {"sqrtsoftplus", ScoreFunction::kSqrtSoftplus}}});
  visit(model("groups"), c.groups, OptionalIntegerForm{});
  visit(model("limited"), c.limited, OptionalIntegerForm{});
  visit(model("route_scale"), c.route_scale, NumberForm{0.0});
  visit(model("route_norm"), c.route_norm, FlagForm{});
  visit(model("vocab"), c.vocab, IntegerForm{1, kMostWords});
}

template <class Config, class Visit>
void visit_recipe(Config& c, Visit& visit) {
  visit(recipe("seq"), c.seq, IntegerForm{1});
  visit(recipe("batch"), c.batch, IntegerForm{1, kMostSequences});
  visit(recipe("accum"), c.accum, IntegerForm{1, kMostSequences});
  visit(recipe("steps"), c.steps, IntegerForm{1, kMostSteps});
  visit(recipe("lr"), c.lr, NumberForm{0.0});
  visit(recipe("warmup"), c.warmup, IntegerForm{0, kMostSteps});
  visit(recipe("max_norm"), c.max_norm, NumberForm{0.0});
  visit(recipe("bias_coeff"), c.bias_coeff, OptionalNumberForm{});
  visit(model("rope_theta"), c.rope_theta, NumberForm{1.0});
  visit(model("yarn_factor"), c.yarn_factor, NumberForm{1.0});
  visit(model("yarn_beta_fast"), c.yarn_beta_fast, NumberForm{0.0});
  visit(model("yarn_beta_slow"), c.yarn_beta_slow, NumberForm{0.0});
  visit(model("yarn_original_seq"), c.yarn_original_seq, NumberForm{1.0});
  visit(model("norm_eps"), c.norm_eps, NumberForm{0.0});
  visit(recipe("betas"), c, BetasForm{});
  visit(recipe("eps"), c.eps, NumberForm{0.0});
  visit(recipe("weight_decay"), c.weight_decay, NumberForm{0.0});
  visit(recipe("decay_ratio"), c.decay_ratio, NumberForm{0.0});
  visit(optional(recipe("pad_id")), c, PadIdForm{});
}

template <class Config, class Visit>
void visit_optimizer(Config& c, Visit& visit) {
  visit(Field{"optimizer", ConfigRole::kState, Presence::kOptional}, c.optimizer,
        ChoiceForm<OptimizerKind>{{{"adamw", OptimizerKind::kAdamW},
                                   {"adam", OptimizerKind::kAdam},
                                   {"sgd", OptimizerKind::kSgd},
                                   {"muon", OptimizerKind::kMuon}}});
  visit(optional(recipe("momentum")), c.momentum, NumberForm{0.0, 1.0});
  visit(optional(recipe("nesterov")), c, NesterovForm{});
  visit(optional(recipe("state_dtype")), c.state_dtype, StateDtypeForm{});
  visit(optional(recipe("param_groups")), c.param_groups, ParamGroupsForm{});
  visit(optional(recipe("norm_type")), c.norm_type, NormTypeForm{});
  visit(optional(recipe("decay")), c.decay,
        ChoiceForm<DecayShape>{{{"linear", DecayShape::kLinear},
                                {"sqrt", DecayShape::kSqrt},
                                {"cosine", DecayShape::kCosine}}});
  visit(optional(recipe("min_lr_factor")), c.min_lr_factor, NumberForm{0.0, 1.0});
}

template <class Routing, class Visit>
void visit_routing(Routing& r, Visit& visit) {
  visit(optional(recipe("bias_centred")), r.bias_centred, FlagForm{});
  visit(optional(recipe("seq_aux_coeff")), r.seq_aux_coeff, CoefficientForm{});
  visit(optional(recipe("batch_aux_coeff")), r.batch_aux_coeff, CoefficientForm{});
  visit(optional(recipe("global_aux_coeff")), r.global_aux_coeff, CoefficientForm{});
  visit(optional(recipe("z_loss_coeff")), r.z_loss_coeff, CoefficientForm{});
  visit(optional(recipe("force_balance")), r.force_balance, FlagForm{});
  visit(optional(recipe("forced_loads")), r.forced_loads, LoadsForm{});
  visit(optional(recipe("input_jitter")), r.input_jitter, JitterForm{});
  visit(optional(model("shared_expert_gate")), r.shared_expert_gate, FlagForm{});
  visit(optional(recipe("capacity_factor")), r.capacity_factor, CapacityForm{});
  visit(optional(recipe("pad_to_capacity")), r.pad_to_capacity, FlagForm{});
  visit(optional(recipe("capacity_scope")), r.capacity_scope,
        ChoiceForm<CapacityScope>{
            {{"microbatch", CapacityScope::kMicrobatch}, {"sequence", CapacityScope::kSequence}}});
  visit(optional(recipe("drop_policy")), r.drop_policy,
        ChoiceForm<DropPolicy>{
            {{"probability", DropPolicy::kProbability}, {"position", DropPolicy::kPosition}}});
}

template <class Config, class Visit>
void visit_all(Config& config, Visit& visit) {
  visit_sizes(config, visit);
  visit_recipe(config, visit);
  visit_optimizer(config, visit);
  visit_routing(config.routing, visit);
}

/// Every key of `object` is one, and none is missing that every config has.
Status check_keys(const JsonView& object) {
  const ModelConfig any;
  std::vector<std::string_view> required, others;
  const auto list = [&](const Field& field, const auto&, const auto&) {
    (field.presence == Presence::kRequired ? required : others).push_back(field.key);
  };
  visit_all(any, list);
  return object.check_keys(required, others);
}

Status check_routing(const JsonView& object, const ModelConfig& config) {
  if (config.routing.shared_expert_gate && config.num_shared_experts == 0) {
    return object.error("shared_expert_gate is set but num_shared_experts is 0");
  }
  if (config.routing.pad_to_capacity && !config.routing.capacity_factor) {
    return object.error(
        "pad_to_capacity is set but capacity_factor is null; it says how many rows an expert has");
  }
  if (config.routing.forced_loads.empty()) return absl::OkStatus();
  if (config.routing.force_balance) {
    return object.error("force_balance and forced_loads are set; only one of them can be");
  }
  const Status loads =
      check_loads(config.routing.forced_loads, config.num_experts, config.router_top_k);
  if (!loads.ok()) return object.at("forced_loads")->annotate(loads);
  return absl::OkStatus();
}

/// What one key alone does not show.
Status check_together(const JsonView& object, const ModelConfig& config) {
  if (const Status size = check_run_size(config); !size.ok()) {
    return object.error(std::string(message_of(size)));
  }
  if (config.n_dense_layers > config.n_layers) {
    return object.error(absl::StrFormat("n_dense_layers %d is more than n_layers %d",
                                        config.n_dense_layers, config.n_layers));
  }
  if (config.rope_dim % 2 != 0) {
    return object.error(absl::StrFormat("rope_dim %d is odd; RoPE rotates pairs", config.rope_dim));
  }
  if (config.router_top_k > config.num_experts) {
    return object.error(absl::StrFormat("router_top_k %d is more than num_experts %d",
                                        config.router_top_k, config.num_experts));
  }
  TSR_RETURN_IF_ERROR(check_routing(object, config));
  if (!config.groups) return absl::OkStatus();
  if (!config.limited) {
    return object.error("groups is set but limited is null; it says how many groups a token keeps");
  }
  const std::int64_t groups = *config.groups;
  if (config.num_experts % groups != 0 || config.num_experts / groups < 2) {
    return object.error(
        absl::StrFormat("groups %d must divide num_experts %d and leave at least 2 experts in each",
                        groups, config.num_experts));
  }
  if (*config.limited > groups) {
    return object.error(
        absl::StrFormat("limited %d is more than groups %d", *config.limited, groups));
  }
  if (config.router_top_k > *config.limited * (config.num_experts / groups)) {
    return object.error(absl::StrFormat(
        "router_top_k %d is more than the %d experts of the %d groups that a token keeps",
        config.router_top_k, *config.limited * (config.num_experts / groups), *config.limited));
  }
  return absl::OkStatus();
}

}  // namespace

Status check_run_size(const ModelConfig& c) {
  const CheckedInt tokens = CheckedInt(c.steps) * c.accum * c.batch * c.seq;
  if (tokens <= std::int64_t{1} << 62) return absl::OkStatus();
  return invalid_argument(absl::StrFormat(
      "%d steps of %d micro-batches of %d sequences of %d tokens are more than 2^62 tokens",
      c.steps, c.accum, c.batch, c.seq));
}

StatusOr<ModelConfig> parse_model_config(std::string_view text, std::string_view source) {
  TSR_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::parse(text, source));
  const JsonView object = document.root();
  TSR_RETURN_IF_ERROR(check_keys(object));
  ModelConfig config;
  Status status;
  const auto read = [&](const Field& field, auto& value, const auto& form) {
    const std::optional<JsonView> at = object.find(field.key);
    if (status.ok() && at) status = form.read(*at, value);
  };
  visit_all(config, read);
  TSR_RETURN_IF_ERROR(status);
  TSR_RETURN_IF_ERROR(check_together(object, config));
  return config;
}

StatusOr<ModelConfig> read_model_config(const std::string& path) {
  TSR_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxConfigBytes));
  return parse_model_config(text, path);
}

Json config_json(const ModelConfig& config, ConfigRole role) {
  Json json = Json::object({});
  const auto write = [&](const Field& field, const auto& value, const auto& form) {
    if (field.role != role) return;
    Json written = form.write(value);
    const bool absent =
        field.presence == Presence::kOptional && written.kind() == Json::Kind::kNull;
    if (!absent) json.set(std::string(field.key), std::move(written));
  };
  visit_all(config, write);
  return json;
}

}  // namespace tessera
