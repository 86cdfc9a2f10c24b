// runtime/measure_links.h: what messages between ranks of this world take, measured, and the
// topology that says so.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "placement/api.h"
#include "placement/topology.h"
#include "runtime/world.h"

namespace tessera TSR_API {

/// Messages of one size between two ranks.
struct MessageTime {
  std::int64_t bytes = 0;
  double us = 0;  ///< one way: half a round trip, the median of many
};
/// Two ranks, the lower one first, by ascending size of message.
struct PairTimes {
  std::int64_t a = 0, b = 0;
  std::vector<MessageTime> messages;
};
/// A collective of a few bytes a rank.
struct CollectiveTime {
  std::int64_t ranks = 0;  ///< of a block of the topology, or all
  double us = 0;           ///< median over calls, then over ranks
};

struct MeasuredLinks {
  Topology topology;
  std::vector<PairTimes> pairs;
  std::vector<CollectiveTime> collectives;
  std::vector<std::string> hosts;  ///< of each rank, by rank
};

/// Times messages between pairs of ranks, one pair after another, and small collectives. All pairs
/// of up to 16 ranks, else some at every distance of 2^k. Classes of links come from the data (see
/// classes_of()); step_us is what small collectives take beyond their messages.
/// Collective: yes, over the world; all ranks get the same. Units: `seconds` for the pairs
/// together, about. Throws Error; InvalidArgument for a world of one rank.
MeasuredLinks measure_links(World& world, double seconds);

/// Blocks of consecutive ranks inside which messages take much less than between them: those of
/// one host where all hosts have as many ranks in a row, and blocks that divide these or the world
/// wherever the slower quarter of what is inside is still quicker, by half at least, than the
/// quicker quarter of what is between. From the innermost; step_us is 0. Requires two ranks at
/// least, and a pair of every class that is to be found. Pure.
Topology classes_of(const std::vector<PairTimes>& pairs, const std::vector<std::string>& hosts);

}  // namespace tessera
