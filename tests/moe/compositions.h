// tests/moe/compositions.h: the compositions of meshes under which steps are compared, and configs
// of few numbers for them.
#pragma once

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "io/file.h"
#include "moe/train/routing_scenario.h"
#include "moe/train/simulate.h"
#include "testing/results.h"
#include "tests/moe/training_run.h"

namespace tessera::testing {

struct Composition {
  std::string name;
  ParallelConfig parallel;
  Json changes = Json(Json::Object{});  ///< to the model's config
  int num_ranks() const {
    const ParallelConfig& p = parallel;
    return static_cast<int>(p.pp * p.dp_replicate * p.dp_shard * p.cp * p.tp);
  }
};

/// Those of scripts/parity_table.
inline std::vector<Composition> read_compositions() {
  const std::string path = test_file("parity/compositions.json");
  const Json all = value_or_throw(parse_json(value_or_throw(read_file(path, 1 << 20)), path));
  std::vector<Composition> compositions;
  for (const Json& each : *all.if_array()) {
    Composition& made = compositions.emplace_back();
    made.name = *each.find("name")->if_string();
    made.parallel =
        value_or_throw(parse_parallel_config(each.find("parallel")->to_string(), made.name));
    if (const Json* changes = each.find("changes")) made.changes = *changes;
  }
  return compositions;
}

inline const std::vector<Composition>& compositions() {
  static const std::vector<Composition> all = [] {
    std::vector<Composition> list = read_compositions();
    const auto add = [&](std::string name, const ParallelConfig& parallel,
                         Json changes = Json(Json::Object{})) {
      list.push_back({std::move(name), parallel, std::move(changes)});
    };
    add("one rank", {});
    add("CP 4 as a ring, balanced",
        {.cp = 4, .ep = 2, .cp_method = ContextMethod::kRing, .cp_load_balance = true});
    add("recomputed", {.dp_shard = 2, .tp = 2, .ep = 4, .recompute = Recompute::kFull});
    add("selectively recomputed",
        {.dp_shard = 2, .tp = 2, .ep = 4, .recompute = Recompute::kSelective});
    add("pieces of 2, 1, 2 and 1 sequences", {.tp = 2, .ep = 2, .pp = 2, .pp_microbatches = 4},
        Json::object({{"batch", 6}}));
    add("experts padded to their capacity", {.dp_shard = 2, .tp = 2, .ep = 4},
        Json::object({{"capacity_factor", 1.25}, {"pad_to_capacity", true}}));
    return list;
  }();
  return all;
}

/// A model of few numbers: what is compared does not depend on them.
inline ModelConfig small_config(const Json& changes, const ParallelConfig& parallel = {}) {
  const Json expected = expected_results("softmax");
  const std::int64_t layers =
      std::accumulate(parallel.pp_layers.begin(), parallel.pp_layers.end(), std::int64_t{0});
  const Json small = Json::object({{"dim", 16},
                                   {"n_layers", std::max(layers, std::int64_t{2})},
                                   {"kv_lora_rank", 8},
                                   {"qk_nope_head_dim", 4},
                                   {"rope_dim", 2},
                                   {"v_head_dim", 4},
                                   {"dense_hidden_dim", 16},
                                   {"moe_hidden_dim", 8},
                                   {"seq", 16},
                                   {"force_balance", true}});
  std::map<std::string, Json> members;  // later ones replace earlier ones
  for (const Json* each : {expected.find("config"), &small, &changes}) {
    for (const JsonMember& member : *each->if_object()) members[member.key] = member.value;
  }
  Json config{Json::Object{}};
  for (const auto& [key, value] : members) config.set(key, value);
  return value_or_throw(parse_model_config(config.to_string(), "small"));
}

/// How tokens choose experts: in turn; so that a rank gets all that it can; or by uneven loads, of
/// which one is none.
enum class Scenario : std::uint8_t { kBalanced, kWorst, kLoads };
inline constexpr Scenario kUneven[] = {Scenario::kWorst, Scenario::kLoads};
/// The composition's config under that routing, the worst for `rank`.
inline ModelConfig config_of(const Composition& composition, Scenario scenario,
                             std::int64_t rank = 0) {
  ModelConfig config = small_config(composition.changes, composition.parallel);
  RoutingConfig& routing = config.routing;
  if (scenario == Scenario::kBalanced) return config;
  routing.force_balance = false;
  routing.forced_loads = {9, 0, 9, 6, 5, 4, 2, 1, 8, 7, 3, 5};
  routing.forced_loads.resize(static_cast<std::size_t>(config.num_experts));
  if (scenario == Scenario::kWorst) {
    routing.forced_loads = value_or_throw(worst_loads(
        config, composition.parallel, {.rank = rank, .num_ranks = composition.num_ranks()}));
  }
  if (routing.capacity_factor) {  // with room for every token
    routing.capacity_factor =
        static_cast<double>(config.num_experts) / static_cast<double>(config.router_top_k);
  }
  return config;
}

}  // namespace tessera::testing
