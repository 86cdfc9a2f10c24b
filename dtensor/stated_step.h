// dtensor/stated_step.h: steps that somebody has decided to the last placement: a call that moves
// nothing and runs by one row, a redistribution for a named operand. What executes programs uses
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "dtensor/dispatch.h"
#include "dtensor/dtensor.h"
#include "placement/api.h"
#include "placement/plan.h"
#include "runtime/plan/execute.h"

namespace tessera TSR_API {

struct ResolvedCall;  // dtensor/resolved_call.h

/// Immutable; belongs to the Runtime that it was made for.
class StatedStep {
 public:
  /// `operands`, null where an optional one is absent, stay as they are; `results` are the op's
  /// own. `row`: as StatedCall has it. Errors: those of propagate_stated() and complete_attrs().
  static StatusOr<StatedStep> make(Runtime& runtime, const Op& op,
                                   std::span<const Spec* const> operands,
                                   std::span<const Spec* const> results, const Attrs& attrs,
                                   std::string_view row);
  /// Requires operands of those specs. Collective: yes, where the row talks inside of the op.
  Results run(Operands operands, const Site& site = Site()) const;
  /// Whether ranks talk inside of the op.
  bool communicates() const noexcept;

 private:
  StatedStep(Runtime& runtime, std::shared_ptr<const ResolvedCall> call);
  Runtime* runtime_;
  std::shared_ptr<const ResolvedCall> call_;
};

/// By what a redistribution's plan is the cheapest one.
enum class PlannedBy : std::uint8_t {
  kRuntime,  ///< as the Runtime prices its own
  kBytes     ///< received, as programs are priced
};

/// From one spec to another of the same shape and dtype, on its mesh or another, by one plan.
/// Immutable; belongs to its Runtime.
class StatedMove {
 public:
  /// Errors: those of plan(); InvalidArgument where it names ranks outside the world.
  static StatusOr<StatedMove> make(Runtime& runtime, const Spec& from, const Spec& to,
                                   PlannedBy by);
  const Plan& plan() const noexcept { return *plan_; }
  /// `x` itself where nothing changes. `needed_by`: "matmul.other", for observers of what nobody
  /// wrote. Collective: yes, where the plan moves bytes.
  DTensor run(const DTensor& x, Origin origin, std::string_view needed_by = {},
              const Site& site = Site()) const;

 private:
  StatedMove() = default;
  const Spec* to_ = nullptr;
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<const PlanProgram> program_;
};

/// The same elements of each rank under another spec, without a look at what they are. Errors:
/// FailedPrecondition where this rank's part has another shape or dtype under it.
DTensor same_elements(const DTensor& x, const Spec& as);

}  // namespace tessera
