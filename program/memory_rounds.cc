#include "program/memory_rounds.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

class Follower {
 public:
  explicit Follower(const Script& script)
      : script_(script),
        now_(script.values.size(), -1),
        rounds_of_(script.values.size()),
        like_(script.carried_rounds + 1),
        most_rounds_(2 * script.carried_rounds + 4) {}

  StatusOr<FollowedSteps> run() {
    if (script_.carried_rounds > kMostCarriedRounds) {
      return out_of_range(absl::StrFormat("a value is carried on through %d names; at most %d",
                                          script_.carried_rounds, kMostCarriedRounds));
    }
    for (std::size_t i = 0; i < script_.values.size(); ++i) {
      if (script_.values[i].is_declared) TSR_RETURN_IF_ERROR(declare(static_cast<int>(i)));
    }
    TSR_RETURN_IF_ERROR(take(script_.steps));
    for (std::size_t i = 0; i < followed_.lifetimes.size(); ++i) {
      // What is there and read by nobody is somebody else's.
      if (!script_.frees && !stays_[i] && last_use_[i] >= 0) {
        followed_.lifetimes[i].end = last_use_[i];
      }
    }
    return std::move(followed_);
  }

 private:
  struct Round {
    int repeat = 0;
    std::int64_t index = 0;  ///< among those followed
  };

  const ScriptValue& value(int index) const {
    return script_.values[static_cast<std::size_t>(index)];
  }
  const ScriptRepeat& repeat(int index) const {
    return script_.repeats[static_cast<std::size_t>(index)];
  }
  std::int64_t position() const { return std::ssize(followed_.written); }
  std::int64_t followed(std::int64_t count) const { return std::min(count, most_rounds_); }

  int make(int index, std::int64_t begin) {
    const int made = static_cast<int>(followed_.lifetimes.size());
    followed_.lifetimes.push_back({index, begin});
    last_use_.push_back(begin);
    stays_.push_back(value(index).stays);
    names_.push_back(1);
    return made;
  }

  Status declare(int index) {
    const std::int64_t count = value(index).value->count;
    if (count == 1) {
      now_[static_cast<std::size_t>(index)] = make(index, -1);
      return absl::OkStatus();
    }
    std::vector<int>& rounds = rounds_of_[static_cast<std::size_t>(index)];
    for (std::int64_t i = 0; i < followed(count); ++i) {
      TSR_RETURN_IF_ERROR(count_step());
      rounds.push_back(make(index, -1));
    }
    return absl::OkStatus();
  }

  Status count_step() {
    if (++num_steps_ <= kMaxFollowedSteps) return absl::OkStatus();
    return out_of_range(absl::StrFormat(
        "the memory of repeats in repeats: more than %d steps to follow", kMaxFollowedSteps));
  }

  /// The lifetime that a value's name stands for; −1: none.
  StatusOr<int> find(int index) const {
    if (value(index).value->count > 1) return round_of_counted(index);
    return now_[static_cast<std::size_t>(index)];
  }

  StatusOr<int> round_of_counted(int index) const {
    const ScriptValue& used = value(index);
    for (std::size_t i = rounds_.size(); i-- > 0;) {
      if (repeat(rounds_[i].repeat).count == used.value->count) {
        return rounds_of_[static_cast<std::size_t>(index)]
                         [static_cast<std::size_t>(rounds_[i].index)];
      }
    }
    return invalid_argument(absl::StrFormat(
        "memory: %s has a count of %d, but is used outside of a repeat of that count",
        in_quotes(used.value->name), used.value->count));
  }

  Status take(const std::vector<ScriptStep>& steps) {
    for (const ScriptStep& step : steps) {
      if (step.repeat >= 0) {
        TSR_RETURN_IF_ERROR(take_rounds(step.repeat));
        continue;
      }
      TSR_RETURN_IF_ERROR(count_step());
      TSR_RETURN_IF_ERROR(take(step));
      followed_.written.push_back(step.written);
    }
    return absl::OkStatus();
  }

  Status take(const ScriptStep& step) {
    std::vector<int> used;
    for (const int use : step.uses) {
      TSR_ASSIGN_OR_RETURN(const int lifetime, find(use));
      used.push_back(lifetime);
      if (lifetime < 0) continue;
      const auto at = static_cast<std::size_t>(lifetime);
      last_use_[at] = position();
      if (step.frees && names_[at] > 0 && --names_[at] == 0) {
        followed_.lifetimes[at].end = position();
      }
    }
    for (const ScriptResult& result : step.results) {
      int lifetime = result.shares < 0 ? -1 : used[static_cast<std::size_t>(result.shares)];
      if (lifetime < 0) {
        lifetime = make(result.value, position());
      } else {
        ++names_[static_cast<std::size_t>(lifetime)];
        if (value(result.value).stays) stays_[static_cast<std::size_t>(lifetime)] = true;
      }
      now_[static_cast<std::size_t>(result.value)] = lifetime;
    }
    return absl::OkStatus();
  }

  Status take_rounds(int index) {
    const ScriptRepeat& body = repeat(index);
    const std::int64_t rounds = followed(body.count);
    const std::int64_t left_out = body.count - rounds;
    rounds_.push_back({index, 0});
    for (std::int64_t i = 0; i < rounds; ++i) {
      TSR_RETURN_IF_ERROR(count_step());
      rounds_.back().index = i;
      const bool is_like = left_out > 0 && i == like_;
      followed_.marks.push_back({is_like ? RoundMark::Kind::kBeginLike : RoundMark::Kind::kBegin,
                                 position(), index, i > like_ ? i + left_out : i});
      TSR_RETURN_IF_ERROR(take(body.steps));
      TSR_RETURN_IF_ERROR(carry(body));
      if (is_like) {
        followed_.marks.push_back({RoundMark::Kind::kLeftOut, position(), index, left_out});
      }
    }
    followed_.marks.push_back({RoundMark::Kind::kEnd, position(), index, 0});
    rounds_.pop_back();
    return absl::OkStatus();
  }

  Status carry(const ScriptRepeat& body) {
    std::vector<int> ends;
    for (const auto& [begin, end] : body.carry) {
      if (value(begin).value->count > 1) {
        return invalid_argument("memory: " + in_quotes(value(begin).value->name) +
                                " has a count and is carried into; each round has its own");
      }
      TSR_ASSIGN_OR_RETURN(ends.emplace_back(), find(end));
    }
    for (std::size_t i = 0; i < ends.size(); ++i) {
      now_[static_cast<std::size_t>(body.carry[i].first)] = ends[i];
    }
    return absl::OkStatus();
  }

  const Script& script_;
  FollowedSteps followed_;
  std::vector<int> now_;                     ///< the lifetime that each name stands for
  std::vector<std::vector<int>> rounds_of_;  ///< of values with a count
  // By lifetime.
  std::vector<std::int64_t> last_use_;
  std::vector<char> stays_;
  std::vector<int> names_;  ///< that are not freed
  std::vector<Round> rounds_;
  const std::int64_t like_, most_rounds_;
  std::int64_t num_steps_ = 0;
};

}  // namespace

StatusOr<FollowedSteps> follow(const Script& script) { return Follower(script).run(); }

}  // namespace tessera
