#include "moe/train_state.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

Json optional_json(const std::optional<std::int64_t>& value) {
  return value ? Json(*value) : Json();
}

/// What decides what a model computes, beyond the shapes of its parameters too.
Json model_json(const ModelConfig& c) {
  return Json::object({{"dim", c.dim},
                       {"n_layers", c.n_layers},
                       {"n_dense_layers", c.n_dense_layers},
                       {"n_heads", c.n_heads},
                       {"q_lora_rank", c.q_lora_rank},
                       {"kv_lora_rank", c.kv_lora_rank},
                       {"qk_nope_head_dim", c.qk_nope_head_dim},
                       {"rope_dim", c.rope_dim},
                       {"v_head_dim", c.v_head_dim},
                       {"mscale", c.mscale},
                       {"dense_hidden_dim", c.dense_hidden_dim},
                       {"moe_hidden_dim", c.moe_hidden_dim},
                       {"num_experts", c.num_experts},
                       {"num_shared_experts", c.num_shared_experts},
                       {"router_top_k", c.router_top_k},
                       {"groups", optional_json(c.groups)},
                       {"limited", optional_json(c.limited)},
                       {"route_scale", c.route_scale},
                       {"route_norm", c.route_norm},
                       {"vocab", c.vocab},
                       {"rope_theta", c.rope_theta},
                       {"yarn_factor", c.yarn_factor},
                       {"yarn_beta_fast", c.yarn_beta_fast},
                       {"yarn_beta_slow", c.yarn_beta_slow},
                       {"yarn_original_seq", c.yarn_original_seq},
                       {"norm_eps", c.norm_eps}});
}

Json schedule_json(const ModelConfig& c) {
  return Json::object(
      {{"lr", c.lr}, {"steps", c.steps}, {"warmup", c.warmup}, {"decay_ratio", c.decay_ratio}});
}

/// Every key of this model that the checkpoint has too is equal.
Status check_model(const ModelConfig& config, const Json& values, const std::string& path) {
  const Json* stored = values.find("model");
  if (stored == nullptr || stored->if_object() == nullptr) {
    return invalid_argument(path + ": /values: \"model\" is missing: no checkpoint of a model");
  }
  const Json ours = model_json(config);
  for (const JsonMember& member : *ours.if_object()) {
    const Json* other = stored->find(member.key);
    if (other == nullptr || other->to_string() == member.value.to_string()) continue;
    return invalid_argument(absl::StrFormat("%s: the checkpoint's model has %s %s; this one has %s",
                                            path, member.key, other->to_string(),
                                            member.value.to_string()));
  }
  return absl::OkStatus();
}

StatusOr<TrainProgress> progress_of(const Json& values, const std::string& path) {
  const JsonView root(values, path);
  TrainProgress progress;
  TSR_ASSIGN_OR_RETURN(const JsonView step, root.at("step"));
  TSR_ASSIGN_OR_RETURN(progress.step, step.integer_in(0, INT64_MAX));
  TSR_ASSIGN_OR_RETURN(const JsonView seed_view, root.at("seed"));
  TSR_ASSIGN_OR_RETURN(const std::string seed, seed_view.text());
  const auto [end, error] = std::from_chars(seed.data(), seed.data() + seed.size(), progress.seed);
  if (error != std::errc() || end != seed.data() + seed.size()) {
    return seed_view.error("expected the digits of a 64-bit number");
  }
  return progress;
}

StatusOr<std::int64_t> optimizer_steps_of(const Json& values, const std::string& path) {
  TSR_ASSIGN_OR_RETURN(const JsonView steps, JsonView(values, path).at("optimizer_steps"));
  return steps.integer_in(0, INT64_MAX);
}

std::string manifest_path(const FileSystem& files) {
  return files.path() + "/" + std::string(kManifestName);
}

}  // namespace

std::vector<StateTensor> weight_tensors(Model& model) {
  std::vector<StateTensor> tensors;
  for (Parameter& parameter : model.parameters().all()) {
    tensors.push_back({parameter.name(), parameter.stored()});
  }
  for (MoeLayer* layer : model.moe_layers()) {
    const DTensor& bias = layer->balancer().expert_bias_E();
    if (bias.defined()) tensors.push_back({bias.name(), bias});
  }
  return tensors;
}

std::vector<StateTensor> train_tensors(Model& model, Trainer& trainer) {
  std::vector<StateTensor> tensors = weight_tensors(model);
  for (NamedTensor& state : trainer.optimizer().state_tensors()) {
    tensors.push_back({std::move(state.name), std::move(state.tensor)});
  }
  return tensors;
}

Json train_values(Model& model, Trainer& trainer, const TrainProgress& progress) {
  const ModelConfig& config = model.context().config;
  return Json::object({{"step", progress.step},
                       {"optimizer_steps", trainer.optimizer().num_steps()},
                       {"data_position", progress.step},
                       {"seed", std::to_string(progress.seed)},
                       {"schedule", schedule_json(config)},
                       {"model", model_json(config)}});
}

TrainProgress load_train_state(FileSystem& files, Model& model, Trainer& trainer) {
  const std::string path = manifest_path(files);
  const auto check = [&](const Json& values) -> Status {
    TSR_RETURN_IF_ERROR(check_model(model.context().config, values, path));
    TSR_RETURN_IF_ERROR(optimizer_steps_of(values, path).status());
    return progress_of(values, path).status();
  };
  const std::vector<StateTensor> tensors = train_tensors(model, trainer);
  const Loaded loaded =
      load_checkpoint(model.context().runtime.world(), files, tensors, {.check = check});
  trainer.optimizer().set_num_steps(value_or_throw(optimizer_steps_of(loaded.values, path)));
  return value_or_throw(progress_of(loaded.values, path));
}

void load_initial_weights(FileSystem& files, Model& model) {
  const std::string path = manifest_path(files);
  LoadOptions options;
  options.check = [&](const Json& values) {
    return check_model(model.context().config, values, path);
  };
  options.may_ignore = [](const std::string& name) { return name.starts_with("optimizer."); };
  load_checkpoint(model.context().runtime.world(), files, weight_tensors(model), options);
}

}  // namespace tessera
