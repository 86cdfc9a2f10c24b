// A search by A* over layouts that one-axis collectives reach. A layout is a place in the tree of
// cuts of each dim (plan_cuts.h) and a set of axes that are still Partial; what a collective costs
// follows from the lengths of pieces there, uneven ones included, so that no rank is looked at. The
// least that any way on must cost: each axis that cuts a dim where the target does not has to leave
// it, and each Partial one has to be reduced, by a collective of its own; and the bytes that some
// rank lacks have to arrive over links no better than the best axis'.
#include "placement/plan_chain.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "placement/all_reduce_parts.h"
#include "placement/plan_cuts.h"
#include "placement/plan_links.h"
#include "placement/plan_step.h"
#include "placement/reduce_op.h"

namespace tessera {
namespace {

// Chains of more steps than this never pay: each one moves data once more.
constexpr std::uint8_t kMostSteps = 6;
// And a search ends after as many layouts.
constexpr int kMostLayouts = 1000;
constexpr std::size_t kExpected = 128;  // layouts of a usual search
// Dims that chains cut at most: those that are cut anyway, then the longest.
constexpr std::size_t kMostDims = 12;
// Sums of times are rounded; a bound stays below all of them.
constexpr double kRounded = 1 - 1e-12;

std::int64_t clamped(WideInt value) {
  return value > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(value);
}
std::int64_t plus(std::int64_t a, std::int64_t b) { return clamped(WideInt{a} + b); }

/// A layout: the list of axes that cuts each dim looked at, and the axes that are Partial.
struct State {
  std::array<std::uint16_t, kMostDims> cuts{};
  std::uint64_t partial = 0;
  bool operator==(const State&) const = default;
  template <class H>
  friend H AbslHashValue(H hash, const State& state) {
    return H::combine(std::move(hash), state.cuts, state.partial);
  }
};

class ChainSearch {
 public:
  ChainSearch(const Spec& src, const Spec& dst, const Topology& topology, const ChainLimits& limits)
      : src_(src), dst_(dst), mesh_(src.mesh()), limits_(limits) {
    element_bytes_ = size_of(dst.dtype());
    num_elements_ = num_elements(dst.global_shape());
    num_ranks_ = mesh_.num_ranks();
    for (int axis = 0; axis < mesh_.ndim(); ++axis) {
      links_.emplace_back(mesh_, std::span(&axis, 1), topology);
      if (mesh_.size(axis) > 1) us_per_byte_ = std::min(us_per_byte_, links_.back().us_per_byte());
    }
    choose_dims();
    for (const int dim : dims_) {
      trees_.emplace_back(mesh_, dst.global_shape()[static_cast<std::size_t>(dim)]);
      trees_.back().set_target(dst.layout().dims[static_cast<std::size_t>(dim)]);
      least_.emplace_back();
    }
  }

  std::optional<Chain> run() {
    ways_.reserve(kExpected);
    places_.reserve(kExpected);
    known_.reserve(kExpected);
    open_.reserve(kExpected);
    target_ = state_of(dst_);
    Way start;
    start.place = place_of(state_of(src_));
    push(start);
    int settled = 0;
    while (!open_.empty() && settled < kMostLayouts) {
      std::pop_heap(open_.begin(), open_.end(), Later{});
      const Open next = open_.back();
      open_.pop_back();
      Place& place = places_[ways_[next.way].place];
      if (place.settled || place.way != next.way) continue;
      place.settled = true;
      ++settled;
      if (place.at == target_) return chain_of(next.way);
      if (next.steps < kMostSteps) expand(next.way);
    }
    return std::nullopt;
  }

 private:
  /// A layout met, and the best way to it so far.
  struct Place {
    State at;
    double least_us = 0;       ///< of any way on
    std::int64_t parts = 1;    ///< ranks among which the axes that cut it tell
    std::int64_t largest = 1;  ///< elements of the rank of coord 0
    std::uint32_t way = 0;
    bool reached = false, settled = false;
  };
  /// A way to a layout.
  struct Way {
    double us = 0;
    std::int64_t bytes = 0, messages = 0, most_bytes = 0;
    std::uint32_t place = 0;
    std::uint32_t before = 0;  ///< the way that it continues
    std::uint8_t steps = 0;
  };
  struct Open {
    double least_us = 0;  ///< with what any way on must cost at least
    std::uint32_t way = 0;
    std::uint8_t steps = 0;
  };
  struct Later {
    bool operator()(const Open& a, const Open& b) const {
      if (a.least_us != b.least_us) return a.least_us > b.least_us;
      if (a.steps != b.steps) return a.steps > b.steps;
      return a.way > b.way;
    }
  };
  /// What leaving a list for the target's takes at least, and what some rank lacks.
  struct Least {
    double us = 0;
    std::int64_t far = 0;  ///< length of the target's piece of a rank that holds nothing of it
    bool known = false;
  };

  void choose_dims() {
    std::vector<int> dims(dst_.global_shape().size());
    for (std::size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<int>(d);
    const auto rank_of = [&](int dim) {
      const auto d = static_cast<std::size_t>(dim);
      const bool cut = !src_.layout().dims[d].empty() || !dst_.layout().dims[d].empty();
      return std::pair(!cut, -dst_.global_shape()[d]);
    };
    if (dims.size() > kMostDims) {
      std::stable_sort(dims.begin(), dims.end(),
                       [&](int a, int b) { return rank_of(a) < rank_of(b); });
      dims.resize(kMostDims);
    }
    dims_.assign(dims.begin(), dims.end());
  }

  State state_of(const Spec& spec) {
    State state;
    for (std::size_t i = 0; i < dims_.size(); ++i) {
      state.cuts[i] = static_cast<std::uint16_t>(
          trees_[i].find(spec.layout().dims[static_cast<std::size_t>(dims_[i])]));
    }
    for (int axis = 0; axis < mesh_.ndim(); ++axis) {
      if (spec.layout().partial[static_cast<std::size_t>(axis)]) state.partial |= bit(axis);
    }
    return state;
  }

  static std::uint64_t bit(int axis) { return std::uint64_t{1} << axis; }
  const DimCut& cut(const State& state, std::size_t i) const { return trees_[i][state.cuts[i]]; }
  ReduceOp kind(int axis) const { return *src_.layout().partial[static_cast<std::size_t>(axis)]; }

  /// What any way from a layout to the target takes at least.
  double least_us(const State& at) {
    double us = 0;
    bool moves = false;
    std::int64_t held = 1, both = 1;
    for (std::size_t i = 0; i < dims_.size(); ++i) {
      const Least& least = least_of(i, at.cuts[i]);
      us += least.us;
      moves = moves || !cut(at, i).leads_to_target;
      held *= cut(target_, i).largest;
      both *= std::min(cut(at, i).largest, cut(target_, i).largest);
    }
    double lacks = static_cast<double>(held - both);
    for (std::size_t i = 0; i < dims_.size(); ++i) {
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
        if ((summed & bit(axis)) == 0) continue;
        us += links_[static_cast<std::size_t>(axis)].us(mesh_.size(axis) - 1, 0);
        summands *= mesh_.size(axis);
      }
      // An element takes so many messages: see lower_bound().
      const auto each = static_cast<double>(summands + num_ranks_ / target_parts() - 2);
      if (target_.partial == 0) {
        lacks = std::max(
            lacks, each * static_cast<double>(num_elements_) / static_cast<double>(num_ranks_));
      }
    }
    if (!moves) return 0;
    return kRounded * (us + lacks * static_cast<double>(element_bytes_) * us_per_byte_);
  }

  std::int64_t target_parts() const {
    std::int64_t parts = 1;
    for (std::size_t i = 0; i < dims_.size(); ++i) parts *= cut(target_, i).parts;
    return parts;
  }

  /// Of one dim's list.
  const Least& least_of(std::size_t i, int node) {
    std::vector<Least>& known = least_[i];
    const auto at = static_cast<std::size_t>(node);
    if (known.size() <= at) known.resize(at + 8);
    if (!known[at].known) {
      const DimCut& cut = trees_[i][node];
      if (!cut.leads_to_target) {
        known[at].us = least_of(i, cut.parent).us;  // whose number is smaller: nothing is resized
        known[at].us += links_[static_cast<std::size_t>(cut.axis)].us(least_messages(i, cut), 0);
        known[at].far = far_piece(trees_[i], node);
      }
      known[at].known = true;
    }
    return known[at];
  }
  /// Of what takes the last axis off a list.
  std::int64_t least_messages(std::size_t i, const DimCut& cut) const {
    std::int64_t most = 0;
    for (const Pieces& each : trees_[i][cut.parent].pieces) {
      most = std::max(most, cut.cut(each.length).num_holders() - 1);
    }
    return most;
  }
  /// Length of the target's piece on a rank that holds nothing of it under `node`: where both cut
  /// what they have in common, by other axes, the first of one and the last of the other.
  static std::int64_t far_piece(const DimCuts& tree, int node) {
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

  /// The layout's number, made where it was not met before.
  std::uint32_t place_of(const State& at) {
    const auto number = static_cast<std::uint32_t>(places_.size());
    const auto [found, added] = known_.try_emplace(at, number);
    if (!added) return found->second;
    Place place;
    place.at = at;
    for (std::size_t i = 0; i < dims_.size(); ++i) {
      place.largest *= cut(at, i).largest;
      place.parts *= cut(at, i).parts;
    }
    place.least_us = least_us(at);
    places_.push_back(place);
    return number;
  }
  /// Elements that all ranks together hold.
  WideInt held_by_all(const Place& place) const {
    return WideInt{num_elements_} * (num_ranks_ / place.parts);
  }

  void expand(std::uint32_t way) {
    const State at = places_[ways_[way].place].at;
    std::uint64_t cutting = 0;
    for (std::size_t i = 0; i < dims_.size(); ++i) {
      for (int node = at.cuts[i]; node != 0; node = trees_[i][node].parent) {
        cutting |= bit(trees_[i][node].axis);
      }
    }
    for (int axis = 0; axis < mesh_.ndim(); ++axis) {
      if (mesh_.size(axis) == 1) continue;
      if ((at.partial & bit(axis)) != 0) {
        if ((target_.partial & bit(axis)) == 0 && !reduces_later(at, axis)) reduce(way, at, axis);
      } else if ((cutting & bit(axis)) == 0) {
        slice(way, at, axis);
      }
    }
    for (std::size_t i = 0; i < dims_.size(); ++i) {
      if (at.cuts[i] != 0) leave(way, at, i);
    }
  }

  /// A Partial axis to the right of another kind reduces first.
  bool reduces_later(const State& at, int axis) const {
    for (int right = axis + 1; right < mesh_.ndim(); ++right) {
      if ((at.partial & bit(right)) != 0 && !commute(kind(right), kind(axis))) return true;
    }
    return false;
  }

  void slice(std::uint32_t way, const State& at, int axis) {
    for (std::size_t i = 0; i < dims_.size(); ++i) go(way, with(at, i, axis), -1, nothing);
  }
  /// A layout, one dim cut by one axis more.
  State with(const State& at, std::size_t i, int axis) {
    State next = at;
    next.cuts[i] = static_cast<std::uint16_t>(trees_[i].child(at.cuts[i], axis));
    return next;
  }
  static Moved nothing(const Place& to) {
    (void)to;
    return {};
  }

  void reduce(std::uint32_t way, const State& at, int axis) {
    State whole = at;
    whole.partial &= ~bit(axis);
    const std::int64_t group = mesh_.size(axis);
    go(way, whole, axis, [&](const Place& to) { return all_reduced(to, group); });
    for (std::size_t i = 0; i < dims_.size(); ++i) {
      go(way, with(whole, i, axis), axis, [&](const Place& to) {
        return Moved{.elements = (group - 1) * to.largest,
                     .messages = group - 1,
                     .total = (group - 1) * held_by_all(to)};
      });
    }
  }

  /// The last axis of a dim's list leaves it: for nowhere, or for another dim.
  void leave(std::uint32_t way, const State& at, std::size_t i) {
    const DimCut& from = cut(at, i);
    const int axis = from.axis;
    const std::uint32_t here = ways_[way].place;
    State left = at;
    left.cuts[i] = static_cast<std::uint16_t>(from.parent);
    const DimCut& before = cut(left, i);
    go(way, left, axis, [&](const Place& to) {
      Moved moved = gathered(before, from);
      moved.elements *= places_[here].largest / from.largest;
      moved.total = held_by_all(to) - held_by_all(places_[here]);
      return moved;
    });
    for (std::size_t j = 0; j < dims_.size(); ++j) {
      if (j == i) continue;
      go(way, with(left, j, axis), axis, [&](const Place& to) {
        const AxisTurn turn{before, from, cut(left, j), cut(to.at, j)};
        Moved moved = turned(turn);
        moved.elements *= places_[here].largest / from.largest / turn.free.largest;
        moved.total = held_by_all(to) - kept(to, i, j, both_held(turn));
        return moved;
      });
    }
  }
  /// Elements that ranks keep in an all-to-all between two dims, of which they keep `in_both`.
  WideInt kept(const Place& place, std::size_t i, std::size_t j, WideInt in_both) const {
    WideInt elements = in_both * (num_ranks_ / place.parts);
    for (std::size_t k = 0; k < dims_.size(); ++k) {
      if (k != i && k != j) elements *= trees_[k][0].largest;
    }
    return elements;
  }

  /// Of a layout that an all-reduce among so many ranks leads to. Parts of unlike sizes are shared
  /// otherwise.
  Moved all_reduced(const Place& place, std::int64_t group) const {
    PieceList parts{{1, num_ranks_ / place.parts / group}};
    for (std::size_t i = 0; i < dims_.size(); ++i) {
      PieceList finer;
      for (const Pieces& part : parts) {
        for (const Pieces& each : cut(place.at, i).pieces) {
          if (each.length > 0) {
            finer.push_back({part.length * each.length, part.count * each.count});
          }
        }
      }
      parts = std::move(finer);
    }
    Moved moved;
    for (const Pieces& part : parts) {
      const std::int64_t messages = all_reduce_messages(part.length * element_bytes_, group);
      moved.messages = std::max(moved.messages, messages);
      const std::int64_t most = all_reduce_received(part.length, element_bytes_, {0, group});
      moved.elements = std::max(moved.elements, most);
      const bool whole = messages == group - 1;  // else each folds a part, and hands it out
      moved.total += WideInt{part.count} * part.length * (group - 1) * (whole ? group : 2);
    }
    return moved;
  }

  /// One step on from a way, along an axis, or none for what moves nothing. What it moves is asked
  /// for where it may tell.
  template <class MovedTo>
  void go(std::uint32_t number, const State& to, int axis, const MovedTo& moved_to) {
    const std::uint32_t at = place_of(to);
    const Place& place = places_[at];
    Way way = ways_[number];
    if (place.settled || way.us + place.least_us >= limits_.budget_us) return;
    const Moved moved = moved_to(place);
    const std::int64_t most_bytes = clamped(WideInt{moved.elements} * element_bytes_);
    if (axis >= 0) {
      way.us += links_[static_cast<std::size_t>(axis)].us(moved.messages, most_bytes);
    }
    way.bytes = plus(way.bytes, clamped(moved.total * element_bytes_));
    if (way.bytes > limits_.budget_bytes) return;
    way.messages += moved.messages;
    way.most_bytes += most_bytes;
    way.before = number;
    ++way.steps;
    way.place = at;
    push(way);
  }

  void push(const Way& way) {
    Place& place = places_[way.place];
    const double least = way.us + place.least_us;
    if (least >= limits_.budget_us) return;
    if (place.reached) {
      const Way& other = ways_[place.way];
      if (way.us > other.us || (way.us == other.us && way.steps >= other.steps)) return;
    }
    place.reached = true;
    place.way = static_cast<std::uint32_t>(ways_.size());
    ways_.push_back(way);
    open_.push_back({least, place.way, way.steps});
    std::push_heap(open_.begin(), open_.end(), Later{});
  }

  Layout layout_of(const State& state) const {
    Layout layout = src_.layout();
    for (std::size_t i = 0; i < dims_.size(); ++i) {
      Levels& levels = layout.dims[static_cast<std::size_t>(dims_[i])];
      levels.clear();
      for (int node = state.cuts[i]; node != 0; node = trees_[i][node].parent) {
        levels.insert(levels.begin(), Level::of_axis(trees_[i][node].axis, trees_[i][node].grain));
      }
    }
    for (int axis = 0; axis < mesh_.ndim(); ++axis) {
      if ((state.partial & bit(axis)) == 0) layout.partial[static_cast<std::size_t>(axis)].reset();
    }
    return layout;
  }

  Chain chain_of(std::uint32_t last) const {
    const Way& way = ways_[last];
    Chain chain{{}, way.us, way.bytes, way.messages, way.most_bytes};
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t at = last; ways_[at].steps > 0; at = ways_[at].before) numbers.push_back(at);
    Spec at = src_;
    for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
      Spec next = with_layout(src_, layout_of(places_[ways_[*number].place].at));
      chain.steps.push_back(direct_step(at, next));
      at = std::move(next);
    }
    return chain;
  }

  const Spec& src_;
  const Spec& dst_;
  const Mesh& mesh_;
  const ChainLimits& limits_;
  std::int64_t element_bytes_ = 1, num_elements_ = 0, num_ranks_ = 1;
  std::vector<LinkShares> links_;  ///< of each axis
  double us_per_byte_ = INFINITY;  ///< of the best axis
  absl::InlinedVector<int, kMostDims> dims_;
  std::vector<DimCuts> trees_;             ///< of each of them
  std::vector<std::vector<Least>> least_;  ///< likewise, of each list
  State target_;
  std::vector<Way> ways_;
  std::vector<Place> places_;
  absl::flat_hash_map<State, std::uint32_t> known_;  ///< their numbers
  std::vector<Open> open_;                           ///< a heap
};

/// Dims of which no more than can be looked at are cut.
bool fits(const Spec& src, const Spec& dst) {
  std::size_t cut = 0;
  for (std::size_t d = 0; d < dst.layout().dims.size(); ++d) {
    cut += src.layout().dims[d].empty() && dst.layout().dims[d].empty() ? 0 : 1;
  }
  return cut <= kMostDims && src.mesh().ndim() <= 64 && num_elements(dst.global_shape()) > 0;
}

}  // namespace

std::optional<Chain> cheapest_chain(const Spec& src, const Spec& dst, const Topology& topology,
                                    const ChainLimits& limits) {
  if (!has_only_axes(src.layout()) || !has_only_axes(dst.layout()) || !fits(src, dst)) {
    return std::nullopt;
  }
  for (std::size_t a = 0; a < dst.layout().partial.size(); ++a) {
    if (dst.layout().partial[a] && dst.layout().partial[a] != src.layout().partial[a]) {
      return std::nullopt;
    }
  }
  return ChainSearch(src, dst, topology, limits).run();
}

}  // namespace tessera
