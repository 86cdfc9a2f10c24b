#include "capture/event_moves.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_split.h"
#include "dtensor/redistribute.h"
#include "placement/plan_cost.h"

namespace tessera {
namespace {

/// The product of the sizes of axes; none where the mesh lacks one.
std::optional<std::int64_t> ranks_along(const Mesh& mesh, const std::vector<std::string>& axes) {
  std::int64_t ranks = 1;
  for (const std::string& label : axes) {
    int found = -1;
    for (int axis = 0; axis < mesh.ndim(); ++axis) {
      if (mesh.axis_label(axis) == label) found = axis;
    }
    if (found < 0) return std::nullopt;
    ranks *= mesh.size(found);
  }
  return ranks;
}

/// This rank and those it sent to or received from, as far as the log says.
std::int64_t peers_of(const Event& event) {
  absl::flat_hash_set<std::int64_t> peers;
  for (const Flow& flow : event.trace.sent) peers.insert(flow.rank);
  for (const Flow& flow : event.trace.received) peers.insert(flow.rank);
  return std::max<std::int64_t>(std::ssize(peers), 1) + 1;
}

}  // namespace

std::string collective_of(const std::string& event) {
  if (event == "recv") return "receive";
  const std::string name = event.ends_with("_v") ? event.substr(0, event.size() - 2) : event;
  const std::vector<std::string>& known = move_names();
  return std::ranges::find(known, name) != known.end() ? name : "exchange";
}

std::vector<ProgramMove> moves_of_events(std::span<const Event> events,
                                         std::span<const Mesh* const> meshes) {
  std::vector<ProgramMove> moves;
  for (const Event& event : events) {
    if (event.kind != Event::Kind::kCollective) continue;
    ProgramMove& move = moves.emplace_back();
    move.collective = collective_of(event.name);
    if (!event.axes.empty()) move.axes = absl::StrSplit(event.axes, ',');
    move.ranks = 0;
    std::int64_t all = 0;
    for (const Mesh* mesh : meshes) {
      const std::optional<std::int64_t> ranks = ranks_along(*mesh, move.axes);
      if (!ranks || move.axes.empty()) continue;
      move.ranks = *ranks;
      all = mesh->num_ranks();
      break;
    }
    if (all == 0) all = move.ranks = peers_of(event);
    move.bytes = {.max = event.bytes_received, .total = event.bytes_received * all};
  }
  return moves;
}

std::vector<ProgramMove> moves_of_redistribution(Runtime& runtime, std::span<const Event> events,
                                                 const Spec* from, const Spec* to) {
  const Mesh* meshes[] = {&from->mesh(), &to->mesh()};
  std::vector<ProgramMove> moves = moves_of_events(events, meshes);
  const std::vector<ProgramMove> planned = moves_of(plan_between(runtime, from, to));
  const bool alike =
      std::ranges::equal(moves, planned, {}, &ProgramMove::collective, &ProgramMove::collective);
  return alike ? planned : moves;
}

}  // namespace tessera
