// placement/plan_priced.h: plans with the price that they were chosen for. Internal to the planner.
#pragma once

#include <optional>
#include <vector>

#include "placement/plan.h"
#include "placement/price_table.h"

namespace tessera {

struct PricedPlan {
  Plan plan;
  std::optional<MovePrice> price;  ///< none where no other way was compared
};
/// The cheapest steps, of specs that differ and fit each other.
struct PricedSteps {
  std::vector<PlanStep> steps;
  std::optional<MovePrice> price;
};
PricedSteps best_steps(const Spec& src, const Spec& dst, const Topology* topology);

/// As plan(), with its errors.
StatusOr<PricedPlan> plan_priced(const Spec& src, const Spec& dst, const PlanOptions& options);

}  // namespace tessera
