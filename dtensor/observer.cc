#include "dtensor/observer.h"

#include <utility>
#include <vector>

namespace tessera {

MarkScope::MarkScope(Runtime& runtime, const StepMarks& marks) : observer_(runtime.observer) {
  if (observer_ == nullptr) return;
  before_ = observer_->marks;
  StepMarks& now = observer_->marks;
  if (marks.stage) now.stage = marks.stage;
  if (marks.micro_batch) now.micro_batch = marks.micro_batch;
  if (marks.pass) now.pass = marks.pass;
  if (!marks.region.empty()) now.region = marks.region;
}

MarkScope::~MarkScope() {
  if (observer_ != nullptr) observer_->marks = before_;
}

void tell_region(Runtime& runtime, std::string_view name, RegionKind kind,
                 std::initializer_list<std::reference_wrapper<const DTensor>> args,
                 const DTensor& result, const Site& site) {
  if (runtime.observer == nullptr) return;
  std::vector<DTensor> given;
  for (const DTensor& each : args) {
    if (each.defined()) given.push_back(each);
  }
  const std::span<const DTensor> results(&result, result.defined() ? 1 : 0);
  runtime.observer->on_region(
      {.name = name, .args = given, .results = results, .kind = kind, .site = site});
}

}  // namespace tessera
