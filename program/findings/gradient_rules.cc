// Gradients that ranks do not agree on.
#include <algorithm>
#include <set>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "program/findings/rules.h"
#include "program/findings/texts.h"
#include "strategies/rules/row_pattern.h"

namespace tessera {
namespace {

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The parameter that a value is the gradient of, by its name; -1 where it is none.
int parameter_of(const FindingContext& context, const ProgramValue& value) {
  if (!value.name.starts_with("grad.")) return -1;
  const int found = context.find_value(std::string_view(value.name).substr(5));
  if (found < 0 || context.value(found).value->role != ValueRole::kParameter) return -1;
  return found;
}

/// Axes along which `value` differs and `parameter` does not.
std::vector<std::string> stray_axes(const FindingContext& context, int value, int parameter) {
  std::vector<std::string> axes;
  for (const std::string& axis : context.value(value).value->varies) {
    const ProgramValue& kept = *context.value(parameter).value;
    if (contains(kept.varies, axis)) continue;
    // Cut along it, every rank has a gradient of its own piece.
    const bool own =
        kept.mesh &&
        context.program().meshes[static_cast<std::size_t>(*kept.mesh)].mesh.find_axis(axis).ok();
    if (!own) axes.push_back(axis);
  }
  return axes;
}

/// The axes that a tracer's warning names: "… may differ along dp, tp and is declared R there: …".
std::vector<std::string> warned_axes(std::string_view warning) {
  constexpr std::string_view kMay = "may differ along ";
  const std::size_t begin = warning.find(kMay);
  if (begin == std::string_view::npos) return {};
  std::string_view names = warning.substr(begin + kMay.size());
  names = names.substr(0, std::min(names.find(", where"), names.find(" and is")));
  return absl::StrSplit(std::string(names), ", ");
}

class Reductions {
 public:
  explicit Reductions(FindingContext& context) : context_(context) {}

  void look_at_region(int step, const RegionStep& region) {
    std::vector<std::string> axes = warned_axes(region.warning);
    if (axes.empty() && region.name == "from_local") axes = declared_whole(step);
    if (axes.empty()) return;
    const std::string made = region.out.empty() ? region.name : region.out[0].name;
    const std::string names = absl::StrJoin(axes, ",");
    const bool reduced_here = region.name == "fsdp_reduce_scatter";
    report(step, axes, made,
           reduced_here
               ? absl::StrFormat("%s is reduced, but not over %s, along which its summands differ",
                                 made, names)
               : absl::StrFormat("%s is declared R on %s, but ranks along it have values of their "
                                 "own",
                                 made, names),
           reduced_here
               ? absl::StrFormat("all_reduce the gradient over %s before the optimizer", names)
               : absl::StrFormat("declare it P(sum) on %s, as Partial(), or all_reduce it there",
                                 names));
  }

  void look_at_gradient(int value, int parameter) {
    const std::vector<std::string> axes = stray_axes(context_, value, parameter);
    if (axes.empty()) return;
    const std::string names = absl::StrJoin(axes, ",");
    const std::string& gradient = context_.value(value).value->name;
    const std::string module = context_.value(parameter).value->module;
    report(context_.value(value).made_by, axes, gradient,
           absl::StrFormat("%s differs along %s, where %s does not: replicas drift apart", gradient,
                           names, context_.value(parameter).value->name),
           absl::StrFormat("all_reduce the gradient over %s before the optimizer", names), module);
  }

  void look_at_update(int step, const CallStep& call) {
    for (const int written : context_.step(step).writes) {
      if (context_.value(written).value->role != ValueRole::kParameter) continue;
      for (const int operand : context_.operands(step)) {
        if (operand < 0 || operand == written) continue;
        look_at_summands(step, call, operand, written);
        if (!stray_axes(context_, operand, written).empty()) {
          look_at_gradient(gradient_behind(operand), written);
        }
      }
    }
  }

 private:
  /// Axes on which a value that ranks have each their own of is said to be whole.
  std::vector<std::string> declared_whole(int step) {
    std::vector<std::string> axes;
    const StepNode& node = context_.step(step);
    if (node.reads.size() != 1 || node.makes.size() != 1) return axes;
    const Spec* spec = context_.spec(node.makes[0]);
    if (spec == nullptr) return axes;
    for (const std::string& name : context_.value(node.reads[0]).value->varies) {
      const StatusOr<int> axis = spec->mesh().find_axis(name);
      if (axis.ok() && entry_of(*spec, *axis).kind == RowEntry::Kind::kReplicate) {
        axes.push_back(name);
      }
    }
    return axes;
  }
  void look_at_summands(int step, const CallStep& call, int operand, int parameter) {
    const Spec* spec = context_.spec(operand);
    if (spec == nullptr || !spec->has_partial()) return;
    std::vector<std::string> axes;
    for (int axis = 0; axis < spec->mesh().ndim(); ++axis) {
      if (entry_of(*spec, axis).kind == RowEntry::Kind::kPartial) {
        axes.push_back(spec->mesh().axis_label(axis));
      }
    }
    const std::string& name = context_.value(operand).value->name;
    report(step, axes, name,
           absl::StrFormat("%s updates %s by %s, which is %s: summands, not their sum", call.op,
                           context_.value(parameter).value->name, name, placements_text(spec)),
           "redistribute it to " + placements_text(context_.spec(parameter)) + " first");
  }
  /// The value before the optimizer's own arithmetic.
  int gradient_behind(int value) const {
    for (int hops = 0; hops < 16; ++hops) {
      const int made_by = context_.value(value).made_by;
      if (made_by < 0) return value;
      const StepNode& node = context_.step(made_by);
      if (node.step->origin.phase != StepPhase::kOptimizer || node.reads.empty()) return value;
      const auto varied = std::find_if(node.reads.begin(), node.reads.end(), [&](int read) {
        return !context_.value(read).value->varies.empty();
      });
      if (varied == node.reads.end()) return value;
      value = *varied;
    }
    return value;
  }
  void report(int step, const std::vector<std::string>& axes, const std::string& value,
              std::string cause, std::string fix, const std::string& module = "") {
    if (!told_.insert({step, absl::StrJoin(axes, ",")}).second) return;
    Finding finding = context_.start("lacks-reduction", step);
    finding.axes = axes;
    finding.collective.clear();
    finding.bytes = {};
    finding.value = value;
    if (step >= 0) finding.site = context_.site_near(step);
    if (finding.module.empty()) finding.module = group_of_layers(module);
    finding.measure = "over " + absl::StrJoin(axes, ",");
    finding.cause = std::move(cause);
    finding.fix = std::move(fix);
    context_.add(std::move(finding), step);
  }

  FindingContext& context_;
  std::set<std::pair<int, std::string>> told_;
};

}  // namespace

Status find_missing_reductions(FindingContext& context) {
  Reductions reductions(context);
  for (int i = 0; i < std::ssize(context.steps()); ++i) {
    const AnyStep& step = *context.step(i).step;
    if (const auto* region = std::get_if<RegionStep>(&step.what)) {
      reductions.look_at_region(i, *region);
    }
    for (const int made : context.step(i).makes) {
      const int parameter = parameter_of(context, *context.value(made).value);
      if (parameter >= 0) reductions.look_at_gradient(made, parameter);
    }
    if (const auto* call = std::get_if<CallStep>(&step.what)) reductions.look_at_update(i, *call);
  }
  return absl::OkStatus();
}

Status find_missing_gradient_placements(FindingContext& context) {
  for (int i = 0; i < std::ssize(context.values()); ++i) {
    const ValueNode& node = context.value(i);
    const int parameter = parameter_of(context, *node.value);
    if (parameter < 0 || !node.value->mesh || node.value->layout) continue;
    const Spec* placed = context.spec(parameter);
    if (placed == nullptr) continue;
    Finding finding = context.start("missing-gradient-placement", node.made_by);
    finding.value = node.value->name;
    finding.op = group_of_layers(node.value->name);
    if (node.made_by >= 0) finding.site = context.site_near(node.made_by);
    if (context.is_first(finding)) {
      finding.cause =
          absl::StrFormat("%s has no placements, while %s is %s", node.value->name,
                          context.value(parameter).value->name, placements_text(placed));
      finding.fix = "constrain it to " + placements_text(placed);
    }
    context.add(std::move(finding), node.made_by);
  }
  return absl::OkStatus();
}

}  // namespace tessera
