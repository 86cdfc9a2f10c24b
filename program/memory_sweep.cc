#include "program/memory_sweep.h"

#include <algorithm>

#include "placement/checked_int.h"

namespace tessera {
namespace {

constexpr std::size_t kBuckets = 250;       // each keeps its least and its most
constexpr std::int64_t kDrawnRounds = 128;  // of those left out

/// Keeps of each stretch of steps where least and most is held.
class Thinner {
 public:
  explicit Thinner(std::int64_t length)
      : width_(std::max<std::int64_t>(1, (CheckedInt(length) / kBuckets + 1).clamped())) {}

  void add(const MemoryPoint& point) {
    const std::int64_t bucket = point.step / width_;
    if (buckets_.empty() || buckets_.back().number != bucket) {
      buckets_.push_back({bucket, point, point});
      return;
    }
    Bucket& last = buckets_.back();
    if (point.bytes < last.least.bytes) last.least = point;
    if (point.bytes > last.most.bytes) last.most = point;
  }

  std::vector<MemoryPoint> points(const MemoryPoint& end) const {
    std::vector<MemoryPoint> points;
    for (const Bucket& bucket : buckets_) {
      const bool rises = bucket.least.step < bucket.most.step;
      points.push_back(rises ? bucket.least : bucket.most);
      if (bucket.least.step != bucket.most.step) {
        points.push_back(rises ? bucket.most : bucket.least);
      }
    }
    if (points.empty() || points.back().step < end.step) points.push_back(end);
    return points;
  }

 private:
  struct Bucket {
    std::int64_t number = 0;
    MemoryPoint least, most;
  };
  std::int64_t width_;
  std::vector<Bucket> buckets_;
};

class Sweep {
 public:
  Sweep(const Script& script, const FollowedSteps& steps, const RankClasses& ranks)
      : script_(script),
        steps_(steps),
        ranks_(ranks),
        held_(script.values.size()),
        tracks_(ranks.classes.size()),
        now_(ranks.classes.size()),
        is_dirty_(ranks.classes.size()),
        thinners_(ranks.classes.size(), Thinner(script.length)) {
    order_ends();
  }

  /// Positions at which `see` is called, ascending; none: tracks are taken.
  void visit(const std::vector<std::int64_t>& positions,
             const std::function<void(std::int64_t, const std::vector<std::int64_t>&)>& see) {
    positions_ = &positions;
    see_ = &see;
    run();
  }
  StatusOr<std::vector<MemoryTrack>> take() {
    run();
    if (overflows_) return out_of_range("the program's bytes held come to more than 2^63");
    for (std::size_t i = 0; i < tracks_.size(); ++i) {
      tracks_[i].end = now_[i];
      tracks_[i].end.step = step_;
      tracks_[i].timeline = thinners_[i].points(tracks_[i].end);
    }
    return std::move(tracks_);
  }

 private:
  struct Extremes {
    int rank_class = 0;
    MemoryPoint least, most;
  };
  // A round that stands for others.
  struct Log {
    std::int64_t first_step = 0;
    std::vector<std::pair<int, std::int64_t>> changes;  ///< of how many are held of a value
    std::vector<Extremes> extremes;
  };

  const ScriptValue& value(int index) const {
    return script_.values[static_cast<std::size_t>(index)];
  }

  /// Lifetimes by the position after which they end.
  void order_ends() {
    first_end_.resize(steps_.written.size() + 1);
    for (const Lifetime& each : steps_.lifetimes) {
      if (each.end != Lifetime::kNever) ++first_end_[static_cast<std::size_t>(each.end + 1)];
    }
    for (std::size_t i = 1; i < first_end_.size(); ++i) first_end_[i] += first_end_[i - 1];
    ends_.resize(first_end_.empty() ? 0 : first_end_.back());
    std::vector<std::size_t> next(first_end_.begin(), first_end_.end());
    for (const Lifetime& each : steps_.lifetimes) {
      if (each.end != Lifetime::kNever)
        ends_[next[static_cast<std::size_t>(each.end)]++] = each.value;
    }
  }

  void run() {
    for (std::size_t i = 0; i < script_.values.size(); ++i) {
      const ScriptValue& declared = script_.values[i];
      if (declared.is_declared) change(static_cast<int>(i), declared.value->count);
    }
    for (std::size_t i = 0; i < tracks_.size(); ++i) tracks_[i].start = tracks_[i].peak = now_[i];
    std::size_t lifetime = 0, mark = 0;
    while (lifetime < steps_.lifetimes.size() && steps_.lifetimes[lifetime].begin < 0) ++lifetime;
    see(-1);
    for (std::size_t i = 0; i < ranks_.classes.size(); ++i) set_dirty(static_cast<int>(i));
    const std::int64_t end = std::ssize(steps_.written);
    for (std::int64_t at = 0; at < end && !overflows_;
         ++at, step_ = (CheckedInt(step_) + 1).clamped()) {
      for (; mark < steps_.marks.size() && steps_.marks[mark].position <= at; ++mark) {
        take(steps_.marks[mark]);
      }
      for (; lifetime < steps_.lifetimes.size() && steps_.lifetimes[lifetime].begin <= at;
           ++lifetime) {
        change(steps_.lifetimes[lifetime].value, 1);
      }
      if (positions_ == nullptr) observe(at);
      see(at);
      for (std::size_t i = first_end_[static_cast<std::size_t>(at)];
           i < first_end_[static_cast<std::size_t>(at) + 1]; ++i) {
        change(ends_[i], -1);
      }
    }
    for (; mark < steps_.marks.size() && !overflows_; ++mark) take(steps_.marks[mark]);
  }

  void see(std::int64_t at) {
    if (positions_ == nullptr || next_seen_ == positions_->size()) return;
    if ((*positions_)[next_seen_] != at) return;
    (*see_)(at, held_);
    ++next_seen_;
  }

  void set_dirty(int index) {
    if (is_dirty_[static_cast<std::size_t>(index)]) return;
    is_dirty_[static_cast<std::size_t>(index)] = true;
    dirty_.push_back(index);
  }

  void change(int index, std::int64_t more) {
    if (more == 0) return;
    std::int64_t& held = held_[static_cast<std::size_t>(index)];
    std::int64_t bytes = 0;
    overflows_ |= __builtin_add_overflow(held, more, &held) ||
                  __builtin_mul_overflow(more, value(index).bytes, &bytes);
    for (Log& log : logs_) log.changes.emplace_back(index, more);
    if (overflows_ || positions_ != nullptr) return;
    const auto kind = static_cast<std::size_t>(value(index).kind);
    const int set = ranks_.set_of_value[static_cast<std::size_t>(index)];
    for (const int rank_class : ranks_.sets[static_cast<std::size_t>(set)]) {
      MemoryPoint& now = now_[static_cast<std::size_t>(rank_class)];
      overflows_ |= __builtin_add_overflow(now.bytes, bytes, &now.bytes) ||
                    __builtin_add_overflow(now.by_kind[kind], bytes, &now.by_kind[kind]);
      set_dirty(rank_class);
    }
  }

  void observe(std::int64_t at) {
    for (const int index : dirty_) {
      const auto i = static_cast<std::size_t>(index);
      is_dirty_[i] = false;
      MemoryPoint& now = now_[i];
      now.step = step_;
      if (now.bytes > tracks_[i].peak.bytes) {
        tracks_[i].peak = now;
        tracks_[i].peak_position = at;
        tracks_[i].peak_rounds = rounds_;
      }
      thinners_[i].add(now);
      for (Log& log : logs_) {
        const auto found = std::ranges::find(log.extremes, index, &Extremes::rank_class);
        if (found == log.extremes.end()) {
          log.extremes.push_back({index, now, now});
        } else if (now.bytes > found->most.bytes) {
          found->most = now;
        } else if (now.bytes < found->least.bytes) {
          found->least = now;
        }
      }
    }
    dirty_.clear();
  }

  void take(const RoundMark& mark) {
    switch (mark.kind) {
      case RoundMark::Kind::kBegin:
      case RoundMark::Kind::kBeginLike:
        if (open_.empty() || open_.back() != mark.repeat) {
          open_.push_back(mark.repeat);
          rounds_.push_back(0);
        }
        rounds_.back() = mark.number;
        if (mark.kind == RoundMark::Kind::kBeginLike) logs_.emplace_back().first_step = step_;
        return;
      case RoundMark::Kind::kLeftOut:
        leave_out(mark);
        return;
      case RoundMark::Kind::kEnd:
        open_.pop_back();
        rounds_.pop_back();
        return;
    }
  }

  /// So many rounds more like the one that has ended.
  void leave_out(const RoundMark& mark) {
    Log log = std::move(logs_.back());
    logs_.pop_back();
    const std::vector<MemoryPoint> before = now_;
    std::ranges::sort(log.changes);
    for (std::size_t i = 0; i < log.changes.size();) {
      const int index = log.changes[i].first;
      std::int64_t more = 0;
      for (; i < log.changes.size() && log.changes[i].first == index; ++i) {
        more += log.changes[i].second;
      }
      overflows_ |= __builtin_mul_overflow(more, mark.number, &more);
      if (!overflows_) change(index, more);
    }
    if (overflows_) return;
    const CheckedInt length = step_ - log.first_step;
    if (positions_ == nullptr) {
      for (const Extremes& each : log.extremes) {
        const auto index = static_cast<std::size_t>(each.rank_class);
        draw_rounds(mark.number, length, before[index], each);
      }
    }
    step_ = (CheckedInt(step_) + length * mark.number).clamped();
  }

  /// The least and the most of each round that is left out, or of some of them.
  void draw_rounds(std::int64_t rounds, CheckedInt length, const MemoryPoint& before,
                   const Extremes& of) {
    const auto index = static_cast<std::size_t>(of.rank_class);
    const std::int64_t drawn = std::min(rounds, kDrawnRounds);
    for (std::int64_t i = 1; i <= drawn; ++i) {
      const std::int64_t round = (CheckedInt(rounds) * i / drawn).clamped();
      const auto grown = [&](std::int64_t from, std::int64_t was, std::int64_t is) {
        return (CheckedInt(from) + (CheckedInt(is) - was) * round / rounds).clamped();
      };
      const bool rises = of.least.step < of.most.step;
      for (const MemoryPoint* from : {rises ? &of.least : &of.most, rises ? &of.most : &of.least}) {
        MemoryPoint point = *from;
        point.step = (CheckedInt(from->step) + length * round).clamped();
        point.bytes = grown(from->bytes, before.bytes, now_[index].bytes);
        for (std::size_t kind = 0; kind < kMemoryKinds; ++kind) {
          point.by_kind[kind] =
              grown(from->by_kind[kind], before.by_kind[kind], now_[index].by_kind[kind]);
        }
        thinners_[index].add(point);
      }
    }
  }

  const Script& script_;
  const FollowedSteps& steps_;
  const RankClasses& ranks_;
  std::vector<std::int64_t> held_;  ///< of each value, how many
  std::vector<MemoryTrack> tracks_;
  std::vector<MemoryPoint> now_;  ///< by class, as are the next ones
  std::vector<char> is_dirty_;
  std::vector<Thinner> thinners_;
  std::vector<int> dirty_;
  std::vector<std::size_t> first_end_;
  std::vector<int> ends_;
  std::vector<Log> logs_;
  std::vector<int> open_;  ///< repeats
  std::vector<std::int64_t> rounds_;
  std::int64_t step_ = 0;
  bool overflows_ = false;
  const std::vector<std::int64_t>* positions_ = nullptr;
  const std::function<void(std::int64_t, const std::vector<std::int64_t>&)>* see_ = nullptr;
  std::size_t next_seen_ = 0;
};

}  // namespace

StatusOr<std::vector<MemoryTrack>> sweep(const Script& script, const FollowedSteps& steps,
                                         const RankClasses& ranks) {
  return Sweep(script, steps, ranks).take();
}

void visit_held(const Script& script, const FollowedSteps& steps, const RankClasses& ranks,
                const std::vector<std::int64_t>& positions,
                const std::function<void(std::int64_t, const std::vector<std::int64_t>&)>& see) {
  Sweep(script, steps, ranks).visit(positions, see);
}

}  // namespace tessera
