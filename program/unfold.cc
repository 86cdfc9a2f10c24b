#include "program/unfold.h"

#include <algorithm>
#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_format.h"
#include "program/round_scope.h"
#include "program/step_names.h"

namespace tessera {
namespace {

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
    TSR_ASSIGN_OR_RETURN(const std::vector<std::string> names, scope_.declare(value));
    for (std::size_t round = 0; round < names.size(); ++round) {
      if (value.count > 1) TSR_RETURN_IF_ERROR(count_step());
      ProgramValue& own = unfolded_.values.emplace_back(value);
      own.name = names[round];
      if (value.count == 1) continue;
      own.count = 1;
      const std::size_t star = own.module.find('*');
      if (star != std::string::npos) own.module.replace(star, 1, std::to_string(round));
    }
    return absl::OkStatus();
  }

  Status count_step() {
    if (++num_steps_ <= max_steps_) return absl::OkStatus();
    return out_of_range(
        absl::StrFormat("unfold: more than %d steps, rounds and values of rounds", max_steps_));
  }

  Status use(std::string& name) const {
    TSR_ASSIGN_OR_RETURN(name, scope_.use(name));
    return absl::OkStatus();
  }
  Status use(Json& argument) const {
    if (const std::string* name = argument.if_string()) {
      TSR_ASSIGN_OR_RETURN(std::string own, scope_.use(*name));
      argument = Json(std::move(own));
    } else if (Json::Array* items = argument.if_array()) {
      for (Json& item : *items) TSR_RETURN_IF_ERROR(use(item));
    }
    return absl::OkStatus();
  }

  Status make(ProgramValue& value) {
    TSR_ASSIGN_OR_RETURN(value.name, scope_.make(value.name));
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
      own.origin.module = scope_.module(step.origin.module);
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
    scope_.begin(repeat);
    for (std::int64_t round = 0; round < repeat.count; ++round) {
      TSR_RETURN_IF_ERROR(count_step());
      scope_.begin_round(repeat, round);
      TSR_RETURN_IF_ERROR(add_steps(repeat.steps));
      TSR_RETURN_IF_ERROR(scope_.end_round(repeat));
    }
    scope_.end();
    return absl::OkStatus();
  }

  const Program& program_;
  const std::int64_t max_steps_;
  Program unfolded_;
  RoundScope scope_;
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
