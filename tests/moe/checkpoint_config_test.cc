// What a checkpoint knows of its run's config: every key, and what a change of each one does.
#include <algorithm>
#include <set>

#include "testing/results.h"
#include "tests/moe/checkpoint_run.h"

namespace tessera::testing {
namespace {

constexpr ConfigRole kRoles[] = {ConfigRole::kModel, ConfigRole::kState, ConfigRole::kRecipe};

/// All keys that are written, whatever their role.
Json json_of(const ModelConfig& config) {
  Json all = Json::object({});
  for (const ConfigRole role : kRoles) {
    const Json part = config_json(config, role);
    for (const JsonMember& member : *part.if_object()) all.set(member.key, member.value);
  }
  return all;
}

ModelConfig config_of(const Json& json) {
  return value_or_throw(parse_model_config(json.to_string(), "config"));
}

Json with(const Json& config, const Json& changes) {
  Json changed = Json::object({});
  for (const JsonMember& member : *config.if_object()) {
    if (changes.find(member.key) == nullptr) changed.set(member.key, member.value);
  }
  for (const JsonMember& member : *changes.if_object()) changed.set(member.key, member.value);
  return changed;
}

/// The keys that the reader of configs says it knows.
std::set<std::string> known_keys() {
  const Json config = with(json_of(tiny_config()), Json::object({{"no such key", 1}}));
  const std::string text(message_of(parse_model_config(config.to_string(), "c").status()));
  constexpr std::string_view kAllowed = "allowed: ";
  std::set<std::string> keys;
  std::size_t at = text.find(kAllowed) + kAllowed.size();
  for (std::size_t end = 0; end != std::string::npos; at = end + 2) {
    end = text.find(", ", at);
    keys.insert(text.substr(at, end == std::string::npos ? end : end - at));
  }
  return keys;
}

/// A change of the tiny config, and what loading a checkpoint of the unchanged one does.
struct Change {
  std::string key;
  std::string members;  ///< of the config, as JSON
  std::string error;    ///< part of it; empty: it is loaded, and the change is told
};

const std::vector<Change>& changes() {
  static const std::vector<Change> all = {
      // What changes shapes or tensors names the first of them.
      {"dim", R"({"dim":20})", "\"tok_embeddings.weight\" is F32[256, 24]; F32[256, 20]"},
      {"vocab", R"({"vocab":300})", "\"tok_embeddings.weight\" is F32[256, 24]; F32[300, 24]"},
      {"n_layers", R"({"n_layers":3})", "\"layers.2.attention_norm.weight\" is missing"},
      {"n_dense_layers", R"({"n_dense_layers":0})", "tensor \"layers.0."},
      {"n_heads", R"({"n_heads":2})", "tensor \"layers.0.attention.wq.weight\" is"},
      {"q_lora_rank", R"({"q_lora_rank":4})", "tensor \"layers.0.attention."},
      {"kv_lora_rank", R"({"kv_lora_rank":4})", "tensor \"layers.0.attention."},
      {"qk_nope_head_dim", R"({"qk_nope_head_dim":4})", "tensor \"layers.0.attention."},
      {"rope_dim", R"({"rope_dim":2})", "tensor \"layers.0.attention."},
      {"v_head_dim", R"({"v_head_dim":4})", "tensor \"layers.0.attention."},
      {"dense_hidden_dim", R"({"dense_hidden_dim":16})", "tensor \"layers.0.feed_forward."},
      {"moe_hidden_dim", R"({"moe_hidden_dim":8})", "tensor \"layers.1.moe."},
      {"num_experts", R"({"num_experts":5})", "tensor \"layers.1.moe.router.gate.weight\" is"},
      {"num_shared_experts", R"({"num_shared_experts":1})", "tensor \"layers.1.moe.shared_experts"},
      {"shared_expert_gate", R"({"shared_expert_gate":true})", "tensor \"layers.1.moe."},
      {"state_dtype", R"({"state_dtype":"BF16"})", "tensor \"optimizer."},
      // What the same parameters mean.
      {"mscale", R"({"mscale":1})", "the checkpoint's model has mscale 0.7; this one has 1"},
      {"router_top_k", R"({"router_top_k":2})", "model has router_top_k 3; this one has 2"},
      {"score_func", R"({"score_func":"sigmoid"})",
       "model has score_func \"softmax\"; this one has \"sigmoid\""},
      {"groups", R"({"groups":3,"limited":2})", "model has groups null; this one has 3"},
      {"limited", R"({"limited":1})", "model has limited null; this one has 1"},
      {"route_scale", R"({"route_scale":2})", "model has route_scale"},
      {"route_norm", R"({"route_norm":true})", "model has route_norm false; this one has true"},
      {"rope_theta", R"({"rope_theta":5000})", "model has rope_theta"},
      {"yarn_factor", R"({"yarn_factor":20})", "model has yarn_factor"},
      {"yarn_beta_fast", R"({"yarn_beta_fast":16})", "model has yarn_beta_fast"},
      {"yarn_beta_slow", R"({"yarn_beta_slow":2})", "model has yarn_beta_slow"},
      {"yarn_original_seq", R"({"yarn_original_seq":2048})", "model has yarn_original_seq"},
      {"norm_eps", R"({"norm_eps":1e-6})", "model has norm_eps 1e-05; this one has 1e-06"},
      // What the optimizer's state means.
      {"optimizer", R"({"optimizer":"adam"})",
       "state is of optimizer \"adamw\"; this run has \"adam\". Take the weights alone"},
      // How the model is trained may change.
      {"seq", R"({"seq":10})", ""},
      {"batch", R"({"batch":2})", ""},
      {"accum", R"({"accum":2})", ""},
      {"steps", R"({"steps":20})", ""},
      {"lr", R"({"lr":0.01})", ""},
      {"warmup", R"({"warmup":1})", ""},
      {"max_norm", R"({"max_norm":2})", ""},
      {"bias_coeff", R"({"bias_coeff":0.002})", ""},
      {"betas", R"({"betas":[0.8,0.9]})", ""},
      {"eps", R"({"eps":1e-7})", ""},
      {"weight_decay", R"({"weight_decay":0.2})", ""},
      {"decay_ratio", R"({"decay_ratio":0.5})", ""},
      {"momentum", R"({"momentum":0.5})", ""},
      {"param_groups", R"({"param_groups":[{"pattern":"","lr_scale":0.5}]})", ""},
      {"norm_type", R"({"norm_type":"inf"})", ""},
      {"decay", R"({"decay":"cosine"})", ""},
      {"min_lr_factor", R"({"min_lr_factor":0.1})", ""},
      {"bias_centred", R"({"bias_centred":false})", ""},
      {"seq_aux_coeff", R"({"seq_aux_coeff":0.01})", ""},
      {"batch_aux_coeff", R"({"batch_aux_coeff":0.01})", ""},
      {"global_aux_coeff", R"({"global_aux_coeff":0.01})", ""},
      {"z_loss_coeff", R"({"z_loss_coeff":0.01})", ""},
      {"force_balance", R"({"force_balance":true})", ""},
      {"forced_loads", R"({"forced_loads":[1,2,1,2,1,2]})", ""},
      {"input_jitter", R"({"input_jitter":0.1})", ""},
      {"capacity_factor", R"({"capacity_factor":1.5})", ""},
      {"pad_id", R"({"pad_id":0})", ""},
      {"pad_to_capacity", R"({"pad_to_capacity":true,"capacity_factor":1.5})", ""},
      {"capacity_scope", R"({"capacity_scope":"sequence"})", ""},
      {"drop_policy", R"({"drop_policy":"position"})", ""},
      {"nesterov", R"({"nesterov":true,"momentum":0.5})", ""},
  };
  return all;
}

/// "error: …", or the changes that loading tells of.
std::vector<std::string> loaded_with(World& world, FileSystem& files, const ModelConfig& config) {
  TinyRun run(world, {}, DType::kF32, /*seed=*/99, config);
  try {
    return load_train_state(files, run.model, run.trainer).changes;
  } catch (const Error& error) {
    return {std::string("error: ") + error.what()};
  }
}

}  // namespace

TEST_CASE("a config is written as it is read", "[moe][config][checkpoint]") {
  const Json every_key = value_or_throw(parse_json(
      R"({"dim":64,"n_layers":4,"n_dense_layers":2,"n_heads":4,"q_lora_rank":8,"kv_lora_rank":32,
      "qk_nope_head_dim":16,"rope_dim":8,"v_head_dim":12,"mscale":0.7,"dense_hidden_dim":128,
      "moe_hidden_dim":32,"num_experts":8,"num_shared_experts":2,"router_top_k":3,
      "score_func":"sqrtsoftplus","groups":4,"limited":2,"route_scale":2.5,"route_norm":true,
      "vocab":300,"rope_theta":5000.5,"yarn_factor":40.5,"yarn_beta_fast":31.5,
      "yarn_beta_slow":1.5,"yarn_original_seq":2048.5,"norm_eps":1e-06,"shared_expert_gate":true,
      "optimizer":"sgd","seq":61,"batch":6,"accum":3,"steps":11,"lr":0.25,"warmup":3,
      "max_norm":1.5,"bias_coeff":0.125,"betas":[0.75,0.875],"eps":1e-07,"weight_decay":0.1,
      "decay_ratio":0.5,"momentum":0.5,"nesterov":true,"state_dtype":"BF16",
      "param_groups":[{"pattern":"norm","lr_scale":0.5,"weight_decay":0.5,"betas":[0.5,0.25]},
      {"pattern":"","lr_scale":1.5}],"norm_type":"inf","decay":"sqrt","min_lr_factor":0.25,
      "bias_centred":false,"seq_aux_coeff":0.5,"batch_aux_coeff":0.25,"global_aux_coeff":0.75,
      "z_loss_coeff":1.25,"force_balance":false,"forced_loads":[2.0,1.0,2.5,1.0,0.0,1.0,1.0,1.0],
      "input_jitter":0.125,"capacity_factor":1.25,"pad_id":299,
      "pad_to_capacity":true,      "capacity_scope":"sequence","drop_policy":"position"})",
      "every key"));
  const Json written = json_of(config_of(every_key));
  std::set<std::string> keys;
  for (const JsonMember& member : *every_key.if_object()) {
    CAPTURE(member.key);
    const Json* value = written.find(member.key);
    REQUIRE(value != nullptr);
    CHECK(value->to_string() == member.value.to_string());
    keys.insert(member.key);
  }
  CHECK(written.if_object()->size() == keys.size());
  CHECK(keys == known_keys());
}

TEST_CASE("a change of any key of the config is seen where a checkpoint is loaded",
          "[moe][config][checkpoint]") {
  const Json base = json_of(tiny_config());
  std::set<std::string> keys;
  for (const Change& change : changes()) keys.insert(change.key);
  CHECK(keys == known_keys());

  using Seen = std::vector<std::vector<std::string>>;
  const Seen seen = results_of(1, {}, [&](World& world) {
                      const SharedFolder folder(world);
                      const auto files = folder.open();
                      TinyRun(world, {}, DType::kF32).save(*files, 0);
                      Seen all = {loaded_with(world, *files, config_of(base))};
                      for (const Change& change : changes()) {
                        const Json members = value_or_throw(parse_json(change.members, change.key));
                        all.push_back(loaded_with(world, *files, config_of(with(base, members))));
                      }
                      return all;
                    }).value()[0];
  CHECK(seen[0].empty());
  for (std::size_t i = 0; i < changes().size(); ++i) {
    const Change& change = changes()[i];
    CAPTURE(change.key, seen[i + 1]);
    if (!change.error.empty()) {
      REQUIRE(seen[i + 1].size() == 1);
      CHECK_THAT(seen[i + 1][0], Catch::StartsWith("error: ") && Catch::Contains(change.error));
      continue;
    }
    const Json members = value_or_throw(parse_json(change.members, change.key));
    CHECK(seen[i + 1].size() == members.if_object()->size());
    const Json* was = base.find(change.key);
    const std::string told = change.key + " is " +
                             json_of(config_of(with(base, members))).find(change.key)->to_string() +
                             ", was " + (was == nullptr ? "not set" : was->to_string());
    CHECK(std::count(seen[i + 1].begin(), seen[i + 1].end(), told) == 1);
  }
}

TEST_CASE("first weights are taken whatever the optimizer, and only of the same model",
          "[moe][config][checkpoint]") {
  const auto texts = results_of(1, {}, [](World& world) {
                       const SharedFolder folder(world);
                       const auto files = folder.open();
                       TinyRun(world, {}, DType::kF32).save(*files, 0);
                       std::vector<std::string> all;
                       const auto load = [&](const auto& change) {
                         ModelConfig config = tiny_config();
                         change(config);
                         TinyRun run(world, {}, DType::kF32, /*seed=*/99, config);
                         try {
                           load_initial_weights(*files, run.model);
                           all.emplace_back("loaded");
                         } catch (const Error& error) {
                           all.emplace_back(error.what());
                         }
                       };
                       load([](ModelConfig& c) { c.optimizer = OptimizerKind::kSgd; });
                       load([](ModelConfig& c) { c.norm_eps = 1e-3; });
                       return all;
                     }).value()[0];
  CHECK(texts[0] == "loaded");
  CHECK_THAT(texts[1], Catch::Contains("model has norm_eps 1e-05; this one has 0.001"));
}

}  // namespace tessera::testing
