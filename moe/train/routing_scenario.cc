#include "moe/train/routing_scenario.h"

#include <cstdint>

#include "absl/strings/str_format.h"
#include "io/file.h"
#include "io/json.h"
#include "moe/layer/dispatch.h"
#include "moe/layer/forced_routing.h"
#include "moe/layer/routed_slots.h"

namespace tessera {
namespace {

constexpr std::int64_t kMaxLoadBytes = std::int64_t{64} << 20;  // a line of 2,048 layers

/// Adds a list of numbers to `loads`, which may be empty yet.
Status add_list(const JsonView& list, std::vector<double>& loads) {
  TSR_ASSIGN_OR_RETURN(const std::vector<JsonView> items, list.items());
  if (loads.empty()) loads.resize(items.size());
  if (loads.size() != items.size()) {
    return list.error(
        absl::StrFormat("has %d numbers; the layers before have %d", items.size(), loads.size()));
  }
  for (std::size_t expert = 0; expert < items.size(); ++expert) {
    TSR_ASSIGN_OR_RETURN(const double load, items[expert].number());
    if (load < 0.0) {
      return items[expert].error(absl::StrFormat("is %g; 0 or more is allowed", load));
    }
    loads[expert] += load;
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::vector<double>> worst_loads(const ModelConfig& config, const ParallelConfig& parallel,
                                          const SimulatedPlace& place) {
  TSR_ASSIGN_OR_RETURN(const MeshViews first, MeshViews::make(parallel, place.num_ranks));
  if (place.rank < 0 || place.rank >= place.num_ranks) {
    return invalid_argument(
        absl::StrFormat("rank %d: 0 to %d are allowed", place.rank, place.num_ranks - 1));
  }
  TSR_ASSIGN_OR_RETURN(const MeshViews views, first.at_stage(first.stage_of(place.rank)));
  const std::int64_t position =
      position_along(views.sparse(), views.sparse_axes({"ep"}), place.rank);
  const std::vector<std::int64_t> held = experts_by_rank(config.num_experts, views.ep());
  std::int64_t expert = 0;
  for (std::int64_t before = 0; before < position; ++before) {
    expert += held[static_cast<std::size_t>(before)];
  }
  std::vector<double> loads(static_cast<std::size_t>(config.num_experts), 0.0);
  for (std::int64_t k = 0; k < config.router_top_k; ++k, ++expert) {
    loads[static_cast<std::size_t>(expert % config.num_experts)] = 1.0;
  }
  return loads;
}

StatusOr<std::vector<double>> parse_loads(std::string_view text, std::string_view source,
                                          const ModelConfig& config) {
  TSR_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::parse(text, source));
  const JsonView root = document.root();
  std::vector<double> loads;
  JsonView place = root;
  if (root.kind() == Json::Kind::kObject && root.find("tokens_per_expert")) {
    place = *root.find("tokens_per_expert");
    TSR_RETURN_IF_ERROR(
        place.for_each_item([&](const JsonView& layer) { return add_list(layer, loads); }));
  } else {
    TSR_RETURN_IF_ERROR(root.check_keys({"version", "experts"}));
    TSR_ASSIGN_OR_RETURN(const JsonView version, root.at("version"));
    TSR_RETURN_IF_ERROR(version.integer_in(1, 1).status());
    TSR_ASSIGN_OR_RETURN(place, root.at("experts"));
    TSR_RETURN_IF_ERROR(add_list(place, loads));
  }
  const Status fits = check_loads(loads, config.num_experts, config.router_top_k);
  if (!fits.ok()) return place.annotate(fits);
  return loads;
}

Status force_routing(const std::string& scenario, const ParallelConfig& parallel,
                     const SimulatedPlace& place, ModelConfig& config) {
  RoutingConfig& routing = config.routing;
  routing.force_balance = scenario == "balanced";
  routing.forced_loads.clear();
  if (routing.force_balance) return absl::OkStatus();
  if (scenario == "worst") {
    TSR_ASSIGN_OR_RETURN(routing.forced_loads, worst_loads(config, parallel, place));
    return absl::OkStatus();
  }
  TSR_ASSIGN_OR_RETURN(const std::string text, read_file(scenario, kMaxLoadBytes));
  TSR_ASSIGN_OR_RETURN(routing.forced_loads, parse_loads(text, scenario, config));
  return absl::OkStatus();
}

}  // namespace tessera
