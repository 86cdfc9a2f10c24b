#include "program/findings/texts.h"

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "io/byte_text.h"
#include "placement/checked_int.h"

namespace tessera {

std::string moves_text(const std::vector<ProgramMove>& moves) {
  if (moves.empty()) return "nothing moves";
  std::vector<std::string> parts;
  for (const ProgramMove& move : moves) {
    std::string part = move.collective;
    if (!move.axes.empty()) part += " over " + absl::StrJoin(move.axes, ",");
    part += ", " + byte_text(move.bytes.max, 1);
    if (parts.empty() || parts.back() != part) parts.push_back(std::move(part));
    if (parts.size() == 4) break;
  }
  return absl::StrJoin(parts, " and ");
}

Volume sum_of(const std::vector<ProgramMove>& moves) {
  CheckedInt max = 0, total = 0;
  for (const ProgramMove& move : moves) {
    max += move.bytes.max;
    total += move.bytes.total;
  }
  return {max.clamped(), total.clamped()};
}

std::string placements_text(const Spec* spec) {
  if (spec == nullptr) return "free";
  const StatusOr<Placements> placements = spec->placements();
  if (!placements.ok()) return spec->to_string();
  if (placements->size() == 1) return to_string((*placements)[0]);
  return to_string(*placements);
}

std::string placement_on(const Spec& spec, int axis) {
  const StatusOr<Placements> placements = spec.placements();
  if (!placements.ok() || axis < 0 || axis >= std::ssize(*placements)) return spec.to_string();
  return to_string((*placements)[static_cast<std::size_t>(axis)]);
}

}  // namespace tessera
