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

#include "absl/strings/str_format.h"
#include "placement/plan_chain.h"
#include "placement/plan_cost.h"
#include "placement/plan_refine.h"
#include "placement/plan_roles.h"
#include "placement/plan_step.h"
#include "placement/reduce_op.h"

namespace tessera {
namespace {

using Kind = PlanStep::Kind;
using Steps = std::vector<PlanStep>;

/// Packed messages are cut into chunks of this size at least.
constexpr std::int64_t kLeastChunkBytes = 1024;
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
  std::size_t steps = 0;
  auto key() const { return std::tie(us, bytes, messages, steps, most_bytes); }
};

Price price_of(const Steps& steps, const Topology* topology) {
  Price price{.steps = steps.size()};
  for (const PlanStep& step : steps) {
    const StepCost cost = cost_of(step, topology);
    price.us += cost.estimated_us;
    price.bytes = sum_of(price.bytes, cost.bytes_received.total);
    price.messages += cost.messages.max;
    price.most_bytes += cost.bytes_received.max;
  }
  return price;
}

class Planner {
 public:
  Planner(const Spec& src, const Spec& dst, const Topology* topology)
      : src_(src), dst_(dst), at_(src), topology_(topology) {}

  Steps run() {
    choose_axes();
    std::vector<Steps> ways;
    for (const Between between : {Between::kShared, Between::kSpread, Between::kWhole}) {
      Steps way = run(between);
      ways.push_back(std::move(way));
      if (!mixes_kinds()) break;
    }
    return cheapest(std::move(ways));
  }

 private:
  /// What ranks hold between two reductions of kinds that do not commute.
  enum class Between : std::uint8_t {
    kShared,  ///< parts of those that took part
    kSpread,  ///< of replicas too
    kWhole
  };

  bool one_mesh() const { return at_.mesh() == dst_.mesh(); }

  Steps run(Between between) {
    at_ = src_;
    std::vector<int> left = reduced_;
    std::vector<int> group = next_group(left);
    Steps steps;
    while (!left.empty()) {
      steps.push_back(reduction_between(group, between));
      at_ = steps.back().dst;
      group = next_group(left);
    }
    if (one_mesh() && group.empty() && same_elements(at_, dst_)) return steps;
    if (!one_mesh() && moves_nothing()) return steps;
    Steps last = cheapest(group.empty() ? moves() : reductions(group));
    std::move(last.begin(), last.end(), std::back_inserter(steps));
    return steps;
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
  std::vector<Steps> moves() const {
    std::vector<Steps> ways{{direct_step(at_, dst_)}};
    if (one_mesh() ? !filled_.empty() : dst_.has_partial()) return ways;
    if (ways[0][0].kind == Kind::kLocal) return ways;
    const bool fits = spread_senders(ways[0][0]);
    if (fits && topology_ == nullptr) return ways;
    const Sharing sharing = fits ? Sharing::kAll : Sharing::kEven;
    const Spec part = with_layout(dst_, shared_part(at_, dst_, sharing));
    Steps relay = relay_steps(at_, part, dst_);
    const bool differs = part.layout() != dst_.layout() && relay[0].kind != Kind::kLocal;
    if (differs && !fits) ways.clear();
    if (differs) ways.push_back(std::move(relay));
    add_chain(ways);
    return ways;
  }

  /// Ways that reduce the last group.
  std::vector<Steps> reductions(const std::vector<int>& group) const {
    std::vector<Steps> ways;
    const Spec whole =
        one_mesh() ? with_layout(dst_, without_partial(dst_.layout(), filled_)) : dst_;
    const bool refills = std::any_of(group.begin(), group.end(), [&](int axis) {
      return std::find(filled_.begin(), filled_.end(), axis) != filled_.end();
    });
    if (!refills || !one_mesh()) {
      ways.push_back({direct_step(at_, dst_)});
    } else {
      ways.push_back({direct_step(at_, whole), direct_step(whole, dst_)});
    }
    if (!one_mesh() && dst_.has_partial()) return ways;
    if (std::optional<Steps> least = fewest_bytes(whole, group, ways[0][0]))
      return {*std::move(least)};
    std::optional<Spec> before;
    for (const Sharing sharing : {Sharing::kReduced, Sharing::kAll}) {
      const Spec part = with_layout(whole, shared_part(at_, whole, sharing));
      if (part.layout() == whole.layout() || (before && before->layout() == part.layout()))
        continue;
      before = part;
      if (filled_.empty()) {
        ways.push_back(relay_steps(at_, part, whole));
      } else {
        ways.push_back({direct_step(at_, part), direct_step(part, dst_)});
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

  void add_chain(std::vector<Steps>& ways) const {
    if (topology_ == nullptr || !one_mesh()) return;
    const Price best = price_of(*std::min_element(ways.begin(), ways.end(),
                                                  [&](const Steps& a, const Steps& b) {
                                                    return price_of(a, topology_).key() <
                                                           price_of(b, topology_).key();
                                                  }),
                                topology_);
    double latency_us = INFINITY, gb_per_s = 0;
    for (const LinkClass& link : topology_->links) {
      latency_us = std::min(latency_us, link.latency_us);
      gb_per_s = std::max(gb_per_s, link.gb_per_s);
    }
    const auto bound = static_cast<double>(lower_bound(at_, dst_).max);
    const double least_us = topology_->step_us + latency_us + bound / (gb_per_s * 1e3);
    if (best.us <= kNearEnough * least_us) return;
    const ChainLimits limits{.budget_us = best.us, .budget_bytes = most_bytes()};
    if (auto chain = cheapest_chain(at_, dst_, *topology_, limits)) {
      ways.push_back(*std::move(chain));
    }
  }

  /// Bytes in all beyond which a plan is not taken for its latency.
  std::int64_t most_bytes() const {
    const std::int64_t part = std::max(largest_elements(src_), largest_elements(dst_));
    if (part * size_of(dst_.dtype()) < kLargeBytes) return INT64_MAX;
    return static_cast<std::int64_t>(kMostOverBound *
                                     static_cast<double>(lower_bound(at_, dst_).total));
  }

  Steps cheapest(std::vector<Steps> ways) const {
    if (ways.size() == 1) return std::move(ways[0]);
    if (topology_ == nullptr) keep_fewest_bytes(ways);
    if (ways.size() == 1) return std::move(ways[0]);
    const std::int64_t most = topology_ != nullptr ? most_bytes() : INT64_MAX;
    std::size_t best = 0;
    std::optional<Price> least;
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const Price price = price_of(ways[i], topology_);
      const bool heavy = price.bytes > most;
      const bool best_is_heavy = least && least->bytes > most;
      const bool wins = !least || (heavy == best_is_heavy ? price.key() < least->key() : !heavy);
      if (!wins) continue;
      best = i;
      least = price;
    }
    return std::move(ways[best]);
  }

  static void keep_fewest_bytes(std::vector<Steps>& ways) {
    std::vector<std::int64_t> bytes;
    for (const Steps& steps : ways) {
      std::int64_t total = 0;
      for (const PlanStep& step : steps) total = sum_of(total, bytes_of(step).total);
      bytes.push_back(total);
    }
    const std::int64_t least = *std::min_element(bytes.begin(), bytes.end());
    std::vector<Steps> kept;
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
    const std::int64_t bound = lower_bound(at_, dst_).max / size_of(dst_.dtype());
    const std::int64_t most = kMostSends * std::max(held, bound);
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
    if (lower_bound(at_, dst_).total != 0) return false;
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
  std::vector<int> reduced_;  ///< axes still to reduce, ascending
  std::vector<int> filled_;   ///< axes to fill at the end, ascending
};

Status check(const Spec& src, const Spec& dst, const PlanOptions& options) {
  std::string_view differing;
  if (src.global_shape() != dst.global_shape()) differing = "shapes";
  if (src.dtype() != dst.dtype()) differing = "dtypes";
  if (!differing.empty()) {
    return invalid_argument(absl::StrFormat(
        "redistribute: %s differ; a redistribution changes placements only [from %s, "
        "to %s]",
        std::string(differing), src.to_string(), dst.to_string()));
  }
  if (options.topology != nullptr) TSR_RETURN_IF_ERROR(validate(*options.topology));
  const std::int64_t ranks =
      src.mesh() == dst.mesh()
          ? dst.mesh().num_ranks()
          : std::min(src.mesh().num_ranks() + dst.mesh().num_ranks(),
                     std::max(src.mesh().first_rank() + src.mesh().num_ranks(),
                              dst.mesh().first_rank() + dst.mesh().num_ranks()));
  if (options.pack_bytes < least_pack_bytes(ranks)) {
    return invalid_argument(absl::StrFormat(
        "redistribute: the cap of %d bytes for packed messages is too small; among %d ranks %d "
        "bytes are the least that would do [from %s, to %s]",
        options.pack_bytes, ranks, least_pack_bytes(ranks), src.to_string(), dst.to_string()));
  }
  return absl::OkStatus();
}

/// Bytes of all ranks together must be countable.
Status check_volume(const Plan& made) {
  // Nobody receives more than every summand of all that it holds.
  auto most = static_cast<double>(made.dst.global_bytes());
  for (int axis = 0; axis < made.src.mesh().ndim(); ++axis) {
    if (made.src.layout().partial[static_cast<std::size_t>(axis)]) {
      most *= static_cast<double>(made.src.mesh().size(axis));
    }
  }
  for (int axis = 0; axis < made.dst.mesh().ndim(); ++axis) {
    if (made.dst.layout().dim_of_axis(axis) < 0) {
      most *= static_cast<double>(made.dst.mesh().size(axis));
    }
  }
  if (most < static_cast<double>(INT64_MAX) / 4) return absl::OkStatus();
  std::int64_t total = 0;
  for (const PlanStep& step : made.steps) total = sum_of(total, bytes_of(step).total);
  if (total < INT64_MAX) return absl::OkStatus();
  return out_of_range(
      absl::StrFormat("redistribute: %d ranks together would receive more than 2^63 - 1 bytes "
                      "[from %s, to %s]",
                      made.dst.mesh().num_ranks(), made.src.to_string(), made.dst.to_string()));
}

}  // namespace

std::string_view name_of(PlanStep::Kind kind) noexcept {
  constexpr std::string_view kNames[] = {"local",      "all_gather", "reduce_scatter",
                                         "all_reduce", "all_to_all", "exchange"};
  return kNames[static_cast<int>(kind)];
}

std::int64_t least_pack_bytes(std::int64_t num_ranks) noexcept {
  return 2 * kLeastChunkBytes * std::max<std::int64_t>(1, num_ranks - 1);
}

std::vector<std::int64_t> group_of(const PlanStep& step, std::int64_t rank) {
  const Mesh& mesh = step.dst.mesh();
  if (step.src.mesh() != mesh) {
    std::vector<std::int64_t> ranks = mesh.ranks();
    const std::vector<std::int64_t> sources = step.src.mesh().ranks();
    ranks.insert(ranks.end(), sources.begin(), sources.end());
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    if (!std::binary_search(ranks.begin(), ranks.end(), rank)) ranks.clear();
    return ranks;
  }
  const std::optional<Coord> coord = mesh.coord_of(rank);
  if (!coord) return {};
  std::int64_t first = rank;
  for (const int axis : step.axes) {
    first -= (*coord)[static_cast<std::size_t>(axis)] * mesh.axis(axis).stride;
  }
  std::vector<std::int64_t> ranks{first};
  for (const int axis : step.axes) {
    std::vector<std::int64_t> longer;
    for (const std::int64_t at : ranks) {
      for (std::int64_t c = 0; c < mesh.size(axis); ++c) {
        longer.push_back(at + c * mesh.axis(axis).stride);
      }
    }
    ranks = std::move(longer);
  }
  return ranks;
}

StatusOr<Plan> plan(const Spec& src, const Spec& dst, const PlanOptions& options) {
  TSR_RETURN_IF_ERROR(check(src, dst, options));
  Plan made{.src = src, .dst = dst, .steps = {}, .pack_bytes = options.pack_bytes};
  if (src.mesh() == dst.mesh()) {
    if (src.layout() != dst.layout()) made.steps = Planner(src, dst, options.topology).run();
  } else if (const auto both = on_common_mesh(src, dst)) {
    if (both->first.layout() != both->second.layout()) {
      made.steps = Planner(both->first, both->second, options.topology).run();
    }
  } else {
    made.steps = Planner(src, dst, options.topology).run();
  }
  TSR_RETURN_IF_ERROR(check_volume(made));
  return made;
}

}  // namespace tessera
