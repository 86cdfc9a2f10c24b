#include "program/unfold.h"

#include <algorithm>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "program/round_name.h"
#include "program/step_names.h"

namespace tessera {
namespace {

enum class LeftOver : std::uint8_t { kAppended, kLeftOut };

std::string filled(std::string_view name, std::span<const std::int64_t> rounds, LeftOver left) {
  std::string text;
  std::size_t used = 0;
  for (const char c : name) {
    if (c == '*' && used < rounds.size()) {
      text += std::to_string(rounds[used++]);
    } else {
      text += c;
    }
  }
  if (left == LeftOver::kLeftOut) return text;
  for (; used < rounds.size(); ++used) text += '#' + std::to_string(rounds[used]);
  return text;
}

class Unfolder {
 public:
  Unfolder(const Program& program, std::int64_t max_steps)
      : program_(program), max_steps_(max_steps) {}

  StatusOr<Program> run() {
    unfolded_.name = program_.name;
    unfolded_.source = program_.source;
    unfolded_.routing = program_.routing;
    unfolded_.ranks = program_.ranks;
    unfolded_.meshes = program_.meshes;
    unfolded_.warnings = program_.warnings;
    for (const ProgramValue& value : program_.values) TSR_RETURN_IF_ERROR(declare(value));
    TSR_RETURN_IF_ERROR(add_steps(program_.steps));
    return std::move(unfolded_);
  }

 private:
  Status declare(const ProgramValue& value) {
    if (value.count == 1) {
      unfolded_.values.push_back(value);
      return take(value.name);
    }
    counts_.emplace(value.name, value.count);
    for (std::int64_t round = 0; round < value.count; ++round) {
      TSR_RETURN_IF_ERROR(count_step());
      ProgramValue& own = unfolded_.values.emplace_back(value);
      own.count = 1;
      own.name = filled(value.name, std::span(&round, 1), LeftOver::kAppended);
      own.module = filled(value.module, std::span(&round, 1), LeftOver::kLeftOut);
      TSR_RETURN_IF_ERROR(take(own.name));
    }
    return absl::OkStatus();
  }

  Status take(const std::string& name) {
    if (taken_.insert(name).second) return absl::OkStatus();
    return invalid_argument("unfold: two values would be called " + in_quotes(name) +
                            "; give one of them another name");
  }

  Status count_step() {
    if (++num_steps_ <= max_steps_) return absl::OkStatus();
    return out_of_range(
        absl::StrFormat("unfold: more than %d steps, rounds and values of rounds", max_steps_));
  }

  Status use(std::string& name) const {
    if (const auto counted = counts_.find(name); counted != counts_.end()) {
      for (std::size_t at = totals_.size(); at-- > 0;) {
        if (totals_[at] != counted->second) continue;
        name = filled(name, std::span(&indices_[at], 1), LeftOver::kAppended);
        return absl::OkStatus();
      }
      return invalid_argument(absl::StrFormat(
          "unfold: %s has a count of %d, but is used outside of a repeat of that count",
          in_quotes(name), counted->second));
    }
    if (std::optional<std::string> own = own_name(name)) {
      name = *std::move(own);
    } else if (const auto found = now_.find(name); found != now_.end()) {
      name = found->second;
    }
    return absl::OkStatus();
  }
  /// The value with the present round's number in place of the "*", where this repeat has not made
  /// it in the present round.
  std::optional<std::string> own_name(const std::string& name) const {
    if (rounds_.empty()) return std::nullopt;
    if (const auto made = made_in_.find(name);
        made != made_in_.end() && std::ranges::find(open_, made->second) != open_.end()) {
      return std::nullopt;
    }
    const std::optional<RoundName> parsed = RoundName::parse(name);
    if (!parsed) return std::nullopt;
    std::string own = parsed->with(rounds_[0]);
    if (!taken_.contains(own)) return std::nullopt;
    return own;
  }
  Status use(Json& argument) const {
    if (const std::string* name = argument.if_string()) {
      std::string own = *name;
      TSR_RETURN_IF_ERROR(use(own));
      argument = Json(std::move(own));
    } else if (Json::Array* items = argument.if_array()) {
      for (Json& item : *items) TSR_RETURN_IF_ERROR(use(item));
    }
    return absl::OkStatus();
  }

  Status make(ProgramValue& value) {
    std::string own = filled(value.name, rounds_, LeftOver::kAppended);
    TSR_RETURN_IF_ERROR(take(own));
    now_[value.name] = own;
    if (!open_.empty()) made_in_[value.name] = open_.back();
    value.name = std::move(own);
    return absl::OkStatus();
  }

  Status rename(CallStep& step) { return rename_work(step); }
  Status rename(RegionStep& step) { return rename_work(step); }
  template <class Work>
  Status rename_work(Work& step) {
    for (Json& argument : step.args) TSR_RETURN_IF_ERROR(use(argument));
    for (ProgramValue& value : step.out) TSR_RETURN_IF_ERROR(make(value));
    return absl::OkStatus();
  }
  Status rename(MoveStep& step) {
    TSR_RETURN_IF_ERROR(use(step.value));
    return make(step.out);
  }
  Status rename(FreeStep& step) const {
    for (std::string& name : step.values) TSR_RETURN_IF_ERROR(use(name));
    return absl::OkStatus();
  }
  Status rename(HostReadStep& step) const { return use(step.value); }

  Status add_steps(const std::vector<AnyStep>& steps) {
    for (const AnyStep& step : steps) {
      if (const auto* repeat = std::get_if<RepeatStep>(&step.what)) {
        TSR_RETURN_IF_ERROR(add_rounds(*repeat));
        continue;
      }
      TSR_RETURN_IF_ERROR(count_step());
      AnyStep own = step;
      const std::optional<RoundName> module =
          rounds_.size() == 1 ? RoundName::parse(step.origin.module) : std::nullopt;
      own.origin.module = module ? module->with(rounds_[0])
                                 : filled(step.origin.module, rounds_, LeftOver::kLeftOut);
      TSR_RETURN_IF_ERROR(std::visit(
          [this](auto& what) -> Status {
            if constexpr (std::is_same_v<std::decay_t<decltype(what)>, RepeatStep>) {
              return absl::OkStatus();
            } else {
              return rename(what);
            }
          },
          own.what));
      unfolded_.steps.push_back(std::move(own));
    }
    return absl::OkStatus();
  }

  Status add_rounds(const RepeatStep& repeat) {
    totals_.push_back(repeat.count);
    rounds_.push_back(0);
    indices_.push_back(0);
    open_.push_back(num_repeats_++);
    for (std::int64_t round = 0; round < repeat.count; ++round) {
      TSR_RETURN_IF_ERROR(count_step());
      rounds_.back() = repeat.first + repeat.by * round;
      indices_.back() = round;
      TSR_RETURN_IF_ERROR(add_steps(repeat.steps));
      std::vector<std::string> ends;
      for (const auto& [begin, end] : repeat.carry) {
        if (counts_.contains(begin)) {
          return invalid_argument("unfold: " + in_quotes(begin) +
                                  " has a count and is carried into; each round has its own");
        }
        TSR_RETURN_IF_ERROR(use(ends.emplace_back(end)));
      }
      for (std::size_t i = 0; i < ends.size(); ++i) now_[repeat.carry[i].first] = ends[i];
    }
    rounds_.pop_back();
    indices_.pop_back();
    totals_.pop_back();
    open_.pop_back();
    return absl::OkStatus();
  }

  const Program& program_;
  const std::int64_t max_steps_;
  Program unfolded_;
  absl::flat_hash_map<std::string, std::int64_t> counts_;  ///< of values that have one
  absl::flat_hash_map<std::string, std::string> now_;      ///< what a written name stands for
  absl::flat_hash_set<std::string> taken_;
  /// Of the repeats around, outermost first: the present round's number, how many there were before
  /// it, how many there are, and which repeat it is.
  std::vector<std::int64_t> rounds_, indices_, totals_, open_;
  absl::flat_hash_map<std::string, std::int64_t> made_in_;  ///< which repeat gave a name last
  std::int64_t num_repeats_ = 0;
  std::int64_t num_steps_ = 0;
};

}  // namespace

namespace {

/// Whether a value is known by a name that no step gives it as it is written, or by one that is
/// another value in each round.
class RoundsNamed {
 public:
  explicit RoundsNamed(const Program& program) {
    for (const ProgramValue& value : program.values) known_.insert(value.name);
  }
  bool are_in(const std::vector<AnyStep>& steps, int depth = 0) {
    for (const AnyStep& step : steps) {
      bool found = false;
      if (const auto* repeat = std::get_if<RepeatStep>(&step.what)) {
        if (repeat->first != 0 || repeat->by != 1 || are_in(repeat->steps, depth + 1)) return true;
        for (const AnyStep& inner : repeat->steps) note_ended(inner);
        continue;
      }
      AnyStep copy = step;
      visit_names(
          copy,
          [&](const std::string& name) {
            found |= !known_.contains(name) || (depth > 0 && ended_.contains(name));
          },
          [&](const ProgramValue& value) { known_.insert(value.name); });
      if (found) return true;
    }
    return false;
  }

 private:
  void note_ended(const AnyStep& step) {
    AnyStep copy = step;
    visit_names(
        copy, [](const std::string&) {},
        [&](const ProgramValue& value) {
          if (value.name.find('*') != std::string::npos) ended_.insert(value.name);
        });
  }
  absl::flat_hash_set<std::string> known_, ended_;
};

}  // namespace

StatusOr<Program> plain_rounds(StatusOr<Program> read) {
  if (!read.ok() || !RoundsNamed(*read).are_in(read->steps)) return read;
  return unfold(*read);
}

StatusOr<Program> unfold(const Program& program, std::int64_t max_steps) {
  return Unfolder(program, max_steps).run();
}

}  // namespace tessera
