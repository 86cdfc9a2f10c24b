// How a plan is made, in phases. (1) Which axes have to be reduced, and which filled with the
// identity afterwards. Partials reduce from the last axis to the first; kinds that do not commute,
// such as a max of sums, part the axes into groups, and each group but the last is a step of its
// own, after which ranks hold either shares of the result or all of it. (2) For the last group, or
// where nothing is reduced, the ways there are: one direct step; a relay, in which ranks first
// share the work and then hand out what they made; and, where a topology prices latency, a chain of
// one-axis collectives (plan_chain.h). (3) The cheapest way wins: without a topology the one of
// fewest bytes, then of fewest messages; with one, of least time, unless it moves far more than the
// bound. Two meshes of the same ranks are first seen as one (plan_refine.h). What a step does for
// one rank is worked out elsewhere (plan_transfers.cc): a plan is the same value on every rank.
#include "placement/plan.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "absl/container/inlined_vector.h"
#include "placement/plan_chain.h"
#include "placement/plan_cost.h"
#include "placement/plan_cuts.h"
#include "placement/plan_links.h"
#include "placement/plan_meshes.h"
#include "placement/plan_priced.h"
#include "placement/plan_roles.h"
#include "placement/plan_step.h"
#include "placement/reduce_op.h"

namespace tessera {
namespace {

using Kind = PlanStep::Kind;
using Steps = std::vector<PlanStep>;

/// From this size of a rank's part on, bytes count for more than latency ever could: a plan moves
/// at most this many times the bound.
constexpr std::int64_t kLargeBytes = std::int64_t{4} << 20;
constexpr double kMostOverBound = 1.5;
/// A plan this near to what any must cost is not compared with chains.
constexpr double kNearEnough = 1.05;
/// A rank should send at most this many times what it holds or receives.
constexpr std::int64_t kMostSends = 2;

std::int64_t largest_elements(const Spec& spec) {
  return num_elements(spec.local_shape(fullest_coord(spec.mesh(), spec.layout())));
}
/// At most the largest integer.
std::int64_t sum_of(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/// What a chain of steps costs, cheapest first.
struct Price {
  double us = 0;  ///< 0 without a topology
  std::int64_t bytes = 0, messages = 0, most_bytes = 0;
  absl::InlinedVector<double, 4> us_of_steps = {};  ///< sums of times depend on their order
  std::size_t steps() const { return us_of_steps.size(); }
  auto key() const { return std::tuple(us, bytes, messages, steps(), most_bytes); }

  /// With these steps behind its own.
  void add(const Price& later) {
    for (const double each : later.us_of_steps) us += each;
    us_of_steps.insert(us_of_steps.end(), later.us_of_steps.begin(), later.us_of_steps.end());
    bytes = sum_of(bytes, later.bytes);
    messages += later.messages;
    most_bytes += later.most_bytes;
  }
};
Price price_of_step(const StepCost& cost) {
  return {cost.estimated_us,
          cost.bytes_received.total,
          cost.messages.max,
          cost.bytes_received.max,
          {cost.estimated_us}};
}

Price price_of(const Steps& steps, const Topology* topology) {
  Price price;
  for (const PlanStep& step : steps) price.add(price_of_step(cost_of(step, topology)));
  return price;
}

/// One way to the target; priced where something asks for that.
struct Way {
  Way(Steps of) : steps(std::move(of)) {}  // NOLINT: steps are a way
  Way(Steps of, const Price& known) : steps(std::move(of)), price(known) {}
  Steps steps;
  std::optional<Price> price;
};
using Ways = std::vector<Way>;

class Planner {
 public:
  Planner(const Spec& src, const Spec& dst, const Topology* topology)
      : src_(src), dst_(dst), at_(src), topology_(topology) {}

  Way run() {
    choose_axes();
    if (mixes_kinds()) return cheapest_of_mixed();
    reduce_all_but_last(Between::kShared);
    return with_last(Steps{});
  }

 private:
  /// What ranks hold between two reductions of kinds that do not commute.
  enum class Between : std::uint8_t {
    kShared,  ///< parts of those that took part
    kSpread,  ///< of replicas too
    kWhole
  };

  bool one_mesh() const { return at_.mesh() == dst_.mesh(); }

  /// Of kinds that do not commute: what ranks hold between two reductions, and then the cheapest
  /// ways on from there, but from where every way on costs more than one that is known.
  Way cheapest_of_mixed() {
    std::vector<Steps> all_before;
    for (const Between between : {Between::kShared, Between::kSpread, Between::kWhole}) {
      Steps steps = reduce_all_but_last(between);
      const auto goes_alike = [&](const Steps& other) {
        return std::ranges::equal(steps, other, {}, &PlanStep::dst, &PlanStep::dst);
      };
      if (std::ranges::none_of(all_before, goes_alike)) all_before.push_back(std::move(steps));
    }
    if (topology_ == nullptr || all_before.size() == 1) return cheapest(with_last_of(all_before));
    const std::int64_t most = most_bytes();
    Ways ways;
    double least_known_us = INFINITY;  // of ways that move no more than `most`
    for (Steps& steps : all_before) {
      go_to(steps.back().dst);
      Way way(std::move(steps));
      const double so_far_us = price_of(way).us;
      const bool pays_at_best = least_known_us == INFINITY || !one_mesh() || bound().total == 0 ||
                                so_far_us + least_us() <= (1 + kMostRounded) * least_known_us;
      if (!pays_at_best) continue;
      const Price& price = price_of(ways.emplace_back(with_last(std::move(way))));
      if (price.bytes <= most) least_known_us = std::min(least_known_us, price.us);
    }
    return cheapest(std::move(ways), most);
  }
  Ways with_last_of(std::vector<Steps>& all_before) {
    Ways ways;
    for (Steps& steps : all_before) {
      go_to(steps.back().dst);
      ways.emplace_back(with_last(std::move(steps)));
    }
    return ways;
  }
  void go_to(const Spec& spec) {
    at_ = spec;
    bound_.reset();
  }

  /// Reduces the groups before the last one, which is left in last_group_.
  Steps reduce_all_but_last(Between between) {
    go_to(src_);
    std::vector<int> left = reduced_;
    last_group_ = next_group(left);
    Steps steps;
    while (!left.empty()) {
      steps.push_back(reduction_between(last_group_, between));
      go_to(steps.back().dst);
      last_group_ = next_group(left);
    }
    return steps;
  }

  Way with_last(Way way) {
    const std::vector<int>& group = last_group_;
    if (one_mesh() && group.empty() && same_elements(at_, dst_)) return way;
    if (!one_mesh() && moves_nothing()) return way;
    Way last = cheapest(group.empty() ? moves() : reductions(group));
    if (way.steps.empty()) return last;
    if (way.price) way.price->add(price_of(last));
    std::move(last.steps.begin(), last.steps.end(), std::back_inserter(way.steps));
    return way;
  }

  const std::optional<ReduceOp>& src_op(int axis) const {
    return src_.layout().partial[static_cast<std::size_t>(axis)];
  }

  /// Which axes are reduced and which are filled. A Partial axis that stays must still be reduced,
  /// and filled again, where an axis to its left of another kind is reduced: no plan reorders the
  /// two.
  void choose_axes() {
    std::optional<ReduceOp>
        leftmost;  // kinds reduced so far, left to right; mixed ones count as one
    bool mixed = false;
    for (int axis = 0; axis < src_.mesh().ndim(); ++axis) {
      const auto& from = src_op(axis);
      const auto to = one_mesh() ? dst_.layout().partial[static_cast<std::size_t>(axis)]
                                 : std::optional<ReduceOp>();
      const bool blocked = from && leftmost && (mixed || !commute(*from, *leftmost));
      if (from && (from != to || blocked)) {
        mixed = mixed || blocked;
        leftmost = from;
        reduced_.push_back(axis);
        if (to) filled_.push_back(axis);
      } else if (!from && to) {
        filled_.push_back(axis);
      }
    }
  }

  bool mixes_kinds() const {
    std::vector<int> left = reduced_;
    next_group(left);
    return !left.empty();
  }

  /// Takes the next axes to reduce off `left`, from the last one on, as far as their kinds commute.
  std::vector<int> next_group(std::vector<int>& left) const {
    std::vector<int> group;
    while (!left.empty() && std::all_of(group.begin(), group.end(), [&](int axis) {
      return commute(*src_op(axis), *src_op(left.back()));
    })) {
      group.insert(group.begin(), left.back());
      left.pop_back();
    }
    return group;
  }

  /// Reduces a group before others; the cuts stay, and ranks may share the work.
  PlanStep reduction_between(const std::vector<int>& group, Between between) const {
    const Spec whole = with_layout(at_, without_partial(at_.layout(), group));
    if (between == Between::kWhole) return direct_step(at_, whole);
    const Sharing sharing = between == Between::kSpread ? Sharing::kAll : Sharing::kReduced;
    const Layout* later = one_mesh() ? &dst_.layout() : nullptr;
    return direct_step(at_, with_layout(at_, shared_part(at_, whole, sharing, later)));
  }

  /// Ways from a source that is whole.
  Ways moves() const {
    Ways ways{Steps{direct_step(at_, dst_)}};
    if (one_mesh() ? !filled_.empty() : dst_.has_partial()) return ways;
    if (ways[0].steps[0].kind == Kind::kLocal) return ways;
    if (topology_ != nullptr) {
      const StepCost cost = cost_of(ways[0].steps[0]);
      const bool partial = at_.has_partial() || dst_.has_partial();
      if (!partial) bound_ = cost.bytes_received;  // the step receives what any must
      ways[0].price = price_of_step(cost);
    }
    const bool fits = spread_senders(ways[0].steps[0]);
    if (fits && topology_ == nullptr) return ways;
    if (topology_ != nullptr) {
      Price& price = *ways[0].price;
      price.us = links_of(ways[0].steps[0], *topology_).us(price.messages, price.most_bytes);
      price.us_of_steps[0] = price.us;
    }
    const Sharing sharing = fits ? Sharing::kAll : Sharing::kEven;
    const Spec part = with_layout(dst_, shared_part(at_, dst_, sharing));
    Steps relay = relay_steps(at_, part, dst_);
    const bool differs = part.layout() != dst_.layout() && relay[0].kind != Kind::kLocal;
    if (differs && !fits) {
      ways.clear();
      ways.emplace_back(std::move(relay));
    } else if (differs) {
      const StepCost into = cost_of(relay[0], topology_);
      if (may_pay(relay[1], into, *ways[0].price)) {
        Price price = price_of_step(into);
        price.add(price_of_step(cost_of(relay[1], topology_)));
        ways.emplace_back(std::move(relay), price);
      }
    }
    add_chain(ways);
    return ways;
  }

  /// Ways that reduce the last group.
  Ways reductions(const std::vector<int>& group) const {
    Ways ways;
    const Spec whole =
        one_mesh() ? with_layout(dst_, without_partial(dst_.layout(), filled_)) : dst_;
    const bool refills = std::any_of(group.begin(), group.end(), [&](int axis) {
      return std::find(filled_.begin(), filled_.end(), axis) != filled_.end();
    });
    if (!refills || !one_mesh()) {
      ways.emplace_back(Steps{direct_step(at_, dst_)});
    } else {
      ways.emplace_back(Steps{direct_step(at_, whole), direct_step(whole, dst_)});
    }
    if (!one_mesh() && dst_.has_partial()) return ways;
    if (std::optional<Steps> least = fewest_bytes(whole, group, ways[0].steps[0]))
      return Ways{*std::move(least)};
    std::optional<Spec> before;
    for (const Sharing sharing : {Sharing::kReduced, Sharing::kAll}) {
      const Spec part = with_layout(whole, shared_part(at_, whole, sharing));
      if (part.layout() == whole.layout() || (before && before->layout() == part.layout()))
        continue;
      before = part;
      if (filled_.empty()) {
        ways.emplace_back(relay_steps(at_, part, whole));
      } else {
        ways.emplace_back(Steps{direct_step(at_, part), direct_step(part, dst_)});
      }
    }
    if (filled_.empty()) add_chain(ways);
    return ways;
  }

  /// The relay among all ranks, where it is known to receive less than the other ways: of a part X
  /// of the target T and p summands, one of them in H, a rank receives (p−1)|X| + |T| − |X ∩ H|,
  /// which for p > 2 falls with X.
  std::optional<Steps> fewest_bytes(const Spec& whole, const std::vector<int>& group,
                                    const PlanStep& direct) const {
    std::int64_t summands = 1;
    for (const int axis : group) summands *= at_.mesh().size(axis);
    const bool known = topology_ == nullptr && one_mesh() && filled_.empty() && summands > 2 &&
                       direct.kind != Kind::kAllReduce;
    if (!known) return std::nullopt;
    const Spec part = with_layout(whole, shared_part(at_, whole, Sharing::kAll));
    if (largest_elements(part) >= largest_elements(whole)) return std::nullopt;
    return relay_steps(at_, part, whole);
  }

  const Price& price_of(Way& way) const {
    if (!way.price) way.price = tessera::price_of(way.steps, topology_);
    return *way.price;
  }
  const Volume& bound() const {
    if (!bound_) bound_ = lower_bound(at_, dst_);
    return *bound_;
  }

  void add_chain(Ways& ways) const {
    if (topology_ == nullptr || !one_mesh()) return;
    double best_us = INFINITY;
    for (Way& way : ways) best_us = std::min(best_us, price_of(way).us);
    if (best_us <= kNearEnough * least_us()) return;
    const ChainLimits limits{.budget_us = best_us, .budget_bytes = most_bytes()};
    if (auto chain = cheapest_chain(at_, dst_, *topology_, limits)) {
      const Price price{chain->us,
                        chain->bytes,
                        chain->messages,
                        chain->most_bytes,
                        {chain->us_of_steps.begin(), chain->us_of_steps.end()}};
      ways.emplace_back(std::move(chain->steps), price);
    }
  }

  /// Whether a relay could be taken instead of the direct step.
  bool may_pay(const PlanStep& gather, const StepCost& into, const Price& direct) const {
    return direct.bytes > most_bytes() || least_us(gather, into) <= direct.us;
  }

  /// What a relay takes at least, after a first step of this cost: its second one counts bytes
  /// alone, which is quicker than messages.
  double least_us(const PlanStep& gather, const StepCost& into) const {
    const bool apart = gather.kept && gather.kept->mesh() != gather.dst.mesh();
    std::int64_t bytes = 0;
    if (!apart) {
      bytes = bytes_of(gather).max;
    } else if (const auto lacks = most_lacking(*gather.kept, gather.src, gather.dst)) {
      bytes = *lacks * size_of(dst_.dtype());
    }
    if (bytes == 0) return 0;
    // Each message brings a part at most, of which that of coord 0 is the largest where axes alone
    // cut.
    std::int64_t messages = 1;
    if (has_only_axes(gather.src.layout())) {
      const std::int64_t part =
          std::max<std::int64_t>(1, largest_elements(gather.src)) * size_of(dst_.dtype());
      messages = bytes / part + (bytes % part != 0 ? 1 : 0);
    }
    const double us = into.estimated_us + links_of(gather, *topology_).us(messages, bytes);
    return us * (1 - 1e-12);
  }

  /// What any way must take.
  double least_us() const {
    double latency_us = INFINITY, gb_per_s = 0;
    for (const LinkClass& link : topology_->links) {
      latency_us = std::min(latency_us, link.latency_us);
      gb_per_s = std::max(gb_per_s, link.gb_per_s);
    }
    return topology_->step_us + latency_us + static_cast<double>(bound().max) / (gb_per_s * 1e3);
  }

  /// Bytes in all beyond which a plan is not taken for its latency.
  std::int64_t most_bytes() const {
    const std::int64_t part = std::max(largest_elements(src_), largest_elements(dst_));
    if (part * size_of(dst_.dtype()) < kLargeBytes) return INT64_MAX;
    return static_cast<std::int64_t>(kMostOverBound * static_cast<double>(bound().total));
  }

  Way cheapest(Ways ways) const {
    if (ways.size() == 1) return std::move(ways[0]);
    if (topology_ == nullptr) keep_fewest_bytes(ways);
    if (ways.size() == 1) return std::move(ways[0]);
    return cheapest(std::move(ways), topology_ != nullptr ? most_bytes() : INT64_MAX);
  }
  /// Where one that moves more than `most` bytes is heavy.
  Way cheapest(Ways ways, std::int64_t most) const {
    Way* best = nullptr;
    for (Way& way : ways) {
      const Price& price = price_of(way);
      if (best == nullptr) {
        best = &way;
        continue;
      }
      const bool heavy = price.bytes > most;
      const bool best_is_heavy = best->price->bytes > most;
      if (heavy == best_is_heavy ? price.key() < best->price->key() : !heavy) best = &way;
    }
    return std::move(*best);
  }

  static void keep_fewest_bytes(Ways& ways) {
    std::vector<std::int64_t> bytes;
    for (const Way& way : ways) {
      std::int64_t total = 0;
      for (const PlanStep& step : way.steps) total = sum_of(total, bytes_of(step).total);
      bytes.push_back(total);
    }
    const std::int64_t least = *std::min_element(bytes.begin(), bytes.end());
    Ways kept;
    for (std::size_t i = 0; i < ways.size(); ++i) {
      if (bytes[i] == least) kept.push_back(std::move(ways[i]));
    }
    ways = std::move(kept);
  }

  /// Chooses replicas so that no rank sends much more than it holds or receives; false where only a
  /// relay does.
  bool spread_senders(PlanStep& step) const {
    const Layout& from = at_.layout();
    const Layout& to = dst_.layout();
    std::int64_t replicas = 1, copies = 1, copies_of_aligned = 1;
    for (int axis = 0; axis < at_.mesh().ndim(); ++axis) {
      if (replicates(from, axis)) replicas *= at_.mesh().size(axis);
    }
    for (int axis = 0; axis < dst_.mesh().ndim(); ++axis) {
      if (!replicates(to, axis)) continue;
      copies *= dst_.mesh().size(axis);
      if (one_mesh() && !replicates(from, axis)) copies_of_aligned *= dst_.mesh().size(axis);
    }
    if (one_mesh() && copies_of_aligned <= kMostSends) return true;
    const std::int64_t in_turn = copies / replicas + (copies % replicas != 0 ? 1 : 0);
    if (!one_mesh() && in_turn <= kMostSends) return true;
    const std::int64_t held = largest_elements(at_);
    // Where Partial stays, what arrives are summands, of which the bound knows nothing.
    const bool sums = at_.has_partial();
    const std::int64_t needed = (sums ? bytes_of(step).max : bound().max) / size_of(dst_.dtype());
    const std::int64_t most = kMostSends * std::max(held, needed);
    if (one_mesh() && held * copies_of_aligned <= most) return true;
    if (held * in_turn > most) return false;
    step.replica = ReplicaChoice::kSpread;
    for (int axis = 0; one_mesh() && axis < dst_.mesh().ndim(); ++axis) {
      const bool listed = std::find(step.axes.begin(), step.axes.end(), axis) != step.axes.end();
      if (!listed && replicates(from, axis)) step.axes.push_back(axis);
    }
    std::sort(step.axes.begin(), step.axes.end());
    return true;
  }

  /// Between meshes: true if every rank of the target holds exactly its part, in equal order.
  bool moves_nothing() const {
    if (at_.has_partial() || dst_.has_partial()) return false;
    if (bound().total != 0) return false;
    const std::vector<std::int64_t> ranks = dst_.mesh().ranks();
    return std::all_of(ranks.begin(), ranks.end(), [&](std::int64_t rank) {
      const auto own = at_.mesh().coord_of(rank);
      return own && at_.local_shape(*own) == dst_.local_shape(*dst_.mesh().coord_of(rank));
    });
  }

  const Spec& src_;
  const Spec& dst_;
  Spec at_;  ///< where the steps so far lead
  const Topology* topology_;
  mutable std::optional<Volume> bound_;  ///< from at_ to dst_, once asked for
  std::vector<int> reduced_;             ///< axes still to reduce, ascending
  std::vector<int> filled_;              ///< axes to fill at the end, ascending
  std::vector<int> last_group_;          ///< axes that the last reduction takes
};

}  // namespace

PricedSteps best_steps(const Spec& src, const Spec& dst, const Topology* topology) {
  Way way = Planner(src, dst, topology).run();
  PricedSteps made{.steps = std::move(way.steps)};
  if (!way.price) return made;
  made.price = MovePrice{.us = way.price->us,
                         .bytes_received = {way.price->most_bytes, way.price->bytes},
                         .messages = way.price->messages,
                         .steps = std::ssize(made.steps)};
  return made;
}

}  // namespace tessera
