// placement/plan_cost.h: what a plan moves and what it costs, from specs alone: bytes, messages,
// memory and time, beside the fewest bytes that any plan could move.
#pragma once

#include <cstdint>
#include <vector>

#include "placement/api.h"
#include "placement/plan.h"
#include "placement/topology.h"

namespace tessera TSR_API {

/// A quantity over ranks.
struct Volume {
  std::int64_t max = 0;    ///< of the rank with most
  std::int64_t total = 0;  ///< of all ranks
  bool operator==(const Volume&) const = default;
};

struct StepCost {
  Volume bytes_received;  ///< bytes from other ranks
  Volume messages;        ///< messages received: peers that send something
  double estimated_us =
      0;  ///< step_us + α · messages + β · bytes of the busiest rank; 0 without a topology
};
/// Cost: independent of the number of ranks where dims of the two layouts share few axes.
StepCost cost_of(const PlanStep& step, const Topology* topology = nullptr);
/// Its bytes alone: cheaper.
Volume bytes_of(const PlanStep& step);

/// The fewest bytes. Without Partial, per rank |needs \ has|: max and total are reached together.
/// With Partial over p contributors and |D| target ranks an element takes (p−1) + (|D|−1) + [no
/// contributor in D] messages: `total` is that bound, and `max` its mean over the target's ranks.
Volume lower_bound(const Spec& src, const Spec& dst);

struct PlanCost {
  std::vector<StepCost> steps;
  Volume bytes_received;  ///< over all steps
  Volume messages;        ///< likewise
  Volume lower_bound;
  /// Most bytes that any rank holds at one time: arrays read and written by a step, the source (its
  /// owner keeps it), pack buffers. At most source + target + the larger of the two + the cap.
  std::int64_t peak_local_bytes = 0;
  double estimated_us = 0;
  /// bytes_received.total / lower_bound.total; 1 where both are 0.
  double ratio() const noexcept;
};
/// Maxima and the peak are exact up to 128 ranks. Beyond, the peak is a bound, and with an
/// all-reduce or a fill among several steps maxima are sums of the steps'. Cost: O(ranks · peers)
/// up to 128 ranks and between meshes, else that of its steps.
PlanCost cost_of(const Plan& plan, const Topology* topology = nullptr);

/// One rank's share of a plan.
struct RankCost {
  std::int64_t rank = 0;
  std::int64_t bytes_received = 0, bytes_sent = 0, messages = 0;
  std::int64_t peak_local_bytes = 0;
};
RankCost cost_on(const Plan& plan, std::int64_t rank);
/// Every rank of either mesh, ascending.
std::vector<std::int64_t> ranks_of(const Plan& plan);

}  // namespace tessera
