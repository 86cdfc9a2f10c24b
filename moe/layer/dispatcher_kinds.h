// moe/layer/dispatcher_kinds.h: the dispatchers of this library; each has a source of its own. For
// dispatcher.cc and dispatcher_table.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "moe/layer/dispatcher_table.h"
#include "moe/layer/routed_slots.h"

namespace tessera {

/// Those of this library, with the checks of what they need.
std::vector<DispatcherDef> builtin_dispatchers();

/// A group of one rank: rows are put in expert order; nothing moves, no size depends on counts.
std::unique_ptr<Dispatcher> make_local_dispatcher(const DispatcherSetting& setting);
/// One all-to-all-v along ep, of exact or (rows_bound) of fixed size; rows are gathered along etp
/// behind it.
std::unique_ptr<Dispatcher> make_exchange_dispatcher(const DispatcherSetting& setting);
enum class WithinNode : std::uint8_t { kMessages, kMemory };
struct NodeShape {
  std::int64_t ep_per_node = 1;  ///< positions of ep in each node
  WithinNode within = WithinNode::kMessages;
};
/// Each token once to every node with experts of its own, to the rank of the same position, which
/// passes it on within the node: by messages, or straight to its places in their memory.
std::unique_ptr<Dispatcher> make_node_dispatcher(const DispatcherSetting& setting, NodeShape nodes);
/// Rows go straight to their places in the memory of the ranks that hold their experts.
std::unique_ptr<Dispatcher> make_peer_dispatcher(const DispatcherSetting& setting);
/// The tokens of all ranks on each, which picks the rows of its experts.
std::unique_ptr<Dispatcher> make_gather_dispatcher(const DispatcherSetting& setting);

}  // namespace tessera
