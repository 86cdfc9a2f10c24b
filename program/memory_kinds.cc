// What the memory of a step is held for: by roles, by what is made of parameters, and by what ends
// in an optimizer's hands.
#include <algorithm>

#include "program/memory_script.h"

namespace tessera {
namespace {

class KindFinder {
 public:
  explicit KindFinder(Script& script) : script_(script) {}

  void run() {
    for (ScriptValue& value : script_.values) value.kind = kind_of_role(value.value->role);
    walk(script_.steps);
    for (ScriptValue& value : script_.values) {
      if (value.value->name.starts_with("grad.")) make_gradient(value);
    }
    for (const ScriptRepeat& repeat : script_.repeats) {
      for (const auto& [begin, end] : repeat.carry) {
        if (root(end).kind == MemoryKind::kGradient) make_gradient(root(begin));
        if (root(begin).kind == MemoryKind::kGradient) make_gradient(root(end));
      }
    }
    for (auto step = order_.rbegin(); step != order_.rend(); ++step) trace_gradient(**step);
  }

 private:
  static MemoryKind kind_of_role(ValueRole role) {
    switch (role) {
      case ValueRole::kParameter:
        return MemoryKind::kParameter;
      case ValueRole::kState:
        return MemoryKind::kOptimizer;
      case ValueRole::kBuffer:
        return MemoryKind::kBuffer;
      case ValueRole::kInput:
        return MemoryKind::kInput;
      case ValueRole::kTemporary:
        break;
    }
    return MemoryKind::kActivation;
  }

  ScriptValue& at(int index) { return script_.values[static_cast<std::size_t>(index)]; }
  ScriptValue& root(int index) {
    const int shares = at(index).shares;
    return at(shares < 0 ? index : shares);
  }
  const AnyStep& written(const ScriptStep& step) const {
    return *script_.written[static_cast<std::size_t>(step.written)].step;
  }
  std::optional<StepPhase> phase_of(int value) {
    return at(value).maker == nullptr ? std::nullopt : at(value).maker->phase;
  }
  bool is_of_parameter(int value) {
    const MemoryKind kind = root(value).kind;
    return kind == MemoryKind::kParameter || kind == MemoryKind::kGathered;
  }
  static void make_gradient(ScriptValue& value) {
    if (value.kind == MemoryKind::kActivation) value.kind = MemoryKind::kGradient;
  }

  void walk(const std::vector<ScriptStep>& steps) {
    for (const ScriptStep& step : steps) {
      if (step.repeat >= 0) {
        walk(script_.repeats[static_cast<std::size_t>(step.repeat)].steps);
        continue;
      }
      order_.push_back(&step);
      const AnyStep& of = written(step);
      const bool gathers = copies_parameters(step, of);
      for (const ScriptResult& result : step.results) {
        ScriptValue& value = at(result.value);
        if (gathers && result.shares < 0 && value.kind == MemoryKind::kActivation) {
          value.kind = MemoryKind::kGathered;
        }
      }
      if (of.origin.phase == StepPhase::kOptimizer) find_gradients(step);
    }
  }

  bool copies_parameters(const ScriptStep& step, const AnyStep& of) {
    const bool all = !step.uses.empty() &&
                     std::ranges::all_of(step.uses, [&](int use) { return is_of_parameter(use); });
    if (!all) return false;
    if (std::holds_alternative<MoveStep>(of.what)) return true;
    if (const auto* call = std::get_if<CallStep>(&of.what)) return call->op == "to";
    const auto* region = std::get_if<RegionStep>(&of.what);
    return region != nullptr && (region->name.find("gather") != std::string::npos ||
                                 std::ranges::any_of(region->moves, [](const ProgramMove& move) {
                                   return move.collective.find("gather") != std::string::npos;
                                 }));
  }

  /// What an optimizer reads beside a parameter of that shape, and did not make.
  void find_gradients(const ScriptStep& step) {
    for (const int parameter : step.uses) {
      if (root(parameter).kind != MemoryKind::kParameter) continue;
      for (const int use : step.uses) {
        const bool is_alike = at(use).value->global_shape == at(parameter).value->global_shape;
        if (is_alike && phase_of(use) != StepPhase::kOptimizer) make_gradient(root(use));
      }
    }
  }

  /// What a gradient is reduced, cast or added up from is one too.
  void trace_gradient(const ScriptStep& step) {
    const AnyStep& of = written(step);
    const auto* call = std::get_if<CallStep>(&of.what);
    if (call != nullptr && call->op != "to" && call->op != "add") return;
    if (std::holds_alternative<HostReadStep>(of.what) || step.frees) return;
    for (const ScriptResult& result : step.results) {
      const ScriptValue& value = at(result.value);
      if (result.shares >= 0 || value.kind != MemoryKind::kGradient) continue;
      for (const int use : step.uses) {
        const bool is_alike = at(use).value->global_shape == value.value->global_shape;
        if (is_alike && phase_of(use) != StepPhase::kForward) make_gradient(root(use));
      }
    }
  }

  Script& script_;
  std::vector<const ScriptStep*> order_;
};

}  // namespace

void find_kinds(Script& script) { KindFinder(script).run(); }

}  // namespace tessera
