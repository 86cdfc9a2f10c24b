#include "program/solver/constraints.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "placement/printable.h"

namespace tessera {
namespace {

Status malformed(const std::string& text, const std::string& why) {
  return invalid_argument(absl::StrFormat(
      "%s: %s; allowed: VALUES=S(0),R (one for each axis), VALUES@AXIS=S(1)|R, VALUES@AXIS!=S(0), "
      "each perhaps after MODULE: ; * stands for any text",
      in_quotes(text), why));
}

std::vector<std::string> parts_of(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// How the tensor lies on one axis, as placements have it; in other terms where they do not.
Placement placement_on(const Spec& spec, int axis) {
  const StatusOr<Placements> all = spec.placements();
  if (all.ok()) return (*all)[static_cast<std::size_t>(axis)];
  const RowEntry entry = entry_of(spec, axis);
  if (entry.kind == RowEntry::Kind::kShard) return Shard{entry.dim};
  if (entry.kind == RowEntry::Kind::kPartial) return Partial{entry.op};
  return Replicate{};
}

/// A dim counted from the end, from the front.
Placement counted(Placement placement, int ndim) {
  if (auto* shard = std::get_if<Shard>(&placement); shard != nullptr && shard->dim < 0) {
    shard->dim += ndim;
  } else if (auto* strided = std::get_if<StridedShard>(&placement);
             strided != nullptr && strided->dim < 0) {
    strided->dim += ndim;
  }
  return placement;
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view text) noexcept {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  if (!text.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (std::size_t at = star; at <= text.size(); ++at) {
    if (matches_pattern(rest, text.substr(at))) return true;
  }
  return false;
}

bool concerns(const PlacementConstraint& constraint, const ProgramValue& value,
              std::string_view module) noexcept {
  return (constraint.values.empty() || matches_pattern(constraint.values, value.name)) &&
         (constraint.module.empty() || matches_pattern(constraint.module, module));
}

bool allows(const PlacementConstraint& constraint, const Spec& spec) {
  if (constraint.axis.empty()) {
    if (static_cast<std::size_t>(spec.mesh().ndim()) != constraint.placements.size()) return true;
    for (int axis = 0; axis < spec.mesh().ndim(); ++axis) {
      const Placement& wanted = constraint.placements[static_cast<std::size_t>(axis)];
      const bool counts = spec.mesh().size(axis) > 1;
      if (counts && placement_on(spec, axis) != counted(wanted, spec.ndim())) return false;
    }
    return true;
  }
  for (int axis = 0; axis < spec.mesh().ndim(); ++axis) {
    if (spec.mesh().axis_label(axis) != constraint.axis || spec.mesh().size(axis) == 1) continue;
    const Placement is = placement_on(spec, axis);
    const bool listed =
        std::any_of(constraint.placements.begin(), constraint.placements.end(),
                    [&](const Placement& each) { return counted(each, spec.ndim()) == is; });
    return listed == constraint.allowed;
  }
  return true;
}

StatusOr<PlacementConstraint> parse_constraint(const std::string& text) {
  PlacementConstraint constraint;
  constraint.text = text;
  const std::size_t equal = text.find('=');
  if (equal == std::string::npos) return malformed(text, "it has no =");
  constraint.allowed = equal == 0 || text[equal - 1] != '!';
  std::string left = text.substr(0, constraint.allowed ? equal : equal - 1);
  const std::string right = text.substr(equal + 1);
  if (const std::size_t at = left.rfind('@'); at != std::string::npos) {
    constraint.axis = left.substr(at + 1);
    left.resize(at);
    if (constraint.axis.empty()) return malformed(text, "no axis stands behind the @");
  }
  if (const std::size_t colon = left.find(':'); colon != std::string::npos) {
    constraint.module = left.substr(0, colon);
    left.erase(0, colon + 1);
  }
  constraint.values = left;
  if (left.empty() && constraint.module.empty()) return malformed(text, "it names no values");
  if (constraint.axis.empty()) {
    if (!constraint.allowed) return malformed(text, "!= needs an axis");
    StatusOr<Placements> placements = parse_placements(right);
    if (!placements.ok()) return malformed(text, std::string(message_of(placements.status())));
    constraint.placements = *std::move(placements);
    return constraint;
  }
  for (const std::string& part : parts_of(right, '|')) {
    StatusOr<Placement> placement = parse_placement(part);
    if (!placement.ok()) return malformed(text, std::string(message_of(placement.status())));
    constraint.placements.push_back(*std::move(placement));
  }
  return constraint;
}

}  // namespace tessera
