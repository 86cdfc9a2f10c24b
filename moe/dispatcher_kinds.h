// moe/dispatcher_kinds.h: makes a dispatcher of each kind; each has a source of its own. For
// dispatcher.cc.
#pragma once

#include <memory>
#include <string>

#include "moe/dispatcher.h"
#include "moe/routed_slots.h"

namespace tessera {

/// A group of one rank: rows are put in expert order; nothing moves, no size depends on counts.
std::unique_ptr<Dispatcher> make_local_dispatcher(const ExpertGroup& group,
                                                  std::int64_t num_experts,
                                                  const DispatchConfig& config);
/// One all-to-all-v along ep, of exact or (rows_bound) of fixed size; rows are gathered along etp
/// behind it.
std::unique_ptr<Dispatcher> make_exchange_dispatcher(const ExpertGroup& group,
                                                     std::int64_t num_experts,
                                                     const DispatchConfig& config);
struct NodeShape {
  std::string layer;             ///< for errors
  std::int64_t ep_per_node = 1;  ///< positions of ep in each node
};
/// Each token once to every node with experts of its own, to the rank of the same position, which
/// passes it on within the node: by messages, or (kPeer) straight to its places.
std::unique_ptr<Dispatcher> make_node_dispatcher(const ExpertGroup& group, std::int64_t num_experts,
                                                 const DispatchConfig& config, NodeShape nodes);
/// Rows go straight to their places in the memory of the ranks that hold their experts.
std::unique_ptr<Dispatcher> make_peer_dispatcher(const ExpertGroup& group, std::int64_t num_experts,
                                                 const DispatchConfig& config,
                                                 const std::string& layer);
/// The tokens of all ranks on each, which picks the rows of its experts.
std::unique_ptr<Dispatcher> make_gather_dispatcher(const ExpertGroup& group,
                                                   std::int64_t num_experts,
                                                   const DispatchConfig& config);

}  // namespace tessera
