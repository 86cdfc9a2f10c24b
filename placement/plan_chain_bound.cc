// The least that any way on must cost: each axis that cuts a dim where the target does not has to
// leave it, and each Partial one has to be reduced, by a collective of its own; and the bytes that
// some rank lacks have to arrive over links no better than the best axis', some of them over those
// of the axes that are gathered or reduced.
#include "placement/plan_chain_bound.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace tessera {
namespace {

/// Length of the target's piece on a rank that holds nothing of it under `node`: where both cut
/// what they have in common, by other axes, the first of one and the last of the other.
std::int64_t far_piece(const DimCuts& tree, int node) {
  const int common = tree[node].common;
  const int next = tree.next_to_target(common);
  if (next < 0) return 0;
  int first = node;
  while (tree[first].parent != common) first = tree[first].parent;
  if (tree[first].axis == tree[next].axis) return 0;
  const AxisCut own = tree[first].cut(tree[common].largest);
  const AxisCut wanted = tree[next].cut(tree[common].largest);
  if ((wanted.size - 1) * wanted.chunk < own.chunk) return 0;
  std::int64_t length = wanted.held(wanted.size - 1);
  absl::InlinedVector<int, 8> deeper;
  for (int at = tree.target(); at != next; at = tree[at].parent) deeper.push_back(at);
  for (auto at = deeper.rbegin(); at != deeper.rend(); ++at) length = tree[*at].cut(length).chunk;
  return length;
}

}  // namespace

ChainBound::ChainBound(const Spec& dst, const std::vector<LinkShares>& links,
                       const std::vector<DimCuts>& trees, const ChainState& target)
    : mesh_(dst.mesh()),
      links_(links),
      trees_(trees),
      target_(target),
      us_per_byte_(INFINITY),
      element_bytes_(static_cast<double>(size_of(dst.dtype()))),
      elements_of_rank_(static_cast<double>(num_elements(dst.global_shape())) /
                        static_cast<double>(mesh_.num_ranks())),
      least_(trees.size()) {
  target_cutting_ = cutting(target_);
  for (int axis = 0; axis < mesh_.ndim(); ++axis) {
    if (mesh_.size(axis) > 1)
      us_per_byte_ = std::min(us_per_byte_, this->links(axis).us_per_byte());
    slowest_first_.push_back(axis);
  }
  for (int axis = 0; axis < mesh_.ndim(); ++axis) {
    const double bytes =
        elements_of_rank_ * element_bytes_ * static_cast<double>(mesh_.size(axis) - 1);
    const bool moves = mesh_.size(axis) > 1;
    beyond_best_us_.push_back(moves ? bytes * (this->links(axis).us_per_byte() - us_per_byte_) : 0);
  }
  std::ranges::stable_sort(slowest_first_, std::greater(),
                           [&](int axis) { return this->links(axis).us_per_byte(); });
}

std::uint64_t ChainBound::cutting(const ChainState& at) const {
  std::uint64_t axes = 0;
  for (std::size_t i = 0; i < trees_.size(); ++i) {
    for (int node = at.cuts[i]; node != 0; node = trees_[i][node].parent) {
      axes |= bit_of(trees_[i][node].axis);
    }
  }
  return axes;
}

/// What any way from a layout, which `cutting` axes cut, to the target takes at least.
double ChainBound::least_us(const ChainState& at, std::uint64_t cutting) {
  double us = 0;
  bool moves = false;
  std::int64_t held = 1, both = 1;
  for (std::size_t i = 0; i < trees_.size(); ++i) {
    const Least& least = least_of(i, at.cuts[i]);
    us += least.us;
    moves = moves || !cut(at, i).leads_to_target;
    held *= cut(target_, i).largest;
    both *= std::min(cut(at, i).largest, cut(target_, i).largest);
  }
  double lacks = static_cast<double>(held - both);
  for (std::size_t i = 0; i < trees_.size(); ++i) {
    const std::int64_t far = least_of(i, at.cuts[i]).far;
    if (far == 0) continue;
    lacks = std::max(lacks, static_cast<double>(held / cut(target_, i).largest * far));
  }
  const std::uint64_t summed = at.partial & ~target_.partial;
  if (summed != 0) {
    moves = true;
    lacks = std::max(lacks, static_cast<double>(held));
    std::int64_t summands = 1;
    for (int axis = 0; axis < mesh_.ndim(); ++axis) {
      if ((summed & bit_of(axis)) == 0) continue;
      us += links(axis).us(mesh_.size(axis) - 1, 0);
      summands *= mesh_.size(axis);
    }
    // An element takes so many messages: see lower_bound().
    const auto each = static_cast<double>(summands + mesh_.num_ranks() / target_parts() - 2);
    if (target_.partial == 0) {
      lacks = std::max(lacks, each * elements_of_rank_);
    }
  }
  if (!moves) return 0;
  us += beyond_best_us(cutting & ~target_cutting_, summed);
  return (1 - kMostRounded) * (us + lacks * element_bytes_ * us_per_byte_);
}

/// What bytes that cannot come over the best axis' links take beyond those that could. When an
/// axis is reduced, or gathered for the last time, all ranks together receive each element as
/// often as the axis has other coords, for every coord of the axes gathered before: those of the
/// slowest links at best.
double ChainBound::beyond_best_us(std::uint64_t gathered, std::uint64_t reduced) const {
  double us = 0, copies = 1;
  for (const int axis : slowest_first_) {
    if ((gathered & bit_of(axis)) != 0) {
      us += copies * beyond_best_us_[static_cast<std::size_t>(axis)];
      copies *= static_cast<double>(mesh_.size(axis));
    } else if ((reduced & bit_of(axis)) != 0) {
      us += beyond_best_us_[static_cast<std::size_t>(axis)];
    }
  }
  return us;
}

std::int64_t ChainBound::target_parts() const {
  std::int64_t parts = 1;
  for (std::size_t i = 0; i < trees_.size(); ++i) parts *= cut(target_, i).parts;
  return parts;
}

/// Of one dim's list.
const ChainBound::Least& ChainBound::least_of(std::size_t i, int node) {
  std::vector<Least>& known = least_[i];
  const auto at = static_cast<std::size_t>(node);
  if (known.size() <= at) known.resize(at + 8);
  if (!known[at].known) {
    const DimCut& cut = trees_[i][node];
    if (!cut.leads_to_target) {
      known[at].us = least_of(i, cut.parent).us;  // whose number is smaller: nothing is resized
      known[at].us += links(cut.axis).us(least_messages(i, cut), 0);
      known[at].far = far_piece(trees_[i], node);
    }
    known[at].known = true;
  }
  return known[at];
}
/// Of what takes the last axis off a list.
std::int64_t ChainBound::least_messages(std::size_t i, const DimCut& cut) const {
  std::int64_t most = 0;
  for (const Pieces& each : trees_[i][cut.parent].pieces) {
    most = std::max(most, cut.cut(each.length).num_holders() - 1);
  }
  return most;
}
}  // namespace tessera
