#include "program/fold.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "program/fold_run.h"
#include "program/step_names.h"
#include "program/step_shapes.h"

namespace tessera {
namespace {

constexpr std::size_t kMaxPeriods = 32;
/// Comparisons a step, after which no more runs are tried.
constexpr std::int64_t kMaxWork = 200;

class Folder {
 public:
  Folder(const Program& program, const FoldOptions& options)
      : program_(program),
        options_(options),
        state_{.program = &program, .shapes = StepShapes(program.steps)} {
    for (const ProgramValue& value : program.values) {
      add_value(value.name, kBeforeSteps, true, type_of(value));
    }
    for (std::int64_t i = 0; i < std::ssize(program.steps); ++i) {
      AnyStep copy = program.steps[static_cast<std::size_t>(i)];
      StepUses& uses = state_.uses.emplace_back();
      visit_names(
          copy, [&](std::string& name) { uses.reads.push_back(known(name)); },
          [&](ProgramValue& value) {
            uses.makes.push_back(add_value(value.name, i, false, type_of(value)));
          });
      note_names_inside(copy);
      state_.paths.push_back(numbered(copy.origin.module));
    }
    periods_ = state_.shapes.periods(kMaxPeriods);
  }

  Program run() {
    std::vector<std::pair<StepRun, RepeatStep>> repeats;
    for (std::int64_t i = 0; i < state_.shapes.size();) {
      const std::optional<std::pair<StepRun, RepeatStep>> found = repeat_at(i);
      if (!found) {
        ++i;
        continue;
      }
      i = found->first.begin + found->first.period * found->first.count;
      repeats.push_back(*found);
    }
    return written(repeats);
  }

 private:
  /// The same for values of one shape, dtype, mesh and layout.
  int type_of(const ProgramValue& value) {
    const auto parts = [](const ProgramValue& of) {
      return std::tie(of.global_shape, of.dtype, of.mesh, of.layout);
    };
    const std::size_t hash = absl::HashOf(
        std::vector<std::int64_t>(value.global_shape.begin(), value.global_shape.end()),
        static_cast<int>(value.dtype), value.mesh);
    std::vector<int>& alike = types_by_hash_[hash];
    for (const int each : alike) {
      if (parts(types_[static_cast<std::size_t>(each)]) == parts(value)) return each;
    }
    alike.push_back(static_cast<int>(types_.size()));
    types_.push_back(value);
    return alike.back();
  }
  int add_value(const std::string& name, std::int64_t step, bool is_fixed, int type) {
    const int index = static_cast<int>(state_.values.size());
    state_.values.push_back({.name = name, .step = step, .type = type, .is_fixed = is_fixed});
    index_[name] = index;
    state_.taken.insert(name);
    return index;
  }
  int known(const std::string& name) {
    const auto found = index_.find(name);
    // A name that only unfold() can tell, of a repeat that was there.
    return found != index_.end() ? found->second : add_value(name, kBeforeSteps, true, -1);
  }
  /// Names of repeats that are there already stay as they are.
  void note_names_inside(AnyStep& step) {
    auto* repeat = std::get_if<RepeatStep>(&step.what);
    if (repeat == nullptr) return;
    const auto fix = [&](const std::string& name) {
      state_.values[static_cast<std::size_t>(known(name))].is_fixed = true;
    };
    for (AnyStep& inner : repeat->steps) {
      visit_names(
          inner, [&](std::string& name) { fix(name); },
          [&](ProgramValue& value) { add_value(value.name, kBeforeSteps, true, type_of(value)); });
      note_names_inside(inner);
    }
    for (const auto& [begin, end] : repeat->carry) fix(begin);
  }

  std::optional<std::pair<StepRun, RepeatStep>> repeat_at(std::int64_t begin) {
    std::vector<StepRun> runs;
    for (const std::int64_t period : periods_) {
      const std::int64_t alike = state_.shapes.alike(begin, begin + period);
      if (alike < period) continue;
      const StepRun run{begin, period, alike / period + 1};
      if ((run.count - 1) * run.period >= options_.least_saved) runs.push_back(run);
    }
    std::sort(runs.begin(), runs.end(), [](const StepRun& a, const StepRun& b) {
      return std::pair(-a.count * a.period, a.period) < std::pair(-b.count * b.period, b.period);
    });
    for (StepRun run : runs) {
      while ((run.count - 1) * run.period >= options_.least_saved && run.count > 1) {
        if (work_ > kMaxWork * (state_.shapes.size() + 1000)) return std::nullopt;
        std::int64_t fitting = run.count;
        if (std::optional<RepeatStep> repeat = repeat_of(state_, run, fitting, work_)) {
          return std::pair{run, *std::move(repeat)};
        }
        // The rounds before the first that differs may be alike.
        if (fitting >= run.count || fitting < 2) break;
        run.count = fitting;
      }
    }
    return std::nullopt;
  }

  Program written(const std::vector<std::pair<StepRun, RepeatStep>>& repeats) const {
    Program folded = program_;
    folded.steps.clear();
    auto next = repeats.begin();
    for (std::int64_t i = 0; i < state_.shapes.size();) {
      if (next != repeats.end() && next->first.begin == i) {
        folded.steps.push_back({next->second});
        i += next->first.period * next->first.count;
        ++next;
        continue;
      }
      AnyStep& step = folded.steps.emplace_back(program_.steps[static_cast<std::size_t>(i)]);
      const StepUses& uses = state_.uses[static_cast<std::size_t>(i)];
      std::size_t next_read = 0, next_made = 0;
      visit_names(
          step,
          [&](std::string& name) {
            name = state_.values[static_cast<std::size_t>(uses.reads[next_read++])].name;
          },
          [&](ProgramValue& value) {
            value.name = state_.values[static_cast<std::size_t>(uses.makes[next_made++])].name;
          });
      ++i;
    }
    return folded;
  }

  const Program& program_;
  const FoldOptions options_;
  FoldState state_;
  std::int64_t work_ = 0;            ///< comparisons so far
  std::vector<ProgramValue> types_;  ///< one of each
  absl::flat_hash_map<std::size_t, std::vector<int>> types_by_hash_;
  absl::flat_hash_map<std::string, int> index_;
  std::vector<std::int64_t> periods_;
};

}  // namespace

Program fold(const Program& program, const FoldOptions& options) {
  return Folder(program, options).run();
}

}  // namespace tessera
