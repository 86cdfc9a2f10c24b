// The keys of a config that say how parameters are updated: what they set, and what they refuse.
#include "moe/train/optimizer_config.h"

#include <cmath>

#include "tests/moe/training_run.h"

namespace tessera::testing {
namespace {

/// The parity model's config with more keys at its end.
StatusOr<ModelConfig> config_with(const std::string& members) {
  std::string text = expected_results("grouped").find("config")->to_string();
  text.replace(text.rfind('}'), 1, "," + members + "}");
  return parse_model_config(text, "c.json");
}
std::string error_of_members(const std::string& members) {
  const auto config = config_with(members);
  return config.ok() ? "accepted" : std::string(message_of(config.status()));
}

}  // namespace

TEST_CASE("a config names optimizer, groups, state, norm and schedule",
          "[moe][config][optimizer]") {
  const ModelConfig config = value_or_throw(config_with(
      R"("optimizer":"sgd","momentum":0.9,"nesterov":true,"state_dtype":"BF16","norm_type":"inf",
         "decay":"cosine","min_lr_factor":0.1,"param_groups":[{"pattern":"norm","weight_decay":0},
         {"pattern":"","lr_scale":0.5,"betas":[0.8,0.9]}])"));
  const OptimizerConfig optimizer = optimizer_config_of(config);
  CHECK(optimizer.kind == OptimizerKind::kSgd);
  CHECK(optimizer.momentum == 0.9);
  CHECK(optimizer.momentum_form == Momentum::kNesterov);
  CHECK(optimizer.state_dtype == DType::kBF16);
  REQUIRE(optimizer.groups.size() == 2);
  CHECK(optimizer.groups[0].weight_decay == 0.0);
  CHECK(!optimizer.groups[0].betas);
  CHECK(optimizer.groups[1].lr_scale == 0.5);
  CHECK(std::isinf(config.norm_type));
  CHECK(learning_rate_of(config).shape == DecayShape::kCosine);
  CHECK(learning_rate_of(config).min_factor == 0.1);
}

TEST_CASE("a config names Muon with its momentum", "[moe][config][optimizer][muon]") {
  const OptimizerConfig optimizer = optimizer_config_of(
      value_or_throw(config_with(R"("optimizer":"muon","momentum":0.95,"nesterov":true)")));
  CHECK(optimizer.kind == OptimizerKind::kMuon);
  CHECK(optimizer.momentum == 0.95);
  CHECK(optimizer.momentum_form == Momentum::kNesterov);
}

TEST_CASE("optimizer keys out of range are refused by name", "[moe][config][optimizer][C66]") {
  CHECK_THAT(
      error_of_members(R"("optimizer":"lion")"),
      Catch::Contains("/optimizer") && Catch::Contains("\"adamw\", \"adam\", \"sgd\", \"muon\""));
  CHECK_THAT(error_of_members(R"("momentum":1.5)"), Catch::Contains("/momentum: is 1.5"));
  CHECK_THAT(error_of_members(R"("nesterov":true)"), Catch::Contains("momentum is 0"));
  CHECK_THAT(error_of_members(R"("state_dtype":"I8")"), Catch::Contains("/state_dtype"));
  CHECK_THAT(error_of_members(R"("norm_type":0)"), Catch::Contains("above 0 or \"inf\""));
  CHECK_THAT(error_of_members(R"("decay":"step")"), Catch::Contains("/decay"));
  CHECK_THAT(error_of_members(R"("min_lr_factor":2)"), Catch::Contains("/min_lr_factor"));
  CHECK_THAT(error_of_members(R"("param_groups":[{"lr_scale":1}])"), Catch::Contains("pattern"));
  CHECK_THAT(error_of_members(R"("param_groups":[{"pattern":"","betas":[1,0]}])"),
             Catch::Contains("/param_groups/0/betas"));
}

TEST_CASE("recompute is none, full or selective", "[moe][config][recompute]") {
  CHECK(parse_parallel_config(R"({"recompute":"full"})", "p")->recompute == Recompute::kFull);
  const auto unknown = parse_parallel_config(R"({"recompute":"some"})", "p");
  REQUIRE(!unknown.ok());
  CHECK_THAT(std::string(message_of(unknown.status())),
             Catch::Contains("\"none\", \"full\", \"selective\""));
}

}  // namespace tessera::testing
