// tests/redistribute/simulate.h: runs plans on all ranks' arrays in one process, by nothing but the
// boxes of their steps, and judges every step and the outcome.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "placement/plan.h"
#include "tests/redistribute/held.h"

namespace tessera::judge {

/// What a rank received and sent over a plan, in elements and messages.
struct Moved {
  std::int64_t received = 0;
  std::int64_t sent = 0;
  std::int64_t messages = 0;  ///< received
};

/// Whether a rank may be sent what it held before: chains of native collectives do that.
enum class Repeats : std::uint8_t { kRefused, kAllowed };

/// Local elements (source, target) of a box, row-major.
inline std::vector<std::pair<std::int64_t, std::int64_t>> elements_of(const Transfer& box,
                                                                      const Holding& src,
                                                                      const Holding& dst) {
  std::vector<std::pair<std::int64_t, std::int64_t>> all{{0, 0}};
  for (std::size_t d = 0; d < box.dims.size(); ++d) {
    const auto src_size = static_cast<std::int64_t>(src.dims[d].size());
    const auto dst_size = static_cast<std::int64_t>(dst.dims[d].size());
    std::vector<std::pair<std::int64_t, std::int64_t>> longer;
    for (const auto& [a, b] : all) {
      for (const Run& run : box.dims[d]) {
        if (run.src < 0 || run.dst < 0 || run.src + run.size > src_size ||
            run.dst + run.size > dst_size) {
          return {};  // the caller finds fewer elements than the box says
        }
        for (std::int64_t i = 0; i < run.size; ++i) {
          longer.emplace_back(a * src_size + run.src + i, b * dst_size + run.dst + i);
        }
      }
    }
    all = std::move(longer);
  }
  return all;
}

class Simulation {
 public:
  Simulation(const Plan& plan, HeldCache& cache, Repeats repeats = Repeats::kRefused)
      : plan_(plan), cache_(cache) {
    const auto src = cache.of(plan.src);
    const auto dst = cache.of(plan.dst);
    for (const auto* held : {src.get(), dst.get()}) {
      for (const auto& [rank, holding] : held->by_rank()) ranks_.insert(rank);
    }
    refuses_repeats_ = repeats == Repeats::kRefused && !plan.src.has_partial();
    const auto size = static_cast<std::size_t>(num_elements(plan.src.global_shape()));
    for (const std::int64_t rank : ranks_) {
      moved_[rank] = {};
      std::vector<char>& had = had_[rank];
      had.assign(size, 0);
      if (const Holding* holding = src->on(rank)) {
        for (const std::int64_t e : holding->elements) had[static_cast<std::size_t>(e)] = 1;
      }
    }
  }

  /// Runs and compares; the first flaw as text, or "".
  std::string run(std::uint32_t seed = 1) {
    const auto src = cache_.of(plan_.src);
    const auto dst = cache_.of(plan_.dst);
    arrays_ = made_parts(*src, seed);
    const Whole before = whole_of(*src, arrays_);
    const PlanStep* last = nullptr;
    for (const PlanStep& step : plan_.steps) {
      check_chain(last, step);
      if (flaw_.empty()) check_groups(step);
      if (flaw_.empty()) check_mirror(step);
      if (flaw_.empty()) run_step(step);
      if (!flaw_.empty()) return std::string(name_of(step.kind)) + ": " + flaw_;
      last = &step;
    }
    if (last != nullptr &&
        !(alike(last->dst, plan_.dst) && alike(last->array_written(), plan_.dst))) {
      return "the last step ends elsewhere";
    }
    for (const std::int64_t rank : ranks_) {
      const std::int64_t bytes = moved_[rank].received * size_of(plan_.dst.dtype());
      if (!shares_reductions_ && bytes_received(plan_, rank) != bytes)
        return "bytes_received() counts otherwise";
    }
    std::erase_if(arrays_, [&](const auto& each) { return dst->on(each.first) == nullptr; });
    const Whole after = whole_of(*dst, arrays_);
    return after.flaw.empty() ? difference(before.values, after.values) : after.flaw;
  }

  const std::map<std::int64_t, Moved>& moved() const { return moved_; }
  const std::map<std::int64_t, Local>& arrays() const { return arrays_; }

 private:
  void check_chain(const PlanStep* last, const PlanStep& step) {
    if (!alike(step.src, last == nullptr ? plan_.src : last->dst)) flaw_ = "steps do not chain";
    const Spec& lies = last == nullptr ? plan_.src : last->array_written();
    if (!alike(step.array_read(), lies)) flaw_ = "reads another array than the step before wrote";
    if (step.in_place && (!step.host || last == nullptr)) flaw_ = "in place without an array";
  }

  /// The same arrays on all ranks: meshes may differ in names and in axes of size 1.
  bool alike(const Spec& a, const Spec& b) {
    if (a == b) return true;
    const auto held_a = cache_.of(a), held_b = cache_.of(b);
    if (a.global_shape() != b.global_shape() || a.dtype() != b.dtype()) return false;
    return std::equal(held_a->by_rank().begin(), held_a->by_rank().end(), held_b->by_rank().begin(),
                      held_b->by_rank().end(), [](const auto& x, const auto& y) {
                        return x.first == y.first && x.second.elements == y.second.elements;
                      });
  }

  void check_groups(const PlanStep& step) {
    groups_.clear();
    for (const std::int64_t rank : ranks_) {
      std::vector<std::int64_t> group = group_of(step, rank);
      if (!group.empty() && std::count(group.begin(), group.end(), rank) != 1) {
        flaw_ = "a rank is not once in its group";
      }
      groups_.emplace(rank, std::move(group));
    }
    for (const auto& [rank, group] : groups_) {
      for (const std::int64_t member : group) {
        if (groups_[member] != group) flaw_ = "ranks of one group list others";
      }
    }
  }

  /// transfers_from of all ranks, turned around, is transfers_into of all ranks, box by box.
  void check_mirror(const PlanStep& step) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Transfer>> into, from;
    boxes_.clear();
    for (const std::int64_t rank : ranks_) {
      boxes_[rank] = transfers_into(step, rank);
      for (Transfer box : boxes_[rank]) {
        const std::int64_t sender = std::exchange(box.peer, 0);
        into[{sender, rank}].push_back(std::move(box));
      }
      for (Transfer box : transfers_from(step, rank)) {
        const std::int64_t reader = std::exchange(box.peer, 0);
        from[{rank, reader}].push_back(std::move(box));
      }
    }
    if (into != from) flaw_ = "transfers_from is no mirror of transfers_into";
  }

  void run_step(const PlanStep& step) {
    const auto read = cache_.of(step.array_read());
    const auto written = cache_.of(step.array_written());
    std::map<std::int64_t, Local> next;
    for (const auto& [rank, holding] : written->by_rank()) {
      next[rank] = step.in_place ? arrays_[rank] : Local(holding.elements.size(), kNothing);
    }
    reads_.clear();
    writes_.clear();
    for (const std::int64_t rank : ranks_) {
      if (!flaw_.empty()) return;
      run_rank(step, {*read, *written}, rank, next[rank]);
    }
    if (step.in_place) check_no_race();
    std::erase_if(next, [&](const auto& each) { return written->on(each.first) == nullptr; });
    arrays_ = std::move(next);
  }

  struct Sides {
    const Held& read;
    const Held& written;
  };
  void run_rank(const PlanStep& step, const Sides& sides, std::int64_t rank, Local& out) {
    const std::optional<Fold> fold = fold_of(step);
    const std::optional<ReduceOp> fill = fill_of(step, rank);
    if (fill) out.assign(out.size(), identity_of(*fill));
    std::vector<std::int64_t> landed(out.size(), 0);
    std::set<std::int64_t> peers;
    std::int64_t contributor = 0;
    for (const Transfer& box : boxes_[rank]) {
      if (box.contributor < contributor) flaw_ = "boxes do not ascend by contributor";
      contributor = box.contributor;
      if (box.contributor > 0 && !fold) flaw_ = "folds without an operation";
      check_peer(step, box, rank);
      if (box.peer != rank) peers.insert(box.peer);
      if (flaw_.empty()) land(box, sides, rank, {fold, landed, out, step.in_place});
      if (!flaw_.empty()) return;
    }
    moved_[rank].messages += static_cast<std::int64_t>(peers.size());
    const std::int64_t bytes = static_cast<std::int64_t>(out.size()) * size_of(step.dst.dtype());
    if (step.kind == PlanStep::Kind::kAllReduce && bytes > kWholeBytes) shares_reductions_ = true;
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (fold && landed[i] > 0) out[i] /= static_cast<double>(fold->divisor);
      if (fold && landed[i] != 0 && landed[i] != contributor + 1) flaw_ = "a summand is left out";
    }
  }

  void check_peer(const PlanStep& step, const Transfer& box, std::int64_t rank) {
    if (step.kind == PlanStep::Kind::kLocal && box.peer != rank) flaw_ = "a local step moves";
    const std::vector<std::int64_t>& group = groups_[rank];
    if (std::count(group.begin(), group.end(), box.peer) != 1) {
      flaw_ = "peer " + std::to_string(box.peer) + " of rank " + std::to_string(rank) +
              " is outside of the group";
    }
  }

  struct Landing {
    const std::optional<Fold>& fold;
    std::vector<std::int64_t>& landed;  ///< boxes so far, by element
    Local& out;
    bool in_place = false;
  };
  void land(const Transfer& box, const Sides& sides, std::int64_t rank, const Landing& at) {
    const Holding* src = sides.read.on(box.peer);
    const Holding* dst = sides.written.on(rank);
    if (src == nullptr || dst == nullptr) {
      flaw_ = "a box between ranks without arrays";
      return;
    }
    const auto elements = elements_of(box, *src, *dst);
    const auto count = static_cast<std::int64_t>(elements.size());
    if (count == 0 || count != box.num_elements()) {
      flaw_ = "a box of other elements than it counts, or of none";
      return;
    }
    if (box.peer != rank) {
      moved_[rank].received += count;
      moved_[box.peer].sent += count;
    }
    const Local& from = arrays_[box.peer];
    for (const auto& [s, d] : elements) {
      const auto to = static_cast<std::size_t>(d);
      if (at.landed[to]++ != box.contributor) flaw_ = "a contributor lands twice, or is left out";
      const double value = from[static_cast<std::size_t>(s)];
      at.out[to] = box.contributor == 0 ? value : fold_two(at.fold->op, at.out[to], value);
      if (at.in_place) {
        reads_.insert({box.peer, s});
        writes_.insert({rank, d});
      }
      if (box.peer == rank) continue;
      char& had = had_[rank][static_cast<std::size_t>(dst->elements[to])];
      if (had != 0 && refuses_repeats_) {
        flaw_ = "rank " + std::to_string(rank) + " receives element " +
                std::to_string(dst->elements[to]) + ", which it had";
      }
      had = 1;
    }
  }

  /// In place, nothing is read that is written at the same time.
  void check_no_race() {
    for (const auto& written : writes_) {
      if (reads_.contains(written)) flaw_ = "an element is read and written in place";
    }
  }

  std::string difference(const Local& expected, const Local& got) const {
    const bool exact = !plan_.src.has_partial();
    for (std::size_t e = 0; e < expected.size(); ++e) {
      const bool same =
          exact ? std::bit_cast<std::uint64_t>(expected[e]) == std::bit_cast<std::uint64_t>(got[e])
                : expected[e] == got[e];
      if (!same) {
        return "element " + std::to_string(e) + " is " + std::to_string(got[e]) + ", not " +
               std::to_string(expected[e]);
      }
    }
    return "";
  }

  /// Beyond it the ranks of an all-reduce fold parts and gather them: other bytes than the boxes'.
  static constexpr std::int64_t kWholeBytes = 4096;

  const Plan& plan_;
  HeldCache& cache_;
  bool shares_reductions_ = false;
  bool refuses_repeats_ = false;
  std::string flaw_;
  std::set<std::int64_t> ranks_;
  std::map<std::int64_t, std::vector<std::int64_t>> groups_;
  std::map<std::int64_t, std::vector<Transfer>> boxes_;
  std::map<std::int64_t, Local> arrays_;
  std::map<std::int64_t, std::vector<char>> had_;  ///< elements ever held, by rank
  std::set<std::pair<std::int64_t, std::int64_t>> reads_, writes_;
  std::map<std::int64_t, Moved> moved_;
};

}  // namespace tessera::judge
