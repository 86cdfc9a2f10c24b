#include "moe/dispatcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "moe/dispatcher_kinds.h"

namespace tessera {
namespace {

std::int64_t size_along(const Mesh& mesh, std::span<const int> axes) {
  std::int64_t size = 1;
  for (const int axis : axes) size *= mesh.size(axis);
  return size;
}

Status check_sizes(const std::string& layer, std::int64_t num_experts,
                   const DispatchConfig& config) {
  struct Size {
    const char* name;
    std::int64_t value, low;
  };
  const Size sizes[] = {{"num_experts", num_experts, 1},
                        {"expert_alignment", config.expert_alignment, 1},
                        {"dispatch_chunks", config.chunks, 1},
                        {"rows_bound", config.rows_bound, 0},
                        {"ranks_per_node", config.ranks_per_node, 0}};
  for (const Size& size : sizes) {
    if (size.value >= size.low) continue;
    return invalid_argument(absl::StrFormat("%s: %s is %d; at least %d is allowed", layer,
                                            size.name, size.value, size.low));
  }
  return absl::OkStatus();
}

/// `senders`: ranks among which a receiver's rows are split.
Status check_bound(const std::string& layer, std::int64_t senders, const DispatchConfig& config) {
  const std::int64_t least = senders * config.chunks;
  if (config.rows_bound == 0 || config.rows_bound >= least) return absl::OkStatus();
  return invalid_argument(absl::StrFormat(
      "%s: rows_bound %d leaves no row for each of %d senders in each of %d chunks; at least %d is "
      "allowed",
      layer, config.rows_bound, senders, config.chunks, least));
}

/// Positions of ep in each node. All of ep where a node holds the group.
StatusOr<std::int64_t> ep_per_node(const std::string& layer, const ExpertGroup& group,
                                   const DispatchConfig& config) {
  const std::int64_t ranks = config.ranks_per_node;
  if (ranks >= group.size()) return group.ep_size();
  if (ranks >= 1 && group.size() % ranks == 0 && ranks % group.etp_size() == 0) {
    return ranks / group.etp_size();
  }
  return invalid_argument(
      absl::StrFormat("%s: ranks_per_node %d; the %s dispatcher needs a multiple of etp "
                      "%d that divides ep x etp = %d",
                      layer, ranks, config.kind == DispatcherKind::kPeer ? "peer" : "hierarchical",
                      group.etp_size(), group.size()));
}

}  // namespace

AxisGroup ExpertGroup::all() const {
  std::vector<int> axes = ep_axes;
  axes.insert(axes.end(), etp_axes.begin(), etp_axes.end());
  return {mesh, std::move(axes)};
}
std::int64_t ExpertGroup::ep_size() const { return size_along(mesh, ep_axes); }
std::int64_t ExpertGroup::etp_size() const { return size_along(mesh, etp_axes); }

StatusOr<std::unique_ptr<Dispatcher>> Dispatcher::make(const std::string& layer,
                                                       const ExpertGroup& group,
                                                       std::int64_t num_experts,
                                                       const DispatchConfig& config) {
  TSR_RETURN_IF_ERROR(check_sizes(layer, num_experts, config));
  if (group.size() == 1) return make_local_dispatcher(group, num_experts, config);
  const std::int64_t ep = group.ep_size();
  switch (config.kind) {
    case DispatcherKind::kAllGather:
      TSR_RETURN_IF_ERROR(check_bound(layer, 1, config));
      return make_gather_dispatcher(group, num_experts, config);
    case DispatcherKind::kHierarchical: {
      TSR_ASSIGN_OR_RETURN(const std::int64_t per_node, ep_per_node(layer, group, config));
      if (per_node == ep) break;
      TSR_RETURN_IF_ERROR(check_bound(layer, std::max(per_node, ep / per_node), config));
      return make_node_dispatcher(group, num_experts, config, {layer, per_node});
    }
    case DispatcherKind::kPeer: {
      const bool one_node = config.ranks_per_node == 0 || config.ranks_per_node >= group.size();
      if (one_node) {
        TSR_RETURN_IF_ERROR(check_bound(layer, 1, config));
        return make_peer_dispatcher(group, num_experts, config, layer);
      }
      TSR_ASSIGN_OR_RETURN(const std::int64_t per_node, ep_per_node(layer, group, config));
      TSR_RETURN_IF_ERROR(check_bound(layer, ep / per_node, config));
      return make_node_dispatcher(group, num_experts, config, {layer, per_node});
    }
    case DispatcherKind::kAllToAll:
      break;
  }
  TSR_RETURN_IF_ERROR(check_bound(layer, ep, config));
  return make_exchange_dispatcher(group, num_experts, config);
}

Dispatched dispatch(const Dispatcher& dispatcher, const DTensor& x_TD, const RoutedTokens& tokens) {
  Dispatched out{.rows = {}, .plan = dispatcher.plan(tokens)};
  if (out.plan.routes.size() != 1) {
    throw Error(invalid_argument(absl::StrFormat(
        "dispatch: the dispatcher cuts tokens into %d chunks; take its plan() and each route",
        out.plan.routes.size())));
  }
  out.plan.routes[0]->begin(x_TD);
  out.rows = out.plan.routes[0]->arrive();
  return out;
}

DTensor combine(const DTensor& y_RD, const DTensor& weights_TK, const Dispatched& dispatched) {
  Route& route = *dispatched.plan.routes[0];
  route.begin_return(y_RD, weights_TK);
  return route.finish_return();
}

}  // namespace tessera
