#include "program/program_names.h"

#include "absl/strings/str_format.h"
#include "program/program_json.h"

namespace tessera {

Status ProgramNames::define(const ProgramValue& value) {
  if (std::ssize(known_) == kMaxProgramValues) {
    return invalid_argument(absl::StrFormat("more than %d values", kMaxProgramValues));
  }
  const auto [at, added] =
      known_.try_emplace(value.name, Known{.global_shape = value.global_shape,
                                           .dtype = value.dtype,
                                           .mesh = value.mesh,
                                           .layout = value.layout,
                                           .varies = value.varies,
                                           .serial = static_cast<std::int64_t>(known_.size())});
  if (added) return absl::OkStatus();
  return invalid_argument(in_quotes(value.name) +
                          ": a value has this name already; each is made once");
}

StatusOr<const ProgramNames::Known*> ProgramNames::use(const std::string& name) const {
  const auto found = known_.find(name);
  if (found == known_.end()) {
    return invalid_argument(in_quotes(name) +
                            ": no such value here; values are declared, or made by a step before");
  }
  if (found->second.freed) {
    return invalid_argument(in_quotes(name) + ": the value was freed by a step before");
  }
  return &found->second;
}

Status ProgramNames::end(const std::string& name) {
  TSR_RETURN_IF_ERROR(use(name).status());
  Known& known = known_.find(name)->second;
  known.freed = true;
  if (!bodies_.empty() && known.serial < bodies_.back().first_serial) {
    bodies_.back().freed_outside.push_back(name);
  }
  return absl::OkStatus();
}

void ProgramNames::begin_body() {
  bodies_.push_back({.first_serial = static_cast<std::int64_t>(known_.size())});
}

Status ProgramNames::carry(const std::string& begin, const std::string& end) {
  const auto before = known_.find(begin);
  if (before == known_.end() || before->second.serial >= bodies_.back().first_serial) {
    return invalid_argument(in_quotes(begin) +
                            ": carries into a value that is not there before the repeat");
  }
  TSR_ASSIGN_OR_RETURN(const Known* after, use(end));
  Known& known = before->second;
  if (known.global_shape != after->global_shape || known.dtype != after->dtype ||
      known.mesh != after->mesh || known.layout != after->layout) {
    return invalid_argument(in_quotes(end) + ": is to be the next round's " + in_quotes(begin) +
                            ", but differs from it in shape, dtype, mesh or placements");
  }
  known.freed = false;
  return absl::OkStatus();
}

Status ProgramNames::end_body() {
  const Body body = std::move(bodies_.back());
  bodies_.pop_back();
  for (const std::string& name : body.freed_outside) {
    if (known_.find(name)->second.freed) {
      return invalid_argument(in_quotes(name) +
                              ": each round frees this value, which was made before the repeat; "
                              "carry another into it");
    }
  }
  return absl::OkStatus();
}

}  // namespace tessera
