#include "program/export/value_flow.h"

#include "io/json.h"
#include "program/step_names.h"
#include "program/unfold.h"

namespace tessera {

Status ValueFlow::declare(ProgramValue value, std::int64_t step) {
  if (value.mesh && !value.layout) {
    return failed_precondition("value " + in_quotes(value.name) +
                               " has no placements yet; placement-audit solve finds them");
  }
  const auto index = static_cast<int>(values_.size());
  names_[value.name] = index;
  values_.push_back({.value = std::move(value), .made_by = step, .root = index});
  return absl::OkStatus();
}

StatusOr<ValueFlow> ValueFlow::make(const Program& program) {
  ValueFlow flow;
  TSR_ASSIGN_OR_RETURN(flow.program_, unfold(program));
  for (const ProgramValue& value : flow.program_.values) {
    TSR_RETURN_IF_ERROR(flow.declare(value, kBeforeAll));
  }
  for (AnyStep& step : flow.program_.steps) {
    const std::int64_t number = std::ssize(flow.reads_);
    std::vector<int>& reads = flow.reads_.emplace_back();
    std::vector<int>& makes = flow.makes_.emplace_back();
    Status status = absl::OkStatus();
    const auto use = [&](const std::string& name) {
      const auto found = flow.names_.find(name);
      if (found == flow.names_.end()) return;
      reads.push_back(found->second);
      std::vector<std::int64_t>& readers =
          flow.values_[static_cast<std::size_t>(found->second)].read_by;
      if (readers.empty() || readers.back() != number) readers.push_back(number);
    };
    const auto make = [&](const ProgramValue& value) {
      makes.push_back(static_cast<int>(flow.values_.size()));
      status.Update(flow.declare(value, number));
    };
    if (std::holds_alternative<FreeStep>(step.what)) continue;
    visit_names(step, use, make);
    TSR_RETURN_IF_ERROR(status);
    if (std::holds_alternative<MoveStep>(step.what) && !reads.empty()) {
      flow.values_.back().root = flow.at(reads[0]).root;
    }
  }
  return flow;
}

std::string ValueFlow::maker_of(int index) const {
  const FlowValue& flow = at(index);
  if (flow.made_by == kBeforeAll) return std::string(name_of(flow.value.role));
  const auto& what = step(flow.made_by).what;
  if (const auto* call = std::get_if<CallStep>(&what)) return call->op;
  if (const auto* region = std::get_if<RegionStep>(&what)) return region->name;
  return "redistribute";
}

const std::string& ValueFlow::module_of(int index) const {
  const FlowValue& flow = at(index);
  if (flow.made_by == kBeforeAll || !flow.value.module.empty()) return flow.value.module;
  return step(flow.made_by).origin.module;
}

}  // namespace tessera
