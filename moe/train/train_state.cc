#include "moe/train/train_state.h"

#include <algorithm>
#include <charconv>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

/// A value of a file, as it may stand on a terminal.
std::string shown(const Json& value) {
  constexpr std::size_t kLongest = 200;
  std::string text = value.to_string();
  const bool plain = text.size() <= kLongest && std::all_of(text.begin(), text.end(), [](char c) {
                       return c >= ' ' && c <= '~';
                     });
  return plain ? text : in_quotes(text);
}

Json training_json(const ModelConfig& config) {
  Json json = config_json(config, ConfigRole::kState);
  const Json recipe = config_json(config, ConfigRole::kRecipe);
  for (const JsonMember& member : *recipe.if_object()) json.set(member.key, member.value);
  return json;
}

/// Every key of the checkpoint's model is one of this model, and equal. What the checkpoint lacks
/// came later than it.
Status check_model(const ModelConfig& config, const Json& values, const std::string& path) {
  const Json* stored = values.find("model");
  if (stored == nullptr || stored->if_object() == nullptr) {
    return invalid_argument(path + ": /values: \"model\" is missing: no checkpoint of a model");
  }
  const Json ours = config_json(config, ConfigRole::kModel);
  for (const JsonMember& member : *stored->if_object()) {
    const Json* own = ours.find(member.key);
    if (own == nullptr) {
      return invalid_argument(
          absl::StrFormat("%s: the checkpoint's model has %s %s, which this version does not know",
                          path, in_quotes(member.key), shown(member.value)));
    }
    if (own->to_string() == member.value.to_string()) continue;
    return invalid_argument(absl::StrFormat("%s: the checkpoint's model has %s %s; this one has %s",
                                            path, member.key, shown(member.value), shown(*own)));
  }
  return absl::OkStatus();
}

/// The optimizer's state means the same to this run.
Status check_state(const ModelConfig& config, const Json& values, const std::string& path) {
  const Json* stored = values.find("training");
  if (stored == nullptr) return absl::OkStatus();  // a checkpoint of an earlier version
  const Json ours = config_json(config, ConfigRole::kState);
  for (const JsonMember& member : *ours.if_object()) {
    const Json* other = stored->find(member.key);
    if (other == nullptr || other->to_string() == member.value.to_string()) continue;
    return invalid_argument(
        absl::StrFormat("%s: the checkpoint's state is of %s %s; this run has %s. Take the weights "
                        "alone as a new run's first ones (--init)",
                        path, member.key, shown(*other), shown(member.value)));
  }
  return absl::OkStatus();
}

std::vector<std::string> changes_of(const ModelConfig& config, const Json& values) {
  std::vector<std::string> changes;
  const Json* stored = values.find("training");
  if (stored == nullptr || stored->if_object() == nullptr) return changes;
  const Json ours = config_json(config, ConfigRole::kRecipe);
  for (const JsonMember& member : *ours.if_object()) {
    const Json* was = stored->find(member.key);
    const std::string before = was == nullptr ? "not set" : shown(*was);
    const std::string now = shown(member.value);
    if (before != now) changes.push_back(member.key + " is " + now + ", was " + before);
  }
  for (const JsonMember& member : *stored->if_object()) {
    const bool is_ours = ours.find(member.key) != nullptr ||
                         config_json(config, ConfigRole::kState).find(member.key) != nullptr;
    if (is_ours) continue;
    changes.push_back(in_quotes(member.key) + " is not set, was " + shown(member.value));
  }
  return changes;
}

/// The numbers among a checkpoint's values.
struct StoredNumbers {
  TrainProgress progress;
  std::int64_t optimizer_steps = 0;
};

StatusOr<StoredNumbers> numbers_of(const Json& values, const std::string& path) {
  const std::string text = values.to_string();
  TSR_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::parse(text, path));
  const JsonView root = document.root();
  StoredNumbers stored;
  TSR_ASSIGN_OR_RETURN(const JsonView steps, root.at("optimizer_steps"));
  TSR_ASSIGN_OR_RETURN(stored.optimizer_steps, steps.integer_in(0, INT64_MAX));
  TSR_ASSIGN_OR_RETURN(const JsonView step, root.at("step"));
  TSR_ASSIGN_OR_RETURN(stored.progress.step, step.integer_in(0, INT64_MAX));
  TSR_ASSIGN_OR_RETURN(const JsonView seed_view, root.at("seed"));
  TSR_ASSIGN_OR_RETURN(const std::string seed, seed_view.text());
  const auto [end, error] =
      std::from_chars(seed.data(), seed.data() + seed.size(), stored.progress.seed);
  if (error != std::errc() || end != seed.data() + seed.size()) {
    return seed_view.error("expected the digits of a 64-bit number");
  }
  return stored;
}

/// What an error about the checkpoint's values begins with.
std::string place_of(const FileSystem& files, std::optional<std::int64_t> generation) {
  if (generation) return absl::StrFormat("%s: generation %d", files.path(), *generation);
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
  const ModelConfig& config = model.context().model;
  return Json::object({{"step", progress.step},
                       {"optimizer_steps", trainer.optimizer().num_steps()},
                       {"data_position", progress.step},
                       {"seed", std::to_string(progress.seed)},
                       {"model", config_json(config, ConfigRole::kModel)},
                       {"training", training_json(config)}});
}

TrainProgress load_train_state(FileSystem& files, Model& model, Trainer& trainer,
                               std::optional<std::int64_t> generation) {
  const std::string path = place_of(files, generation);
  const ModelConfig& config = model.context().model;
  StoredNumbers stored;
  const auto check = [&](const Json& values) -> Status {
    TSR_RETURN_IF_ERROR(check_model(config, values, path));
    TSR_RETURN_IF_ERROR(check_state(config, values, path));
    TSR_ASSIGN_OR_RETURN(stored, numbers_of(values, path));
    return absl::OkStatus();
  };
  const std::vector<StateTensor> tensors = train_tensors(model, trainer);
  const Loaded loaded = load_checkpoint(model.context().runtime.world(), files, tensors,
                                        {.generation = generation, .check = check});
  trainer.optimizer().set_num_steps(stored.optimizer_steps);
  // What was counted before belongs to another state: the next update counts from nothing.
  for (MoeLayer* layer : model.moe_layers()) layer->balancer().forget_counts();
  stored.progress.changes = changes_of(config, loaded.values);
  return stored.progress;
}

void load_initial_weights(FileSystem& files, Model& model) {
  const std::string path = place_of(files, {});
  LoadOptions options;
  options.check = [&](const Json& values) {
    return check_model(model.context().model, values, path);
  };
  options.may_ignore = [](const std::string& name) { return name.starts_with("optimizer."); };
  load_checkpoint(model.context().runtime.world(), files, weight_tensors(model), options);
}

}  // namespace tessera
