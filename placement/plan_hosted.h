// placement/plan_hosted.h: the boxes between two ranks where elements land in, or lie in, a larger
// array than their own part of it.
#pragma once

#include <vector>

#include "placement/plan.h"

namespace tessera {

/// Runs of each tensor dim: the box is their product.
using BoxRuns = std::vector<std::vector<Run>>;

/// A rank of the target and one of the source, as coords of their meshes.
struct PlanPair {
  Coord reader;
  Coord sender;
};

/// Of a step with a host. None where nothing goes; several where the reader has a part already.
std::vector<BoxRuns> hosted_boxes(const PlanStep& step, const PlanPair& pair);

}  // namespace tessera
