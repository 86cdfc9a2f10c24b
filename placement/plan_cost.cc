#include "placement/plan_cost.h"

#include <algorithm>

#include "placement/all_reduce_parts.h"
#include "placement/plan_links.h"
#include "placement/plan_meshes.h"
#include "placement/plan_refine.h"
#include "placement/plan_roles.h"
#include "placement/plan_tally.h"
#include "placement/reduce_op.h"

namespace tessera {
namespace {

using Kind = PlanStep::Kind;

/// So many ranks are looked at one by one where classes of ranks cannot be counted.
constexpr std::int64_t kFewRanks = 128;

/// Elements and messages that one rank receives.
struct Received {
  std::int64_t elements = 0;
  std::int64_t messages = 0;
};
/// Counts stop at the largest integer: a way that is never taken may move more than that.
std::int64_t times(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}
std::int64_t plus(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/// The same over ranks. Units: elements, messages.
struct Sum {
  Volume elements, messages;
  void add(const Received& each, std::int64_t num_ranks) {
    elements.max = std::max(elements.max, each.elements);
    elements.total = plus(elements.total, times(each.elements, num_ranks));
    messages.max = std::max(messages.max, each.messages);
    messages.total = plus(messages.total, times(each.messages, num_ranks));
  }
};

bool on_one_mesh(const PlanStep& step) {
  return step.src.mesh() == step.dst.mesh() && (!step.kept || step.kept->mesh() == step.dst.mesh());
}

std::int64_t num_contributors(const PlanStep& step) {
  const Roles roles = roles_of(step);
  std::int64_t count = 1;
  for (int axis = 0; axis < step.src.mesh().ndim(); ++axis) {
    if (roles.of_axis[static_cast<std::size_t>(axis)] == AxisRole::kFold) {
      count *= step.src.mesh().size(axis);
    }
  }
  return count;
}

/// What ranks read in a step on one mesh: what they hold under `target`, and, where shards stay in
/// place beside a Partial axis, under `stays`, too.
struct LayoutsRead {
  std::optional<Layout> target;  ///< none: the step's
  std::optional<Layout> stays;
};
/// Of axes whose shards do not stay, every coord's pieces are read.
Layout pieces_that_stay(const PlanStep& step, const Roles& roles) {
  Layout stays = step.src.layout();
  for (Levels& levels : stays.dims) {
    for (Level& level : levels) {
      const bool is_axis = level.kind == Level::Kind::kAxis;
      if (!is_axis || roles.of_axis[static_cast<std::size_t>(level.axis)] == AxisRole::kSame)
        continue;
      level = Level::of_block(step.src.mesh().size(level.axis), level.grain);
    }
  }
  return stays;
}
/// nullopt where that is not what is read.
std::optional<LayoutsRead> layouts_read(const PlanStep& step) {
  LayoutsRead read;
  const Layout& src = step.src.layout();
  std::optional<Roles> roles;
  for (int axis = 0; axis < step.dst.mesh().ndim(); ++axis) {
    const auto a = static_cast<std::size_t>(axis);
    if (!step.dst.layout().partial[a] || src.partial[a]) continue;
    if (step.in_place || src.dims.empty() || src.is_ragged()) return std::nullopt;
    if (!roles) roles = roles_of(step);
    if (roles->of_axis[a] == AxisRole::kSame) {
      if (!read.stays) read.stays = pieces_that_stay(step, *roles);
    } else if (roles->fills[a]) {
      // Coord 0 has all: a cut in chunks as long as the dim.
      if (!read.target) read.target = step.dst.layout();
      const std::int64_t all = std::max<std::int64_t>(1, step.dst.global_shape()[0]);
      read.target->dims[0].insert(read.target->dims[0].begin(), Level::of_axis(axis, all));
    }
  }
  return read;
}

/// True if what ranks receive is a linear form of what they hold: classes of ranks can be counted.
bool is_linear_form(const PlanStep& step) {
  return step.kind == Kind::kLocal ||
         (step.kind != Kind::kAllReduce && on_one_mesh(step) && layouts_read(step).has_value());
}

/// Messages cost more to count than bytes.
enum class Count : std::uint8_t { kBytes, kMessagesToo };

/// What tally() counts for a step, and how a rank's counts give what it receives.
class StepForm {
 public:
  StepForm(const PlanStep& step, Count count)
      : step_(step), count_(count), contributors_(num_contributors(step)) {
    if (step.kind != Kind::kLocal) read_ = *layouts_read(step);
  }

  std::vector<Overlap> overlaps() const {
    const Layout& dst = read_.target ? *read_.target : step_.dst.layout();
    const Layout* stays = read_.stays ? &*read_.stays : nullptr;
    const Layout& src = step_.src.layout();
    if (step_.kind == Kind::kLocal) return {};
    // Where messages do not count, something cheap stands in their place.
    const Overlap owners = count_ == Count::kBytes
                               ? Overlap{&dst, nullptr}
                               : Overlap{&dst, &src, Overlap::Of::kOwners, stays};
    if (!step_.in_place) {
      return {{&dst, nullptr, Overlap::Of::kElements, stays}, {&dst, &src}, owners};
    }
    std::vector<Overlap> all{{&dst, nullptr}, {&src, nullptr}, owners};
    if (!step_.kept) return all;
    const Layout& kept = step_.kept->layout();
    all.insert(all.end(), {{&dst, &kept}, {&src, &kept}});
    if (count_ == Count::kMessagesToo) {
      all.push_back({&kept, &src, Overlap::Of::kInside, &dst});
    }
    return all;
  }

  Received received(const std::int64_t* counts) const {
    if (step_.kind == Kind::kLocal) return {};
    if (!step_.in_place) {
      const std::int64_t own = counts[1];
      return {times(contributors_, counts[0]) - own,
              times(contributors_, counts[2]) - (own > 0 ? 1 : 0)};
    }
    const std::int64_t kept = step_.kept ? counts[3] - counts[4] : 0;
    const std::int64_t lacks = counts[0] - counts[1] - kept;
    if (lacks == 0) return {};
    // Peers whose parts a rank kept send nothing, and it does not send to itself.
    const std::int64_t inside = step_.kept && count_ == Count::kMessagesToo ? counts[5] : 0;
    const bool own_inside = step_.kept && counts[4] == counts[1];
    return {lacks, counts[2] - inside - (counts[1] > 0 && !own_inside ? 1 : 0)};
  }

 private:
  const PlanStep& step_;
  Count count_;
  std::int64_t contributors_;
  LayoutsRead read_;
};

/// Steps that are linear forms, counted together: maxima are those of one rank.
Sum sum_of_forms(const Spec& tensor, std::span<const PlanStep> steps,
                 Count count = Count::kMessagesToo) {
  std::vector<StepForm> forms;
  std::vector<std::size_t> begin;
  std::vector<Overlap> overlaps;
  forms.reserve(steps.size());  // overlaps lead into them
  for (const PlanStep& step : steps) {
    forms.emplace_back(step, count);
    begin.push_back(overlaps.size());
    const std::vector<Overlap> own = forms.back().overlaps();
    overlaps.insert(overlaps.end(), own.begin(), own.end());
  }
  Sum sum;
  if (overlaps.size() > kMaxOverlaps) {
    for (const PlanStep& step : steps) {
      const Sum one = sum_of_forms(tensor, {&step, 1}, count);
      sum.elements = {sum.elements.max + one.elements.max, sum.elements.total + one.elements.total};
      sum.messages = {sum.messages.max + one.messages.max, sum.messages.total + one.messages.total};
    }
    return sum;
  }
  if (overlaps.empty()) return sum;
  for (const RankClass& each : tally(tensor, overlaps)) {
    Received all;
    for (std::size_t i = 0; i < forms.size(); ++i) {
      const Received one = forms[i].received(each.counts.data() + begin[i]);
      all.elements += one.elements;
      all.messages += one.messages;
    }
    sum.add(all, each.num_ranks);
  }
  return sum;
}

Sum sum_of_all_reduce(const PlanStep& step) {
  const std::vector<Overlap> overlaps{{&step.dst.layout(), nullptr}};
  const std::int64_t group = num_contributors(step);
  const std::int64_t element = size_of(step.dst.dtype());
  Sum sum;
  for (const RankClass& each : tally(step.dst, overlaps)) {
    const std::int64_t count = each.counts[0];
    if (count == 0) continue;
    // The first of a group folds most. Together they receive each element so many times.
    const std::int64_t messages = all_reduce_messages(count * element, group);
    const std::int64_t times_all = messages == group - 1 ? group * (group - 1) : 2 * (group - 1);
    const std::int64_t most = all_reduce_received(count, element, {0, group});
    sum.elements.max = std::max(sum.elements.max, most);
    sum.messages.max = std::max(sum.messages.max, messages);
    const std::int64_t groups = each.num_ranks / group;
    sum.elements.total = plus(sum.elements.total, times(times(times_all, count), groups));
    sum.messages.total = plus(sum.messages.total, times(messages, each.num_ranks));
  }
  return sum;
}

Received received_by(const PlanStep& step, std::int64_t rank) {
  Received received;
  std::vector<std::int64_t> peers;
  for (const Transfer& transfer : transfers_into(step, rank)) {
    if (transfer.peer == rank) continue;
    received.elements += transfer.num_elements();
    peers.push_back(transfer.peer);
  }
  std::sort(peers.begin(), peers.end());
  received.messages = std::unique(peers.begin(), peers.end()) - peers.begin();
  return received;
}

Sum sum_of(const PlanStep& step, Count count) {
  if (step.kind == Kind::kAllReduce) return sum_of_all_reduce(step);
  if (is_linear_form(step)) return sum_of_forms(step.dst, {&step, 1}, count);
  if (step.src.mesh() != step.dst.mesh()) {
    if (const auto sum = exchanged(step.src, step.dst)) return {sum->elements, sum->messages};
  }
  Sum sum;
  for (const std::int64_t rank : step.dst.mesh().ranks()) sum.add(received_by(step, rank), 1);
  return sum;
}

StepCost cost_from(const PlanStep& step, const Sum& sum) {
  const std::int64_t element = size_of(step.dst.dtype());
  StepCost cost;
  cost.bytes_received = {times(sum.elements.max, element), times(sum.elements.total, element)};
  cost.messages = sum.messages;
  return cost;
}

/// Coords of the axes of a mesh that pass a test.
template <class Test>
std::int64_t product_of(const Mesh& mesh, const Test& test) {
  std::int64_t product = 1;
  for (int axis = 0; axis < mesh.ndim(); ++axis) {
    if (test(axis, static_cast<std::size_t>(axis))) product *= mesh.size(axis);
  }
  return product;
}

/// Elements received in all where every rank takes part in one exchange from `src` to `dst`.
Sum sum_of_exchange(const Spec& src, const Spec& dst) {
  return sum_of({.kind = Kind::kExchange, .axes = {}, .src = src, .dst = dst}, Count::kBytes);
}

/// See lower_bound(), where the Partial axes of `stay` are reduced by nobody: each coord of them
/// goes its own way. An element that some target rank has a summand of needs one message less.
std::int64_t partial_bound_elements(const Spec& src, const Spec& dst,
                                    const std::vector<bool>& stay) {
  const Layout& from = src.layout();
  const Layout& to = dst.layout();
  const bool one_mesh = src.mesh() == dst.mesh();
  const auto stays = [&](int, std::size_t a) { return one_mesh && stay[a]; };
  const std::int64_t groups = one_mesh ? product_of(src.mesh(), stays) : 1;
  const std::int64_t contributors = product_of(
      src.mesh(), [&](int axis, std::size_t a) { return from.partial[a] && !stays(axis, a); });
  const std::int64_t targets = product_of(dst.mesh(), [&](int axis, std::size_t a) {
    return to.dim_of_axis(axis) < 0 &&
           (!to.partial[a] || (divides(*to.partial[a]) && !stays(axis, a)));
  });
  const std::int64_t elements = times(num_elements(dst.global_shape()), groups);
  std::int64_t met = 0;  // elements that a target rank has a summand of
  if (one_mesh) {
    const std::vector<Overlap> overlaps{{&to, &from}};
    for (const RankClass& each : tally(dst, overlaps))
      met = plus(met, times(each.counts[0], each.num_ranks));
    // Without a reduction every target rank that holds an element saves its message; with one, an
    // element saves one message at most.
    met /= product_of(src.mesh(), [&](int axis, std::size_t a) {
      if (from.dim_of_axis(axis) >= 0 || stays(axis, a)) return false;
      if (contributors > 1) return to.dim_of_axis(axis) < 0;
      return to.partial[a] && !divides(*to.partial[a]);
    });
  } else {
    for (const std::int64_t rank : dst.mesh().ranks()) {
      const auto own = src.mesh().coord_of(rank);
      if (!own) continue;
      std::int64_t both = 1;
      const Coord coord = *dst.mesh().coord_of(rank);
      for (std::size_t d = 0; d < to.dims.size(); ++d) {
        std::int64_t count = 0;
        for (const Run& run : intersect(src.mesh(), from.dims[d], *own, dst.mesh(), to.dims[d],
                                        coord, dst.global_shape()[d])) {
          count += run.size;
        }
        both *= count;
      }
      met += both;
    }
    met = std::min(met, contributors > 1 ? elements : elements * targets);
  }
  return times(elements, contributors + targets - 1) - met;
}

/// The least over all choices of axes that stay Partial: they need not.
std::int64_t partial_bound_elements(const Spec& src, const Spec& dst) {
  const auto& from = src.layout().partial;
  const auto& to = dst.layout().partial;
  std::vector<std::size_t> may_stay;
  for (std::size_t a = 0; src.mesh() == dst.mesh() && a < from.size(); ++a) {
    if (from[a] && from[a] == to[a]) may_stay.push_back(a);
  }
  std::int64_t least = INT64_MAX;
  for (std::uint64_t chosen = 0; chosen < (std::uint64_t{1} << may_stay.size()); ++chosen) {
    std::vector<bool> stay(from.size(), false);
    for (std::size_t i = 0; i < may_stay.size(); ++i) stay[may_stay[i]] = (chosen >> i & 1) != 0;
    least = std::min(least, partial_bound_elements(src, dst, stay));
  }
  return least;
}

std::int64_t array_bytes(const Spec& spec, std::int64_t rank) {
  const std::optional<Coord> coord = spec.mesh().coord_of(rank);
  return coord ? num_elements(spec.local_shape(*coord)) * size_of(spec.dtype()) : 0;
}

std::int64_t packed_bytes(const PlanStep& step, std::int64_t rank, RankCost& cost) {
  const std::int64_t element = size_of(step.dst.dtype());
  std::int64_t received = 0, sent = 0, kept = 0, messages = 0;
  if (step.kind == Kind::kAllReduce) {
    const std::vector<std::int64_t> group = group_of(step, rank);
    const auto at = std::find(group.begin(), group.end(), rank);
    if (at == group.end()) return 0;
    const auto size = static_cast<std::int64_t>(group.size());
    const std::int64_t count = array_bytes(step.dst, rank) / element;
    received = all_reduce_received(count, element, {at - group.begin(), size}) * element;
    sent = received;
    messages = count == 0 ? 0 : all_reduce_messages(count * element, size);
  } else {
    const Received own = received_by(step, rank);
    received = own.elements * element;
    messages = own.messages;
    const bool folds = fold_of(step).has_value();
    for (const Transfer& transfer : transfers_from(step, rank)) {
      // A summand of its own is packed like the others, so that all have the same pieces.
      const std::int64_t bytes = transfer.num_elements() * element;
      if (transfer.peer != rank) sent += bytes;
      if (transfer.peer == rank && folds) kept += bytes;
    }
  }
  cost.bytes_received += received;
  cost.bytes_sent += sent;
  cost.messages += messages;
  return received + sent + kept;
}

/// Bounds from the largest arrays.
std::int64_t largest_bytes(const Spec& spec) {
  return array_bytes(spec, spec.mesh().rank_of(fullest_coord(spec.mesh(), spec.layout())));
}

template <class BytesOf>
std::int64_t peak_of(const Plan& plan, const BytesOf& bytes_of) {
  std::int64_t peak = bytes_of(plan.src), held = 0;
  for (const PlanStep& step : plan.steps) {
    const std::int64_t written = step.in_place ? 0 : bytes_of(step.array_written());
    peak = std::max(peak, bytes_of(plan.src) + held + written);
    held = step.in_place ? held : written;
  }
  return peak;
}

}  // namespace

StepCost cost_of(const PlanStep& step, const Topology* topology) {
  StepCost cost = cost_from(step, sum_of(step, Count::kMessagesToo));
  if (topology != nullptr) {
    cost.estimated_us = links_of(step, *topology).us(cost.messages.max, cost.bytes_received.max);
  }
  return cost;
}

Volume bytes_of(const PlanStep& step) {
  return cost_from(step, sum_of(step, Count::kBytes)).bytes_received;
}

Volume lower_bound(const Spec& src, const Spec& dst) {
  if (src.mesh() != dst.mesh()) {
    if (const auto both = on_common_mesh(src, dst)) return lower_bound(both->first, both->second);
  }
  const std::int64_t element = size_of(dst.dtype());
  const bool reduces = src.has_partial();
  if (!reduces && !dst.has_partial()) {
    const Volume elements = sum_of_exchange(src, dst).elements;
    return {times(elements.max, element), times(elements.total, element)};
  }
  if (src.layout() == dst.layout() && src.mesh() == dst.mesh()) return {};
  const std::int64_t total =
      times(std::max<std::int64_t>(0, partial_bound_elements(src, dst)), element);
  const std::int64_t ranks = dst.mesh().num_ranks();
  return {total / ranks + (total % ranks != 0 ? 1 : 0), total};
}

double PlanCost::ratio() const noexcept {
  if (bytes_received.total == lower_bound.total) return 1;
  return static_cast<double>(bytes_received.total) /
         static_cast<double>(std::max<std::int64_t>(1, lower_bound.total));
}

PlanCost cost_of(const Plan& plan, const Topology* topology) {
  PlanCost cost;
  for (const PlanStep& step : plan.steps) {
    cost.steps.push_back(cost_of(step, topology));
    cost.bytes_received.max += cost.steps.back().bytes_received.max;
    cost.bytes_received.total =
        plus(cost.bytes_received.total, cost.steps.back().bytes_received.total);
    cost.messages.max += cost.steps.back().messages.max;
    cost.messages.total += cost.steps.back().messages.total;
    cost.estimated_us += cost.steps.back().estimated_us;
  }
  cost.lower_bound = lower_bound(plan.src, plan.dst);
  const std::vector<std::int64_t> ranks = ranks_of(plan);
  if (std::ssize(ranks) <= kFewRanks) {
    cost.bytes_received.max = cost.messages.max = 0;
    for (const std::int64_t rank : ranks) {
      const RankCost own = cost_on(plan, rank);
      cost.bytes_received.max = std::max(cost.bytes_received.max, own.bytes_received);
      cost.messages.max = std::max(cost.messages.max, own.messages);
      cost.peak_local_bytes = std::max(cost.peak_local_bytes, own.peak_local_bytes);
    }
    return cost;
  }
  if (!plan.steps.empty() && std::all_of(plan.steps.begin(), plan.steps.end(), is_linear_form)) {
    const Sum sum = sum_of_forms(plan.steps[0].dst, plan.steps);
    cost.bytes_received.max = sum.elements.max * size_of(plan.dst.dtype());
    cost.messages.max = sum.messages.max;
  }
  cost.peak_local_bytes = peak_of(plan, largest_bytes);
  // A step packs at most what it moves.
  std::int64_t packed = 0;
  for (const StepCost& step : cost.steps) packed = std::max(packed, step.bytes_received.total);
  cost.peak_local_bytes += std::min(packed, plan.pack_bytes);
  return cost;
}

std::int64_t bytes_received(const Plan& plan, std::int64_t rank) {
  return cost_on(plan, rank).bytes_received;
}

std::vector<std::int64_t> ranks_of(const Plan& plan) {
  return ranks_of_both(plan.src.mesh(), plan.dst.mesh());
}

RankCost cost_on(const Plan& plan, std::int64_t rank) {
  RankCost cost{.rank = rank};
  std::int64_t packed = 0;
  for (const PlanStep& step : plan.steps) {
    if (step.kind == Kind::kLocal) continue;
    packed = std::max(packed, packed_bytes(step, rank, cost));
  }
  cost.peak_local_bytes = peak_of(plan, [&](const Spec& spec) { return array_bytes(spec, rank); }) +
                          std::min(packed, plan.pack_bytes);
  return cost;
}

}  // namespace tessera
