#include "program/fold_run.h"

#include <algorithm>
#include <map>
#include <utility>

#include "program/round_name.h"
#include "program/step_names.h"

namespace tessera {
namespace {

/// The text between which two names differ by a number; none where they do not.
std::optional<std::pair<RoundName, std::pair<std::int64_t, std::int64_t>>> difference(
    const std::string& a, const std::string& b) {
  std::size_t begin = 0;
  while (begin < a.size() && begin < b.size() && a[begin] == b[begin]) ++begin;
  while (begin > 0 && is_decimal_digit(a[begin - 1])) --begin;
  const auto number_at = [&](const std::string& text, std::size_t& end) {
    std::int64_t number = 0;
    end = begin;
    while (end < text.size() && is_decimal_digit(text[end]) && end - begin < 15) {
      number = number * 10 + (text[end++] - '0');
    }
    return number;
  };
  std::size_t end_a = 0, end_b = 0;
  const std::int64_t first = number_at(a, end_a), second = number_at(b, end_b);
  if (end_a == begin || end_b == begin || a.substr(end_a) != b.substr(end_b)) return std::nullopt;
  RoundName name{.before = a.substr(0, begin), .after = a.substr(end_a)};
  // Only names that say their number as it is written.
  if (name.with(first) != a || name.with(second) != b) return std::nullopt;
  if (name.before.find('*') != std::string::npos || name.after.find('*') != std::string::npos) {
    return std::nullopt;
  }
  return std::pair{std::move(name), std::pair{first, second}};
}

/// Where a value that is made in the run stands: which step of a round, which of its results.
struct RoundPlace {
  std::int64_t step = 0;
  std::size_t result = 0;
  bool operator<(const RoundPlace& other) const {
    return std::pair(step, result) < std::pair(other.step, other.result);
  }
};

class FoldAttempt {
 public:
  FoldAttempt(FoldState& state, const StepRun& run) : state_(state), run_(run) {}

  /// The repeat, with the values renamed. None where it cannot be; `fitting` then is the number
  /// of rounds that were alike, where that was found.
  std::optional<RepeatStep> make(std::int64_t& fitting) {
    if (!number_modules(fitting) || !classify(fitting) || !choose_names()) return std::nullopt;
    return commit();
  }

  /// Comparisons made.
  std::int64_t work() const noexcept { return work_; }

 private:
  /// Which number of a module's path is the round's, and what is added to it; −1: none.
  struct Star {
    int which = -1;
    std::int64_t offset = 0;
  };
  struct Read {
    enum class Kind { kConstant, kSameRound, kRoundBefore, kOfNumber };
    Kind kind = Kind::kConstant;
    int value = 0;     ///< kConstant; kRoundBefore: what the first round reads
    RoundPlace place;  ///< kSameRound, kRoundBefore
    RoundName name = {};
  };

  std::int64_t step_of(std::int64_t round, std::int64_t at) const {
    return run_.begin + round * run_.period + at;
  }
  const StepUses& uses(std::int64_t round, std::int64_t at) const {
    return state_.uses[static_cast<std::size_t>(step_of(round, at))];
  }
  const FoldValue& value(int index) const { return state_.values[static_cast<std::size_t>(index)]; }
  const AnyStep& step(std::int64_t round, std::int64_t at) const {
    return state_.program->steps[static_cast<std::size_t>(step_of(round, at))];
  }

  const NumberedPath& path_of(std::int64_t round, std::int64_t at) const {
    return state_.paths[static_cast<std::size_t>(step_of(round, at))];
  }

  /// Whether a round's number may be this; the second tells the direction.
  bool set_number(std::int64_t round, std::int64_t number) {
    if (round == 0) {
      if (first_ && *first_ != number) return false;
      first_ = number;
      return true;
    }
    if (round == 1 && !by_) {
      if (!first_ || (number != *first_ + 1 && number != *first_ - 1)) return false;
      by_ = number - *first_;
    }
    return number == *first_ + *by_ * round;
  }
  std::int64_t number(std::int64_t round) const { return *first_ + *by_ * round; }

  /// Which number of a module's path counts rounds, from one round to the next. False where two do.
  bool find_star(std::int64_t at) {
    ++work_;
    const NumberedPath &path = path_of(0, at), &next = path_of(1, at);
    if (path.text != next.text) return false;
    Star& star = stars_[static_cast<std::size_t>(at)];
    for (std::size_t i = 0; i < path.numbers.size(); ++i) {
      const std::int64_t by = next.numbers[i] - path.numbers[i];
      if (by == 0) continue;
      if (star.which >= 0 || by * by != 1 || (by_ && *by_ != by)) return false;
      by_ = by;
      star = {static_cast<int>(i), path.numbers[i]};
    }
    return true;
  }

  bool number_modules(std::int64_t& fitting) {
    stars_.assign(static_cast<std::size_t>(run_.period), {});
    std::map<std::int64_t, std::int64_t> counts;  // of numbers in the first round
    std::int64_t last = 0, change = 0, changes = 0;
    for (std::int64_t at = 0; at < run_.period; ++at) {
      if (!find_star(at)) return false;
      const Star& star = stars_[static_cast<std::size_t>(at)];
      if (star.which < 0) continue;
      if (!counts.empty() && star.offset != last) {
        ++changes;
        change = star.offset - last;
      }
      last = star.offset;
      ++counts[last];
    }
    // Begun later, the rounds would be those of one number each.
    if (changes == 1 && change == *by_) return false;
    if (!counts.empty()) {
      first_ =
          std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; })->first;
      for (Star& star : stars_) star.offset -= *first_;
    }
    return check_modules(fitting);
  }
  bool check_modules(std::int64_t& fitting) {
    for (std::int64_t round = 1; round < run_.count; ++round) {
      for (std::int64_t at = 0; at < run_.period; ++at) {
        ++work_;
        const bool alike = state_.shapes.at(step_of(round, at)) == state_.shapes.at(step_of(0, at));
        if (!alike) return fit(round, fitting);
        const std::vector<std::int64_t>& first = path_of(0, at).numbers;
        if (first.empty()) continue;
        const std::vector<std::int64_t>& own = path_of(round, at).numbers;
        const Star& star = stars_[static_cast<std::size_t>(at)];
        for (std::size_t i = 0; i < first.size(); ++i) {
          const bool counts = static_cast<int>(i) == star.which;
          if (own[i] != (counts ? number(round) + star.offset : first[i])) {
            return fit(round, fitting);
          }
        }
      }
    }
    return true;
  }
  static bool fit(std::int64_t rounds, std::int64_t& fitting) {
    fitting = rounds;
    return false;
  }

  /// Where in a round a value is made, and in which; none where that is not in the run.
  std::optional<std::pair<std::int64_t, RoundPlace>> made_at(int index) const {
    const std::int64_t at = value(index).step - run_.begin;
    if (value(index).step == kBeforeSteps || at < 0 || at >= run_.period * run_.count) {
      return std::nullopt;
    }
    const std::vector<int>& makes = state_.uses[static_cast<std::size_t>(value(index).step)].makes;
    const auto result = std::find(makes.begin(), makes.end(), index) - makes.begin();
    return std::pair{at / run_.period,
                     RoundPlace{at % run_.period, static_cast<std::size_t>(result)}};
  }

  bool classify(std::int64_t& fitting) {
    reads_.resize(static_cast<std::size_t>(run_.period));
    for (std::int64_t at = 0; at < run_.period; ++at) {
      const std::size_t count = uses(0, at).reads.size();
      for (std::size_t i = 0; i < count; ++i) {
        Read read;
        if (!classify_read(at, i, read, fitting)) return false;
        reads_[static_cast<std::size_t>(at)].push_back(std::move(read));
      }
    }
    return true;
  }

  bool classify_read(std::int64_t at, std::size_t i, Read& read, std::int64_t& fitting) {
    work_ += run_.count;
    const auto index = [&](std::int64_t round) { return uses(round, at).reads[i]; };
    const auto second = made_at(index(1));
    if (!second) return classify_outside(index, read, fitting);
    read.place = second->second;
    const std::int64_t back = 1 - second->first;
    if (back != 0 && back != 1) return false;
    read.kind = back == 0 ? Read::Kind::kSameRound : Read::Kind::kRoundBefore;
    for (std::int64_t round = 0; round < run_.count; ++round) {
      const auto made = made_at(index(round));
      if (round < back) {
        if (made || value(index(0)).type != value(index(1)).type) return false;
        read.value = index(0);
        continue;
      }
      const bool fits = made && made->first == round - back &&
                        made->second.step == read.place.step &&
                        made->second.result == read.place.result;
      if (!fits) return round > 1 ? fit(round, fitting) : false;
    }
    return true;
  }

  template <class Index>
  bool classify_outside(const Index& index, Read& read, std::int64_t& fitting) {
    read.value = index(0);
    if (made_at(index(0))) return false;
    if (index(1) == index(0)) {
      for (std::int64_t round = 2; round < run_.count; ++round) {
        if (index(round) != index(0)) return fit(round, fitting);
      }
      return true;
    }
    const auto differ = difference(value(index(0)).name, value(index(1)).name);
    if (!differ || value(index(0)).type != value(index(1)).type) return false;
    read.kind = Read::Kind::kOfNumber;
    read.name = differ->first;
    const auto [first, second] = differ->second;
    if (!by_ && (!set_number(0, first) || !set_number(1, second))) return false;
    if (second - first != *by_) return false;
    read.name.offset = first - *first_;
    for (std::int64_t round = 2; round < run_.count; ++round) {
      const bool fits = !made_at(index(round)) &&
                        value(index(round)).type == value(index(0)).type &&
                        value(index(round)).name == read.name.with(number(round));
      if (!fits) return fit(round, fitting);
    }
    for (std::int64_t round = 0; round < run_.count; ++round) by_number_.insert(index(round));
    return true;
  }

  bool choose_names() {
    if (!by_) {
      first_ = 0;
      by_ = 1;
    }
    for (std::int64_t at = 0; at < run_.period; ++at) {
      for (std::size_t i = 0; i < uses(0, at).makes.size(); ++i) {
        const std::optional<RoundName> name = name_of_made(at, i);
        if (!name) return false;
        made_.emplace(RoundPlace{at, i}, *name);
      }
    }
    for (const std::vector<Read>& reads : reads_) {
      for (const Read& read : reads) {
        if (read.kind == Read::Kind::kRoundBefore && !name_first(read)) return false;
      }
    }
    return true;
  }

  /// What the first round reads gets the name of what a round before it would have made.
  bool name_first(const Read& read) {
    const std::string wanted = made_.at(read.place).with(number(0) - *by_);
    const auto [renamed, is_new] = renamed_.try_emplace(read.value, wanted);
    if (!is_new) return renamed->second == wanted;
    const FoldValue& first = value(read.value);
    if (first.name == wanted) return true;
    return !first.is_fixed && !by_number_.contains(read.value) && !state_.taken.contains(wanted) &&
           is_free(wanted);
  }
  bool is_free(const std::string& wanted) { return chosen_.insert(wanted).second; }

  /// No repeat has made values of such names.
  bool is_new(const RoundName& name) const { return !state_.taken.contains(name.base()); }

  std::optional<RoundName> name_of_made(std::int64_t at, std::size_t i) {
    const auto index = [&](std::int64_t round) { return uses(round, at).makes[i]; };
    for (std::int64_t round = 0; round < run_.count; ++round) {
      if (value(index(round)).is_fixed) return std::nullopt;
    }
    if (const auto differ = difference(value(index(0)).name, value(index(1)).name)) {
      RoundName name = differ->first;
      bool fits = is_new(name);
      for (std::int64_t round = 0; round < run_.count && fits; ++round) {
        fits = value(index(round)).name == name.with(number(round));
      }
      if (fits) return name;
    }
    RoundName name{.before = value(index(0)).name + '.', .after = {}};
    if (name.before.find('*') != std::string::npos) return std::nullopt;
    const auto is_taken = [&] {
      if (!is_new(name)) return true;
      for (std::int64_t round = -1; round <= run_.count; ++round) {
        const std::string own = name.with(number(round));
        if (state_.taken.contains(own) || chosen_.contains(own)) return true;
      }
      return false;
    };
    while (is_taken()) name.before += "_.";
    for (std::int64_t round = 0; round < run_.count; ++round) {
      chosen_.insert(name.with(number(round)));
    }
    return name;
  }

  RepeatStep commit() {
    for (const auto& [index, name] : renamed_) state_.rename(index, name);
    for (const auto& [place, name] : made_) {
      state_.taken.insert(name.base());
      for (std::int64_t round = 0; round < run_.count; ++round) {
        state_.rename(uses(round, place.step).makes[place.result], name.with(number(round)));
      }
    }
    RepeatStep repeat{.count = run_.count, .first = *first_, .by = *by_, .as = {}, .steps = {}};
    for (std::int64_t at = 0; at < run_.period; ++at) {
      AnyStep& body = repeat.steps.emplace_back(step(0, at));
      const auto own = static_cast<std::size_t>(at);
      const Star& star = stars_[own];
      body.origin.module = path_text(path_of(0, at), star.which, star.offset);
      if (repeat.as.empty() && star.which >= 0) repeat.as = counted(body.origin.module);
      std::size_t next_read = 0, next_made = 0;
      visit_names(
          body, [&](std::string& name) { name = written(reads_[own][next_read++]); },
          [&](ProgramValue& value) {
            value.name = made_.at(RoundPlace{at, next_made++}).written();
          });
    }
    for (std::int64_t at = 0; at < run_.period; ++at) fix_outside(at);
    return repeat;
  }
  /// "layers" of "model.layers.*.attn"
  static std::string counted(const std::string& module) {
    const std::size_t star = module.find('*');
    if (star < 2) return "";
    const std::size_t dot = module.rfind('.', star - 2);
    return module.substr(dot == std::string::npos ? 0 : dot + 1,
                         star - 1 - (dot == std::string::npos ? 0 : dot + 1));
  }
  std::string written(const Read& read) const {
    switch (read.kind) {
      case Read::Kind::kConstant:
        return value(read.value).name;
      case Read::Kind::kSameRound:
        return made_.at(read.place).written();
      case Read::Kind::kRoundBefore: {
        RoundName name = made_.at(read.place);
        name.offset = -*by_;
        return name.written();
      }
      case Read::Kind::kOfNumber:
        break;
    }
    return read.name.written();
  }
  void fix_outside(std::int64_t at) {
    for (std::int64_t round = 0; round < run_.count; ++round) {
      for (const int index : uses(round, at).reads) {
        state_.values[static_cast<std::size_t>(index)].is_fixed = true;
      }
      for (const int index : uses(round, at).makes) {
        state_.values[static_cast<std::size_t>(index)].is_fixed = true;
      }
    }
  }

  FoldState& state_;
  const StepRun run_;
  std::int64_t work_ = 0;
  std::optional<std::int64_t> first_, by_;
  std::vector<Star> stars_;  ///< of the steps' modules
  std::vector<std::vector<Read>> reads_;
  std::map<RoundPlace, RoundName> made_;
  std::map<int, std::string> renamed_;
  absl::flat_hash_set<int> by_number_;  ///< values that are read by their names' numbers
  absl::flat_hash_set<std::string> chosen_;
};

}  // namespace

std::optional<RepeatStep> repeat_of(FoldState& state, const StepRun& run, std::int64_t& fitting,
                                    std::int64_t& work) {
  FoldAttempt attempt(state, run);
  std::optional<RepeatStep> repeat = attempt.make(fitting);
  work += attempt.work();
  return repeat;
}

}  // namespace tessera
