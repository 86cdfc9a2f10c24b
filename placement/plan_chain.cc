// A search by A* over layouts that one-axis collectives reach. A layout is a place in the tree of
// cuts of each dim (plan_cuts.h) and a set of axes that are still Partial; what a collective costs
// follows from the lengths of pieces there, uneven ones included, so that no rank is looked at.
// What any way on must cost at least is in plan_chain_bound.cc.
#include "placement/plan_chain.h"

#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_map.h"
#include "placement/all_reduce_parts.h"
#include "placement/plan_chain_bound.h"
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
std::int64_t clamped(WideInt value) {
  return value > INT64_MAX ? INT64_MAX : static_cast<std::int64_t>(value);
}
std::int64_t plus(std::int64_t a, std::int64_t b) { return clamped(WideInt{a} + b); }

using State = ChainState;
constexpr std::size_t kMostDims = kMostChainDims;

class ChainSearch {
 public:
  ChainSearch(const Spec& src, const Spec& dst, const Topology& topology, const ChainLimits& limits)
      : src_(src), dst_(dst), mesh_(src.mesh()), limits_(limits) {
    element_bytes_ = size_of(dst.dtype());
    num_elements_ = num_elements(dst.global_shape());
    num_ranks_ = mesh_.num_ranks();
    for (int axis = 0; axis < mesh_.ndim(); ++axis) {
      links_.emplace_back(mesh_, std::span(&axis, 1), topology);
    }
    choose_dims();
    for (const int dim : dims_) {
      trees_.emplace_back(mesh_, dst.global_shape()[static_cast<std::size_t>(dim)]);
      trees_.back().set_target(dst.layout().dims[static_cast<std::size_t>(dim)]);
    }
    target_ = state_of(dst_);
    bound_.emplace(dst_, links_, trees_, target_);
  }

  std::optional<Chain> run() {
    ways_.reserve(kExpected);
    places_.reserve(kExpected);
    known_.reserve(kExpected);
    open_.reserve(kExpected);
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
    double least_us = 0;        ///< of any way on
    std::int64_t parts = 1;     ///< ranks among which the axes that cut it tell
    std::int64_t largest = 1;   ///< elements of the rank of coord 0
    std::uint64_t cutting = 0;  ///< axes
    std::uint32_t way = 0;
    bool reached = false, settled = false;
  };
  /// A way to a layout.
  struct Way {
    double us = 0;
    double last_us = 0;  ///< of its last step
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
      if (spec.layout().partial[static_cast<std::size_t>(axis)]) state.partial |= bit_of(axis);
    }
    return state;
  }

  const DimCut& cut(const State& state, std::size_t i) const { return trees_[i][state.cuts[i]]; }
  ReduceOp kind(int axis) const { return *src_.layout().partial[static_cast<std::size_t>(axis)]; }

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
    place.cutting = bound_->cutting(at);
    place.least_us = bound_->least_us(at, place.cutting);
    places_.push_back(place);
    return number;
  }
  /// Elements that all ranks together hold.
  WideInt held_by_all(const Place& place) const {
    return WideInt{num_elements_} * (num_ranks_ / place.parts);
  }

  void expand(std::uint32_t way) {
    const State at = places_[ways_[way].place].at;
    const std::uint64_t cutting = places_[ways_[way].place].cutting;
    for (int axis = 0; axis < mesh_.ndim(); ++axis) {
      if (mesh_.size(axis) == 1) continue;
      if ((at.partial & bit_of(axis)) != 0) {
        if ((target_.partial & bit_of(axis)) == 0 && !reduces_later(at, axis))
          reduce(way, at, axis);
      } else if ((cutting & bit_of(axis)) == 0) {
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
      if ((at.partial & bit_of(right)) != 0 && !commute(kind(right), kind(axis))) return true;
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
    whole.partial &= ~bit_of(axis);
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
    way.last_us =
        axis >= 0 ? links_[static_cast<std::size_t>(axis)].us(moved.messages, most_bytes) : 0;
    way.us += way.last_us;
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
      if ((state.partial & bit_of(axis)) == 0)
        layout.partial[static_cast<std::size_t>(axis)].reset();
    }
    return layout;
  }

  Chain chain_of(std::uint32_t last) const {
    const Way& way = ways_[last];
    Chain chain{{}, {}, way.us, way.bytes, way.messages, way.most_bytes};
    std::vector<std::uint32_t> numbers;
    for (std::uint32_t at = last; ways_[at].steps > 0; at = ways_[at].before) numbers.push_back(at);
    Spec at = src_;
    for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
      Spec next = with_layout(src_, layout_of(places_[ways_[*number].place].at));
      chain.steps.push_back(direct_step(at, next));
      chain.us_of_steps.push_back(ways_[*number].last_us);
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
  absl::InlinedVector<int, kMostDims> dims_;
  std::vector<DimCuts> trees_;  ///< of each of them
  State target_;
  std::optional<ChainBound> bound_;
  std::vector<Way> ways_;
  std::vector<Place> places_;
  absl::flat_hash_map<State, std::uint32_t, ChainStateHash> known_;  ///< their numbers
  std::vector<Open> open_;                                           ///< a heap
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
