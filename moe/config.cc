#include "moe/config.h"

#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "io/file.h"
#include "moe/optimizer_config.h"
#include "moe/read_choice.h"

namespace tessera {
namespace {

constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;
constexpr std::int64_t kMaxConfigBytes = 1 << 20;
constexpr std::int64_t kMaxDegree = 1 << 14;

/// Reads members of one object into fields and remembers the first error.
class FieldReader {
 public:
  explicit FieldReader(const JsonView& object) : object_(object) {}

  void integer(std::string_view key, std::int64_t& field, std::int64_t low) {
    read(key, [&](const JsonView& at) -> Status {
      TSR_ASSIGN_OR_RETURN(field, at.integer_in(low, kMaxSize));
      return absl::OkStatus();
    });
  }
  void number(std::string_view key, double& field, double low) {
    read(key, [&](const JsonView& at) -> Status {
      TSR_ASSIGN_OR_RETURN(field, at.number());
      if (field < low) {
        return at.error(absl::StrFormat("is %g; at least %g is allowed", field, low));
      }
      return absl::OkStatus();
    });
  }
  void boolean(std::string_view key, bool& field) {
    read(key, [&](const JsonView& at) -> Status {
      TSR_ASSIGN_OR_RETURN(field, at.boolean());
      return absl::OkStatus();
    });
  }
  /// null leaves the field empty.
  void optional_integer(std::string_view key, std::optional<std::int64_t>& field) {
    read(key, [&](const JsonView& at) -> Status {
      if (at.kind() == Json::Kind::kNull) return absl::OkStatus();
      TSR_ASSIGN_OR_RETURN(field, at.integer_in(1, kMaxSize));
      return absl::OkStatus();
    });
  }
  void read(std::string_view key, const std::function<Status(const JsonView&)>& assign) {
    if (!status_.ok()) return;
    StatusOr<JsonView> at = object_.at(key);
    status_ = at.ok() ? assign(*at) : at.status();
  }
  const Status& status() const { return status_; }

 private:
  const JsonView& object_;
  Status status_;
};

Status read_score_function(const JsonView& at, ScoreFunction& field) {
  TSR_ASSIGN_OR_RETURN(const std::string name, at.text());
  if (name == "softmax") {
    field = ScoreFunction::kSoftmax;
  } else if (name == "sigmoid") {
    field = ScoreFunction::kSigmoid;
  } else if (name == "sqrtsoftplus") {
    field = ScoreFunction::kSqrtSoftplus;
  } else {
    return at.error(in_quotes(name) +
                    R"( is no score function; "softmax", "sigmoid" and "sqrtsoftplus" are)");
  }
  return absl::OkStatus();
}

Status read_context_method(const JsonView& at, ContextMethod& field) {
  TSR_ASSIGN_OR_RETURN(const std::string name, at.text());
  if (name != "all_gather" && name != "ring") {
    return at.error(in_quotes(name) + R"( is no method; "all_gather" and "ring" are)");
  }
  field = name == "ring" ? ContextMethod::kRing : ContextMethod::kAllGather;
  return absl::OkStatus();
}

Status read_betas(const JsonView& at, ModelConfig& config) {
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> items, at.items());
  if (items.size() != 2) return at.error("must be a list of two numbers");
  TSR_ASSIGN_OR_RETURN(config.beta1, items[0].number());
  TSR_ASSIGN_OR_RETURN(config.beta2, items[1].number());
  if (config.beta1 < 0 || config.beta1 >= 1 || config.beta2 < 0 || config.beta2 >= 1) {
    return at.error("must lie in [0, 1)");
  }
  return absl::OkStatus();
}

void read_sizes(FieldReader& reader, ModelConfig& config) {
  reader.integer("dim", config.dim, 1);
  reader.integer("n_layers", config.n_layers, 1);
  reader.integer("n_dense_layers", config.n_dense_layers, 0);
  reader.integer("n_heads", config.n_heads, 1);
  reader.integer("q_lora_rank", config.q_lora_rank, 0);
  reader.integer("kv_lora_rank", config.kv_lora_rank, 1);
  reader.integer("qk_nope_head_dim", config.qk_nope_head_dim, 1);
  reader.integer("rope_dim", config.rope_dim, 2);
  reader.integer("v_head_dim", config.v_head_dim, 1);
  reader.number("mscale", config.mscale, 0.0);
  reader.integer("dense_hidden_dim", config.dense_hidden_dim, 1);
  reader.integer("moe_hidden_dim", config.moe_hidden_dim, 1);
  reader.integer("num_experts", config.num_experts, 1);
  reader.integer("num_shared_experts", config.num_shared_experts, 0);
  reader.integer("router_top_k", config.router_top_k, 1);
  reader.read("score_func",
              [&](const JsonView& at) { return read_score_function(at, config.score_func); });
  reader.optional_integer("groups", config.groups);
  reader.optional_integer("limited", config.limited);
  reader.number("route_scale", config.route_scale, 0.0);
  reader.boolean("route_norm", config.route_norm);
  reader.integer("vocab", config.vocab, 1);
}

void read_recipe(FieldReader& reader, ModelConfig& config) {
  reader.integer("seq", config.seq, 1);
  reader.integer("batch", config.batch, 1);
  reader.integer("accum", config.accum, 1);
  reader.integer("steps", config.steps, 1);
  reader.number("lr", config.lr, 0.0);
  reader.integer("warmup", config.warmup, 0);
  reader.number("max_norm", config.max_norm, 0.0);
  reader.read("bias_coeff", [&](const JsonView& at) -> Status {
    if (at.kind() == Json::Kind::kNull) return absl::OkStatus();
    TSR_ASSIGN_OR_RETURN(config.bias_coeff, at.number());
    return absl::OkStatus();
  });
  reader.number("rope_theta", config.rope_theta, 1.0);
  reader.number("yarn_factor", config.yarn_factor, 1.0);
  reader.number("yarn_beta_fast", config.yarn_beta_fast, 0.0);
  reader.number("yarn_beta_slow", config.yarn_beta_slow, 0.0);
  reader.number("yarn_original_seq", config.yarn_original_seq, 1.0);
  reader.number("norm_eps", config.norm_eps, 0.0);
  reader.read("betas", [&](const JsonView& at) { return read_betas(at, config); });
  reader.number("eps", config.eps, 0.0);
  reader.number("weight_decay", config.weight_decay, 0.0);
  reader.number("decay_ratio", config.decay_ratio, 0.0);
}

Status read_pad_id(const JsonView& object, ModelConfig& config) {
  const std::optional<JsonView> at = object.find("pad_id");
  if (!at || at->kind() == Json::Kind::kNull) return absl::OkStatus();
  TSR_ASSIGN_OR_RETURN(config.pad_id, at->integer_in(0, config.vocab - 1));
  return absl::OkStatus();
}

Status check_routing(const JsonView& object, const ModelConfig& config) {
  if (config.routing.shared_expert_gate && config.num_shared_experts == 0) {
    return object.error("shared_expert_gate is set but num_shared_experts is 0");
  }
  if (config.routing.pad_to_capacity && !config.routing.capacity_factor) {
    return object.error(
        "pad_to_capacity is set but capacity_factor is null; it says how many rows an expert has");
  }
  return absl::OkStatus();
}

/// What one key alone does not show.
Status check_together(const JsonView& object, const ModelConfig& config) {
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

StatusOr<ModelConfig> parse_model_config(std::string_view text, std::string_view source) {
  TSR_ASSIGN_OR_RETURN(const Json json, parse_json(text, source));
  const JsonView object(json, source);
  TSR_RETURN_IF_ERROR(object.check_keys(
      {"dim",
       "n_layers",
       "n_dense_layers",
       "n_heads",
       "q_lora_rank",
       "kv_lora_rank",
       "qk_nope_head_dim",
       "rope_dim",
       "v_head_dim",
       "mscale",
       "dense_hidden_dim",
       "moe_hidden_dim",
       "num_experts",
       "num_shared_experts",
       "router_top_k",
       "score_func",
       "groups",
       "limited",
       "route_scale",
       "route_norm",
       "vocab",
       "seq",
       "batch",
       "accum",
       "steps",
       "lr",
       "warmup",
       "max_norm",
       "bias_coeff",
       "rope_theta",
       "yarn_factor",
       "yarn_beta_fast",
       "yarn_beta_slow",
       "yarn_original_seq",
       "norm_eps",
       "betas",
       "eps",
       "weight_decay",
       "decay_ratio"},
      {"optimizer",       "momentum",      "nesterov",        "state_dtype",
       "param_groups",    "norm_type",     "decay",           "min_lr_factor",
       "bias_centred",    "seq_aux_coeff", "batch_aux_coeff", "global_aux_coeff",
       "z_loss_coeff",    "force_balance", "input_jitter",    "shared_expert_gate",
       "capacity_factor", "pad_id",        "pad_to_capacity", "capacity_scope",
       "drop_policy"}));
  ModelConfig config;
  FieldReader reader(object);
  read_sizes(reader, config);
  read_recipe(reader, config);
  TSR_RETURN_IF_ERROR(reader.status());
  TSR_RETURN_IF_ERROR(read_pad_id(object, config));
  TSR_RETURN_IF_ERROR(read_optimizer_keys(object, config));
  TSR_RETURN_IF_ERROR(read_routing_config(object, config.routing));
  TSR_RETURN_IF_ERROR(check_together(object, config));
  return config;
}

StatusOr<ModelConfig> read_model_config(const std::string& path) {
  TSR_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxConfigBytes));
  return parse_model_config(text, path);
}

namespace {

Status read_fsdp_policy(const JsonView& object, FsdpPolicy& policy) {
  TSR_RETURN_IF_ERROR(read_choice(object, "reshard_after_forward",
                                  {{"default", ReshardAfterForward::kDefault},
                                   {"always", ReshardAfterForward::kAlways},
                                   {"never", ReshardAfterForward::kNever}},
                                  policy.reshard));
  TSR_RETURN_IF_ERROR(read_choice(object, "gradient_reduction",
                                  {{"each_micro_batch", GradientPolicy::kEachMicroBatch},
                                   {"last_micro_batch", GradientPolicy::kLastMicroBatch}},
                                  policy.gradients));
  if (const std::optional<JsonView> at = object.find("fsdp_prefetch")) {
    TSR_ASSIGN_OR_RETURN(const bool prefetch, at->boolean());
    policy.prefetch = prefetch ? Prefetch::kNext : Prefetch::kOff;
  }
  return absl::OkStatus();
}

Status read_dispatch(const JsonView& object, DispatchConfig& config) {
  TSR_RETURN_IF_ERROR(read_choice(object, "dispatcher",
                                  {{"all_to_all", DispatcherKind::kAllToAll},
                                   {"all_gather", DispatcherKind::kAllGather},
                                   {"hierarchical", DispatcherKind::kHierarchical}},
                                  config.kind));
  const std::array<std::pair<std::string_view, std::int64_t*>, 4> sizes = {
      {{"ranks_per_node", &config.ranks_per_node},
       {"rows_bound", &config.rows_bound},
       {"expert_alignment", &config.expert_alignment},
       {"dispatch_chunks", &config.chunks}}};
  for (const auto& [key, field] : sizes) {
    if (const std::optional<JsonView> at = object.find(key)) {
      TSR_ASSIGN_OR_RETURN(*field, at->integer_in(1, kMaxSize));
    }
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<ParallelConfig> parse_parallel_config(std::string_view text, std::string_view source) {
  TSR_ASSIGN_OR_RETURN(const Json json, parse_json(text, source));
  const JsonView object(json, source);
  TSR_RETURN_IF_ERROR(object.check_keys({}, {"dp_replicate",
                                             "dp_shard",
                                             "cp",
                                             "tp",
                                             "ep",
                                             "etp",
                                             "pp",
                                             "pp_schedule",
                                             "pp_microbatches",
                                             "pp_stages_per_rank",
                                             "sequence_parallel",
                                             "strict_even",
                                             "cp_method",
                                             "cp_load_balance",
                                             "reshard_after_forward",
                                             "gradient_reduction",
                                             "fsdp_prefetch",
                                             "recompute",
                                             "dispatcher",
                                             "ranks_per_node",
                                             "rows_bound",
                                             "expert_alignment",
                                             "dispatch_chunks"}));
  ParallelConfig config;
  const std::array<std::pair<std::string_view, std::int64_t*>, 7> degrees = {
      {{"dp_replicate", &config.dp_replicate},
       {"dp_shard", &config.dp_shard},
       {"cp", &config.cp},
       {"tp", &config.tp},
       {"ep", &config.ep},
       {"etp", &config.etp},
       {"pp", &config.pp}}};
  for (const auto& [key, field] : degrees) {
    if (const std::optional<JsonView> at = object.find(key)) {
      TSR_ASSIGN_OR_RETURN(*field, at->integer_in(-1, kMaxDegree));
    }
  }
  if (const std::optional<JsonView> at = object.find("pp_schedule")) {
    TSR_RETURN_IF_ERROR(read_choice(
        *at,
        {{"1f1b", PipelineOrder::k1F1B}, {"interleaved_1f1b", PipelineOrder::kInterleaved1F1B}},
        config.pp_schedule));
  }
  if (const std::optional<JsonView> at = object.find("pp_microbatches")) {
    TSR_ASSIGN_OR_RETURN(config.pp_microbatches, at->integer_in(1, kMaxSize));
  }
  if (const std::optional<JsonView> at = object.find("pp_stages_per_rank")) {
    TSR_ASSIGN_OR_RETURN(config.pp_stages_per_rank, at->integer_in(1, kMaxDegree));
  }
  if (const std::optional<JsonView> at = object.find("sequence_parallel")) {
    TSR_ASSIGN_OR_RETURN(config.sequence_parallel, at->boolean());
  }
  if (const std::optional<JsonView> at = object.find("strict_even")) {
    TSR_ASSIGN_OR_RETURN(config.strict_even, at->boolean());
  }
  if (const std::optional<JsonView> at = object.find("cp_load_balance")) {
    TSR_ASSIGN_OR_RETURN(config.cp_load_balance, at->boolean());
  }
  if (const std::optional<JsonView> at = object.find("cp_method")) {
    TSR_RETURN_IF_ERROR(read_context_method(*at, config.cp_method));
  }
  TSR_RETURN_IF_ERROR(read_choice(object, "recompute",
                                  {{"none", Recompute::kNone},
                                   {"full", Recompute::kFull},
                                   {"selective", Recompute::kSelective}},
                                  config.recompute));
  TSR_RETURN_IF_ERROR(read_fsdp_policy(object, config.fsdp));
  TSR_RETURN_IF_ERROR(read_dispatch(object, config.dispatch));
  return config;
}

}  // namespace tessera
