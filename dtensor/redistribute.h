// dtensor/redistribute.h: moves between interned specs, planned once. For this layer's sources
// only.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "dtensor/dtensor.h"
#include "runtime/plan/execute.h"

namespace tessera {

/// How a tensor is moved, for events.
struct MoveInfo {
  Origin origin = Origin::kExplicit;
  std::string_view tensor = {};
  std::string_view why = {};
  /// Of the gradient, as redistribute() takes it; checked.
  std::span<const std::optional<Placement>> grad = {};
  std::string_view needed_by = {};  ///< the op's operand, for who observes
};
/// The plan between two interned specs, made once and priced by the Runtime's topology. Throws
/// Error.
const Plan& plan_between(Runtime& runtime, const Spec* src, const Spec* dst);
/// The same, ready to be executed on this rank.
const PlanProgram& program_between(Runtime& runtime, const Spec* src, const Spec* dst);
/// Moves by a plan from the tensor's spec to `to`, another one.
DTensor move_by(const DTensor& x, const Spec* to, const PlanProgram& program, const MoveInfo& info,
                const Site& site);
/// Plans and moves; the tensor itself where nothing changes, its gradient included.
DTensor move(const DTensor& x, const Spec* to, const MoveInfo& info, const Site& site);

}  // namespace tessera
