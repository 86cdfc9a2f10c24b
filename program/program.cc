#include "program/program.h"

#include <algorithm>

#include "placement/checked_int.h"
#include "placement/plan.h"

namespace tessera {

// Written out, for clang 16 fails on a defaulted one outside of the class.
bool RepeatStep::operator==(const RepeatStep& other) const {
  return count == other.count && first == other.first && by == other.by && as == other.as &&
         steps == other.steps && carry == other.carry;
}

std::string_view name_of(ValueRole role) noexcept {
  constexpr std::string_view kNames[] = {"temporary", "input", "parameter", "state", "buffer"};
  return kNames[static_cast<int>(role)];
}

std::string_view name_of(StepPhase phase) noexcept {
  constexpr std::string_view kNames[] = {"forward", "recompute", "backward", "optimizer"};
  return kNames[static_cast<int>(phase)];
}

const std::vector<std::string>& move_names() {
  static const std::vector<std::string> names = {
      "all_gather", "reduce_scatter", "all_reduce", "all_to_all", "broadcast",
      "send",       "receive",        "scatter",    "gather",     "exchange"};
  return names;
}

StatusOr<Spec> spec_of(const Program& program, const ProgramValue& value) {
  if (value.mesh && !value.layout) {
    return failed_precondition("value " + in_quotes(value.name) +
                               " has no placements yet: what moves is not known");
  }
  if (!value.mesh) return Spec::plain(value.global_shape, value.dtype);
  return Spec::make(program.meshes[static_cast<std::size_t>(*value.mesh)].mesh, value.global_shape,
                    value.dtype, *value.layout);
}

std::int64_t slices_alike(const Program& program, const ProgramMesh& mesh) {
  if (!mesh.of) return 1;
  std::int64_t alike = program.meshes[static_cast<std::size_t>(*mesh.of)].mesh.num_ranks();
  if (mesh.stage) {
    // The mesh that it is cut from has other stages as well.
    for (const ProgramMesh& each : program.meshes) {
      if (!each.of && each.stage == mesh.stage) alike = std::min(alike, each.mesh.num_ranks());
    }
  }
  return std::max<std::int64_t>(1, alike / mesh.mesh.num_ranks());
}

std::vector<ProgramMove> moves_of(const Plan& plan) {
  std::vector<ProgramMove> moves;
  for (const PlanStep& step : plan.steps) {
    if (step.kind == PlanStep::Kind::kLocal) continue;
    const Mesh& mesh = step.src.mesh();
    ProgramMove& move = moves.emplace_back();
    move.collective = name_of(step.kind);
    for (const int axis : step.axes) move.axes.push_back(mesh.axis_label(axis));
    move.ranks = std::ssize(group_of(step, mesh.first_rank()));
    move.bytes = bytes_of(step);
  }
  return moves;
}

StatusOr<std::vector<ProgramMove>> moves_of(const Program& program, const ProgramValue& value,
                                            const ProgramValue& out) {
  TSR_ASSIGN_OR_RETURN(const Spec from, spec_of(program, value));
  TSR_ASSIGN_OR_RETURN(const Spec to, spec_of(program, out));
  TSR_ASSIGN_OR_RETURN(const Plan planned, plan(from, to));
  const std::optional<int> mesh_index = value.mesh ? value.mesh : out.mesh;
  const std::int64_t slices =
      mesh_index ? slices_alike(program, program.meshes[static_cast<std::size_t>(*mesh_index)]) : 1;
  std::vector<ProgramMove> moves = moves_of(planned);
  for (ProgramMove& move : moves) {
    const CheckedInt total = CheckedInt(move.bytes.total) * slices;
    if (CheckedInt(total.clamped()) != total) {
      return out_of_range("a redistribution of " + in_quotes(value.name) +
                          " moves more than 2^63 bytes in all");
    }
    move.bytes.total = total.clamped();
  }
  return moves;
}

}  // namespace tessera
