// runtime/call/flows.h: who sends how much to whom in a collective, for traces. A call of one rank
// has a flow to each rank that it sends to, and from each that it receives from.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "placement/api.h"
#include "runtime/call/communicator.h"
#include "runtime/call/event.h"
#include "runtime/call/signature.h"

namespace tessera TSR_API {

/// By group rank, ascending; none of zero bytes.
struct Flows {
  std::vector<Flow> sent, received;
};
/// Of a prepared call. They add up to traffic_of(), and what one rank sends to another is what the
/// other receives from it. Pure: the bytes that the call is about, whatever way a backend takes.
Flows flows_of(const CollectiveCall& call, const GroupPlace& place);

/// A call among its group's.
struct CallPlace {
  GroupPlace group;
  std::span<const std::int64_t> ranks;  ///< of the world, by group rank
  std::uint64_t sequence = 0;           ///< in its lane
};
/// What a trace needs of a prepared call, before its memory. Cost: some allocations; ask only where
/// the log is tracing.
EventTrace trace_of(const CollectiveCall& call, const CallPlace& place);

}  // namespace tessera
