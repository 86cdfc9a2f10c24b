// How schedules are made. A schedule is a list of passes for each rank. 1F1B: rank r of p first
// runs p − 1 − r forward passes, so that the last rank can start backward as early as can be, then
// one forward and one backward in turn, then the backward passes that are left; at most p − r
// micro-batches are held at a time. Interleaved: a rank has several stages, p apart; micro-batches
// go in rounds, each through all of a rank's stages before the next round begins, which divides the
// idle time at both ends by the number of stages. simulate() plays a schedule pass by pass and is
// the judge of it: every pass once, nothing before what it needs, no deadlock.
#include "parallel/pipeline_schedule.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

using Kind = PipelinePass::Kind;

Status check_shape(std::string_view name, const PipelineShape& shape) {
  if (shape.ranks >= 1 && shape.stages_per_rank >= 1 && shape.micro_batches >= 1) {
    return absl::OkStatus();
  }
  return invalid_argument(
      absl::StrFormat("%s: %d ranks x %d stages a rank, %d micro-batches; each is at least 1", name,
                      shape.ranks, shape.stages_per_rank, shape.micro_batches));
}

/// `warmup` forward passes, then one forward and one backward in turn, then the backward passes
/// left.
template <class ForwardAt, class BackwardAt>
std::vector<PipelinePass> alternate(std::int64_t warmup, std::int64_t total,
                                    const ForwardAt& forward_at, const BackwardAt& backward_at) {
  std::vector<PipelinePass> passes;
  passes.reserve(static_cast<std::size_t>(2 * total));
  for (std::int64_t i = 0; i < warmup; ++i) passes.push_back(forward_at(i));
  for (std::int64_t i = 0; i < total; ++i) {
    if (warmup + i < total) passes.push_back(forward_at(warmup + i));
    passes.push_back(backward_at(i));
  }
  return passes;
}

}  // namespace

std::string to_string(const PipelinePass& pass) {
  return absl::StrFormat("%s of stage %d, micro-batch %d",
                         pass.kind == Kind::kForward ? "forward" : "backward", pass.stage,
                         pass.micro);
}

StatusOr<PipelineSchedule> make_1f1b(const PipelineShape& shape) {
  TSR_RETURN_IF_ERROR(check_shape("1f1b", shape));
  if (shape.stages_per_rank != 1) {
    return invalid_argument(absl::StrFormat(
        "1f1b: %d stages a rank; it has one, interleaved_1f1b has more", shape.stages_per_rank));
  }
  PipelineSchedule schedule{shape, {}};
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank) {
    const auto forward_at = [&](std::int64_t i) { return PipelinePass{Kind::kForward, rank, i}; };
    const auto backward_at = [&](std::int64_t i) { return PipelinePass{Kind::kBackward, rank, i}; };
    schedule.by_rank.push_back(alternate(std::min(shape.ranks - 1 - rank, shape.micro_batches),
                                         shape.micro_batches, forward_at, backward_at));
  }
  return schedule;
}

namespace {

/// Micro-batches in rounds, none shorter than pp where there are so many: a stage then hands over
/// before the next one would wait. Sizes differ by at most one, early rounds longer.
struct Rounds {
  std::int64_t count = 1;
  std::int64_t micro_batches = 0;

  explicit Rounds(const PipelineShape& shape)
      : count(std::max<std::int64_t>(1, shape.micro_batches / shape.ranks)),
        micro_batches(shape.micro_batches) {}
  std::int64_t longest() const { return (micro_batches + count - 1) / count; }
  std::int64_t begin_of(std::int64_t round) const {
    return micro_batches / count * round + std::min(round, micro_batches % count);
  }
};

/// The passes of a rank in one direction: a round through its first stage, then its second, …;
/// backward from its last.
std::vector<PipelinePass> in_rounds(Kind kind, std::int64_t rank, const PipelineShape& shape) {
  const Rounds rounds(shape);
  std::vector<PipelinePass> passes;
  for (std::int64_t round = 0; round < rounds.count; ++round) {
    for (std::int64_t nth = 0; nth < shape.stages_per_rank; ++nth) {
      const std::int64_t chunk = kind == Kind::kForward ? nth : shape.stages_per_rank - 1 - nth;
      const std::int64_t end = rounds.begin_of(round + 1);
      for (std::int64_t micro = rounds.begin_of(round); micro < end; ++micro) {
        passes.push_back({kind, chunk * shape.ranks + rank, micro});
      }
    }
  }
  return passes;
}

}  // namespace

StatusOr<PipelineSchedule> make_interleaved_1f1b(const PipelineShape& shape) {
  TSR_RETURN_IF_ERROR(check_shape("interleaved_1f1b", shape));
  if (shape.ranks < 2 || shape.stages_per_rank < 2) {
    return invalid_argument(
        absl::StrFormat("interleaved_1f1b: pp %d with %d stages a rank; it needs at least 2 of "
                        "both",
                        shape.ranks, shape.stages_per_rank));
  }
  PipelineSchedule schedule{shape, {}};
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank) {
    const std::vector<PipelinePass> forward = in_rounds(Kind::kForward, rank, shape);
    const std::vector<PipelinePass> backward = in_rounds(Kind::kBackward, rank, shape);
    const auto total = static_cast<std::int64_t>(forward.size());
    const std::int64_t warmup =
        std::min(total, 2 * (shape.ranks - 1 - rank) +
                            (shape.stages_per_rank - 1) * Rounds(shape).longest());
    const auto pass_of = [](const std::vector<PipelinePass>& passes) {
      return [&passes](std::int64_t i) { return passes[static_cast<std::size_t>(i)]; };
    };
    schedule.by_rank.push_back(alternate(warmup, total, pass_of(forward), pass_of(backward)));
  }
  return schedule;
}

StatusOr<PipelineSchedule> make_schedule(PipelineOrder order, const PipelineShape& shape) {
  return order == PipelineOrder::k1F1B ? make_1f1b(shape) : make_interleaved_1f1b(shape);
}

namespace {

/// One run of a schedule on paper.
class Simulation {
 public:
  Simulation(const PipelineSchedule& schedule, const PipelineCosts& costs)
      : schedule_(schedule), costs_(costs), ranks_(schedule.by_rank.size()) {
    const auto passes =
        static_cast<std::size_t>(schedule.shape.num_stages() * schedule.shape.micro_batches);
    for (std::vector<std::int64_t>& ends : ends_) ends.assign(passes, kNotYet);
    timeline_.starts.resize(ranks_.size());
  }

  StatusOr<PipelineTimeline> run() {
    TSR_RETURN_IF_ERROR(check_passes());
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
        while (step(rank)) moved = true;
      }
    }
    TSR_RETURN_IF_ERROR(check_over());
    for (const RankState& rank : ranks_) timeline_.end = std::max(timeline_.end, rank.free_at);
    for (const RankState& rank : ranks_) {
      timeline_.idle.push_back(timeline_.end - rank.busy);
      timeline_.most_held.push_back(rank.most_held);
    }
    return std::move(timeline_);
  }

 private:
  static constexpr std::int64_t kNotYet = -1;
  struct RankState {
    std::size_t next = 0;
    std::int64_t free_at = 0, busy = 0, held = 0, most_held = 0;
  };

  std::int64_t& end_of(const PipelinePass& pass) {
    return ends_[pass.kind == Kind::kForward ? 0 : 1]
                [static_cast<std::size_t>(pass.stage * schedule_.shape.micro_batches + pass.micro)];
  }

  /// Every pass is of this schedule, on its rank, and there once.
  Status check_passes() {
    const PipelineShape& shape = schedule_.shape;
    TSR_RETURN_IF_ERROR(check_shape("schedule", shape));
    if (static_cast<std::int64_t>(schedule_.by_rank.size()) != shape.ranks) {
      return invalid_argument(absl::StrFormat("schedule: lists of %d ranks; the shape has %d",
                                              schedule_.by_rank.size(), shape.ranks));
    }
    std::int64_t count = 0;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (const PipelinePass& pass : schedule_.by_rank[rank]) {
        const bool known = pass.stage >= 0 && pass.stage < shape.num_stages() && pass.micro >= 0 &&
                           pass.micro < shape.micro_batches;
        if (!known || shape.rank_of(pass.stage) != static_cast<std::int64_t>(rank)) {
          return invalid_argument(absl::StrFormat("schedule: rank %d has the %s, which is %s", rank,
                                                  to_string(pass),
                                                  known ? "another rank's" : "outside the shape"));
        }
        if (std::exchange(end_of(pass), 0) == 0) {
          return invalid_argument(
              absl::StrFormat("schedule: rank %d runs the %s twice", rank, to_string(pass)));
        }
        ++count;
      }
    }
    if (count != 2 * shape.num_stages() * shape.micro_batches) {
      return invalid_argument(absl::StrFormat(
          "schedule: %d passes; %d stages x %d micro-batches need %d", count, shape.num_stages(),
          shape.micro_batches, 2 * shape.num_stages() * shape.micro_batches));
    }
    for (std::vector<std::int64_t>& ends : ends_) std::fill(ends.begin(), ends.end(), kNotYet);
    return absl::OkStatus();
  }

  /// What `pass` needs first and does not have; none where it can run, from `ready_at` on.
  std::optional<PipelinePass> missing(const PipelinePass& pass, std::int64_t& ready_at) {
    const bool forward = pass.kind == Kind::kForward;
    const std::int64_t last = schedule_.shape.num_stages() - 1;
    std::vector<PipelinePass> needed;
    if (!forward) needed.push_back({Kind::kForward, pass.stage, pass.micro});
    if (forward && pass.stage > 0) needed.push_back({Kind::kForward, pass.stage - 1, pass.micro});
    if (!forward && pass.stage < last) {
      needed.push_back({Kind::kBackward, pass.stage + 1, pass.micro});
    }
    for (const PipelinePass& each : needed) {
      if (end_of(each) == kNotYet) return each;
      ready_at = std::max(ready_at, end_of(each));
    }
    return std::nullopt;
  }

  bool step(std::size_t rank) {
    RankState& state = ranks_[rank];
    const std::vector<PipelinePass>& passes = schedule_.by_rank[rank];
    if (state.next == passes.size()) return false;
    const PipelinePass& pass = passes[state.next];
    std::int64_t start = state.free_at;
    if (missing(pass, start)) return false;
    const bool forward = pass.kind == Kind::kForward;
    const std::int64_t cost = forward ? costs_.forward : costs_.backward;
    ++state.next;
    state.free_at = end_of(pass) = start + cost;
    state.busy += cost;
    state.held += forward ? 1 : -1;
    state.most_held = std::max(state.most_held, state.held);
    timeline_.starts[rank].push_back(start);
    return true;
  }

  Status check_over() {
    std::string waits;
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      const std::vector<PipelinePass>& passes = schedule_.by_rank[rank];
      if (ranks_[rank].next == passes.size()) continue;
      const PipelinePass& pass = passes[ranks_[rank].next];
      std::int64_t unused = 0;
      waits += absl::StrFormat("; rank %d, before the %s, waits for the %s", rank, to_string(pass),
                               to_string(*missing(pass, unused)));
    }
    if (waits.empty()) return absl::OkStatus();
    return invalid_argument("schedule: no rank can go on" + waits);
  }

  const PipelineSchedule& schedule_;
  const PipelineCosts costs_;
  std::vector<RankState> ranks_;
  std::vector<std::int64_t> ends_[2];  ///< of forward, backward: stage-major
  PipelineTimeline timeline_;
};

char micro_letter(std::int64_t micro) {
  constexpr std::string_view kLetters =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  return kLetters[static_cast<std::size_t>(micro) % kLetters.size()];
}

}  // namespace

StatusOr<PipelineTimeline> simulate(const PipelineSchedule& schedule, const PipelineCosts& costs) {
  return Simulation(schedule, costs).run();
}

StatusOr<std::string> describe_schedule(const PipelineSchedule& schedule,
                                        const PipelineCosts& costs) {
  TSR_ASSIGN_OR_RETURN(const PipelineTimeline timeline, simulate(schedule, costs));
  const PipelineShape& shape = schedule.shape;
  std::string out = absl::StrFormat(
      "pipeline of %d ranks with %d %s each, %d micro-batches; a cell is one slot of time: F "
      "forward, B backward, micro-batch%s\n",
      shape.ranks, shape.stages_per_rank, shape.stages_per_rank == 1 ? "stage" : "stages",
      shape.micro_batches, shape.stages_per_rank == 1 ? "" : ", ' for each further stage");
  const auto width = static_cast<std::size_t>(1 + shape.stages_per_rank + 1);
  for (std::size_t rank = 0; rank < schedule.by_rank.size(); ++rank) {
    std::string line;
    for (std::size_t i = 0; i < schedule.by_rank[rank].size(); ++i) {
      const PipelinePass& pass = schedule.by_rank[rank][i];
      const bool forward = pass.kind == Kind::kForward;
      line.resize(static_cast<std::size_t>(timeline.starts[rank][i]) * width, ' ');
      std::string cell = {forward ? 'F' : 'B', micro_letter(pass.micro)};
      cell.append(static_cast<std::size_t>(pass.stage / shape.ranks), '\'');
      for (std::int64_t slot = 0; slot < (forward ? costs.forward : costs.backward); ++slot) {
        cell.resize(width, ' ');
        line += cell;
        cell = "-";
      }
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += absl::StrFormat("  rank %2d  %s\n", rank, line);
  }
  for (std::size_t rank = 0; rank < timeline.idle.size(); ++rank) {
    out += absl::StrFormat(
        "  rank %2d  idle %d of %d slots (%.1f %%), holds at most %d forward "
        "passes\n",
        rank, timeline.idle[rank], timeline.end,
        100.0 * static_cast<double>(timeline.idle[rank]) / static_cast<double>(timeline.end),
        timeline.most_held[rank]);
  }
  return out;
}

}  // namespace tessera
