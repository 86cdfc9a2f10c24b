#include "moe/layer/dispatcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "io/json.h"
#include "moe/layer/dispatcher_kinds.h"
#include "moe/layer/simulated_peers.h"

namespace tessera {
namespace {

std::int64_t size_along(const Mesh& mesh, std::span<const int> axes) {
  std::int64_t size = 1;
  for (const int axis : axes) size *= mesh.size(axis);
  return size;
}

Status check_sizes(const DispatcherSetting& setting) {
  const DispatchConfig& config = setting.config;
  struct Size {
    const char* name;
    std::int64_t value, low;
  };
  const Size sizes[] = {{"num_experts", setting.num_experts, 1},
                        {"expert_alignment", config.expert_alignment, 1},
                        {"dispatch_chunks", config.chunks, 1},
                        {"rows_bound", config.rows_bound, 0},
                        {"ranks_per_node", config.ranks_per_node, 0}};
  for (const Size& size : sizes) {
    if (size.value >= size.low) continue;
    return invalid_argument(absl::StrFormat("%s: %s is %d; at least %d is allowed", setting.layer,
                                            size.name, size.value, size.low));
  }
  return absl::OkStatus();
}

/// `senders`: ranks among which a receiver's rows are split.
Status check_bound(const DispatcherSetting& setting, std::int64_t senders) {
  const DispatchConfig& config = setting.config;
  const std::int64_t least = senders * config.chunks;
  if (config.rows_bound == 0 || config.rows_bound >= least) return absl::OkStatus();
  return invalid_argument(absl::StrFormat(
      "%s: rows_bound %d leaves no row for each of %d senders in each of %d chunks; at least %d is "
      "allowed",
      setting.layer, config.rows_bound, senders, config.chunks, least));
}

/// Positions of ep in each node. All of ep where a node holds the group.
StatusOr<std::int64_t> ep_per_node(const DispatcherSetting& setting) {
  const ExpertGroup& group = setting.group;
  const std::int64_t ranks = setting.config.ranks_per_node;
  if (ranks >= group.size()) return group.ep_size();
  if (ranks >= 1 && group.size() % ranks == 0 && ranks % group.etp_size() == 0) {
    return ranks / group.etp_size();
  }
  return invalid_argument(absl::StrFormat(
      "%s: ranks_per_node %d; the %s dispatcher needs a multiple of etp "
      "%d that divides ep x etp = %d",
      setting.layer, ranks, setting.config.dispatcher, group.etp_size(), group.size()));
}

using Made = StatusOr<std::unique_ptr<Dispatcher>>;

/// Each row to the rank of its expert.
Made make_all_to_all(const DispatcherSetting& setting) {
  TSR_RETURN_IF_ERROR(check_bound(setting, setting.group.ep_size()));
  return make_exchange_dispatcher(setting);
}
/// Every token to every rank, which picks its experts' rows.
Made make_all_gather(const DispatcherSetting& setting) {
  TSR_RETURN_IF_ERROR(check_bound(setting, 1));
  return make_gather_dispatcher(setting);
}
/// All-to-all in two steps: across nodes, then within one.
Made make_hierarchical(const DispatcherSetting& setting) {
  TSR_ASSIGN_OR_RETURN(const std::int64_t per_node, ep_per_node(setting));
  const std::int64_t ep = setting.group.ep_size();
  if (per_node == ep) return make_all_to_all(setting);
  TSR_RETURN_IF_ERROR(check_bound(setting, std::max(per_node, ep / per_node)));
  return make_node_dispatcher(setting, {per_node, WithinNode::kMessages});
}
/// Each row straight to its place in the memory of its expert's rank; across nodes first, as
/// hierarchical.
Made make_peer(const DispatcherSetting& setting) {
  const std::int64_t ranks = setting.config.ranks_per_node;
  if (ranks == 0 || ranks >= setting.group.size()) {
    TSR_RETURN_IF_ERROR(check_bound(setting, 1));
    return make_peer_dispatcher(setting);
  }
  TSR_ASSIGN_OR_RETURN(const std::int64_t per_node, ep_per_node(setting));
  TSR_RETURN_IF_ERROR(check_bound(setting, setting.group.ep_size() / per_node));
  return make_node_dispatcher(setting, {per_node, WithinNode::kMemory});
}

}  // namespace

AxisGroup ExpertGroup::all() const {
  std::vector<int> axes = ep_axes;
  axes.insert(axes.end(), etp_axes.begin(), etp_axes.end());
  return {mesh, std::move(axes)};
}
std::int64_t ExpertGroup::ep_size() const { return size_along(mesh, ep_axes); }
std::int64_t ExpertGroup::etp_size() const { return size_along(mesh, etp_axes); }

std::vector<DispatcherDef> builtin_dispatchers() {
  return {{"all_to_all", make_all_to_all},
          {"all_gather", make_all_gather},
          {"hierarchical", make_hierarchical},
          {"peer", make_peer}};
}

StatusOr<std::unique_ptr<Dispatcher>> Dispatcher::make(const DispatcherSetting& setting) {
  TSR_RETURN_IF_ERROR(check_sizes(setting));
  const std::string& name = setting.config.dispatcher;
  const DispatcherDef* const def = find_dispatcher(name);
  if (def == nullptr) {
    return invalid_argument(absl::StrFormat("%s: dispatcher %s is none of %s", setting.layer,
                                            in_quotes(name),
                                            absl::StrJoin(dispatcher_names(), ", ")));
  }
  if (setting.group.size() == 1) return make_local_dispatcher(setting);
  return def->make(setting);
}

void Dispatcher::arrive(const SimulatedPeers& peers, const CollectiveCall& call,
                        std::span<const std::int64_t> ranks) const {
  using Kind = CollectiveCall::Kind;
  if (call.kind() == Kind::kAllToAll) peers.fill_counts(call, ranks, {peers.ep_rank(), 1});
  if (call.kind() == Kind::kAllGather) peers.fill_ids(call, ranks);
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
