#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "program/call_arguments.h"
#include "program/solver/propagate_program.h"
#include "program/solver/step_graph.h"
#include "program/step_names.h"

namespace tessera {
namespace {

/// Every rank does the same.
void make_whole(ProgramValue& value, std::size_t num_axes) {
  if (!value.mesh) return;
  value.layout = Layout();
  value.layout->dims.resize(value.global_shape.size());
  value.layout->partial.resize(num_axes);
}

/// All moves become such as nobody wrote, to be taken out. Where ranks change,
/// calls say nothing of their results, and regions are what one rank does.
void free_steps(std::vector<AnyStep>& steps, bool ranks_change, std::size_t num_axes) {
  for (AnyStep& step : steps) {
    if (auto* repeat = std::get_if<RepeatStep>(&step.what)) {
      free_steps(repeat->steps, ranks_change, num_axes);
    } else if (auto* move = std::get_if<MoveStep>(&step.what)) {
      move->implicit = true;
    } else if (auto* call = std::get_if<CallStep>(&step.what)) {
      call->row.clear();
      call->moves.clear();
      if (!ranks_change) continue;
      for (ProgramValue& out : call->out) out.layout.reset();
    } else if (auto* region = std::get_if<RegionStep>(&step.what); region && ranks_change) {
      for (ProgramValue& out : region->out) make_whole(out, num_axes);
    }
  }
}

/// What one rank holds as plain tensors are tensors of the mesh like others.
void lay_on_mesh(std::vector<AnyStep>& steps) {
  for (AnyStep& step : steps) {
    if (auto* repeat = std::get_if<RepeatStep>(&step.what)) {
      lay_on_mesh(repeat->steps);
      continue;
    }
    visit_names(
        step, [](const std::string&) {}, [](ProgramValue& out) { out.mesh = 0; });
  }
}

using Names = absl::flat_hash_set<std::string>;

/// What regions read; true where there are regions that share their work among ranks.
bool visit_regions(std::vector<AnyStep>& steps, Names& read) {
  bool on_mesh = false;
  for (AnyStep& step : steps) {
    if (auto* repeat = std::get_if<RepeatStep>(&step.what)) {
      on_mesh |= visit_regions(repeat->steps, read);
    } else if (auto* region = std::get_if<RegionStep>(&step.what)) {
      std::vector<Json*> names;
      collect_strings(region->args, names);
      for (const Json* name : names) read.insert(*name->if_string());
      on_mesh |= std::any_of(region->out.begin(), region->out.end(),
                             [](const ProgramValue& out) { return out.mesh.has_value(); });
    }
  }
  return on_mesh;
}

}  // namespace

StatusOr<Program> free_on_mesh(const Program& program, const ProgramMesh& mesh) {
  if (program.meshes.size() > 1 || (program.meshes.empty() && program.ranks > 1)) {
    return invalid_argument(absl::StrFormat(
        "a program of one mesh, or of one rank, can be laid on another mesh; this one has %d "
        "meshes and %d ranks",
        program.meshes.size(), program.ranks));
  }
  Program freed = program;
  const std::int64_t before = program.meshes.empty() ? 1 : program.meshes[0].mesh.num_ranks();
  const bool ranks_change =
      program.meshes.empty() || program.meshes[0].mesh.shape() != mesh.mesh.shape();
  if (before == 1) {
    for (ProgramValue& value : freed.values) value.mesh = 0;
    lay_on_mesh(freed.steps);
  }
  Names read;
  const bool has_regions = visit_regions(freed.steps, read);
  if (ranks_change && before != 1 && has_regions) {
    return invalid_argument(absl::StrFormat(
        "the program has regions on a mesh of %d ranks, which do not run on one of %d ranks",
        before, mesh.mesh.num_ranks()));
  }
  freed.meshes = {mesh};
  freed.ranks = mesh.mesh.first_rank() + mesh.mesh.num_ranks();
  for (ProgramValue& value : freed.values) {
    if (value.mesh && (ranks_change || !read.contains(value.name))) value.layout.reset();
  }
  free_steps(freed.steps, ranks_change, static_cast<std::size_t>(mesh.mesh.ndim()));
  return without_implicit_moves(std::move(freed));
}

}  // namespace tessera
