#include "dtensor/stated_step.h"

#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_format.h"
#include "dtensor/redistribute.h"
#include "dtensor/resolve_call.h"
#include "dtensor/tensor_impl.h"

namespace tessera {

StatedStep::StatedStep(Runtime& runtime, std::shared_ptr<const ResolvedCall> call)
    : runtime_(&runtime), call_(std::move(call)) {}

StatusOr<StatedStep> StatedStep::make(Runtime& runtime, const Op& op,
                                      std::span<const Spec* const> operands,
                                      std::span<const Spec* const> results, const Attrs& attrs,
                                      std::string_view row) {
  const auto interned = [&](std::span<const Spec* const> specs) {
    absl::InlinedVector<const Spec*, 4> own;
    for (const Spec* each : specs) own.push_back(each == nullptr ? nullptr : runtime.intern(*each));
    return own;
  };
  const auto in = interned(operands), out = interned(results);
  try {
    return StatedStep(
        runtime, resolve_stated(runtime, op, {{in.data(), in.size()}, {out.data(), out.size()}},
                                attrs, row));
  } catch (const Error& error) {
    return error.status();
  }
}

Results StatedStep::run(Operands operands, const Site& site) const {
  return run_resolved(*runtime_, call_, operands, site);
}

bool StatedStep::communicates() const noexcept { return call_->lowered; }

StatusOr<StatedMove> StatedMove::make(Runtime& runtime, const Spec& from, const Spec& to,
                                      PlannedBy by) {
  StatedMove made;
  made.to_ = runtime.intern(to);
  try {
    if (by == PlannedBy::kRuntime) {
      made.plan_ = std::make_shared<Plan>(plan_between(runtime, runtime.intern(from), made.to_));
    } else {
      made.plan_ = std::make_shared<Plan>(value_or_throw(tessera::plan(from, to)));
    }
    made.program_ = std::make_shared<PlanProgram>(runtime.world(), *made.plan_);
  } catch (const Error& error) {
    return error.status();
  }
  return made;
}

DTensor StatedMove::run(const DTensor& x, Origin origin, std::string_view needed_by,
                        const Site& site) const {
  if (x.impl()->spec == to_) return x;
  const MoveInfo info = {.origin = origin, .tensor = x.name(), .needed_by = needed_by};
  return move_by(x, to_, *program_, info, site);
}

DTensor same_elements(const DTensor& x, const Spec& as) {
  Runtime& runtime = x.runtime();
  const Spec* spec = runtime.intern(as);
  const Coord* coord = runtime.coord_on(spec);
  const bool fits = coord == nullptr ? x.local().is_null()
                                     : !x.local().is_null() && x.dtype() == as.dtype() &&
                                           x.local().shape() == as.local_shape(*coord);
  if (!fits) {
    throw Error(failed_precondition(
        absl::StrFormat("alias: this rank's part of %s is no part of %s; they differ in shape or "
                        "dtype",
                        x.spec().to_string(), as.to_string())));
  }
  DTensor result = make_tensor(runtime, spec, x.local());
  set_base(result, x);
  return result;
}

}  // namespace tessera
