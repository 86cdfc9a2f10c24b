#include "program/memory_ranks.h"

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_format.h"
#include "placement/layout.h"

namespace tessera {
namespace {

using Stage = std::optional<int>;

class RankClassFinder {
 public:
  RankClassFinder(const Program& program, const Script& script)
      : program_(program), script_(script), readers_(script.values.size()) {}

  StatusOr<RankClasses> run() {
    find_stages();
    if (stages_.size() > kMaxRankClasses) return too_many();
    find_ranges();
    for (const Stage& stage : stages_) {
      TSR_RETURN_IF_ERROR(add_classes(stage));
    }
    for (std::size_t i = 0; i < script_.values.size(); ++i) {
      result_.set_of_value.push_back(set_of(script_.values[i], readers_[i]));
    }
    return std::move(result_);
  }

 private:
  static Status too_many() {
    return out_of_range(absl::StrFormat(
        "the program has more than %d stages and classes of ranks in them", kMaxRankClasses));
  }

  const ProgramMesh& mesh(int index) const {
    return program_.meshes[static_cast<std::size_t>(index)];
  }

  void find_stages() {
    for (const ProgramMesh& each : program_.meshes) {
      if (each.stage) stages_.insert(each.stage);
    }
    // Where no mesh says its stage, one rank runs them in turn.
    if (stages_.empty()) {
      stages_ = {std::nullopt};
      return;
    }
    for (const WrittenStep& written : script_.written) {
      if (written.step->origin.stage) stages_.insert(written.step->origin.stage);
    }
    note_readers(script_.steps);
    for (const ScriptRepeat& repeat : script_.repeats) note_readers(repeat.steps);
  }

  /// Which stages read each declared value that no stage has.
  void note_readers(const std::vector<ScriptStep>& steps) {
    for (const ScriptStep& step : steps) {
      const Stage stage =
          script_.written[static_cast<std::size_t>(step.written)].step->origin.stage;
      if (step.frees) continue;
      for (const int use : step.uses) {
        const int shares = script_.values[static_cast<std::size_t>(use)].shares;
        const int value = shares < 0 ? use : shares;
        if (script_.values[static_cast<std::size_t>(value)].is_declared) {
          readers_[static_cast<std::size_t>(value)].insert(stage);
        }
      }
    }
  }

  /// The ranks of each mesh that holds anything; none: all of its stage.
  void find_ranges() {
    ranges_.resize(program_.meshes.size());
    std::set<std::pair<std::int64_t, std::int64_t>> different;
    for (std::size_t i = 0; i < script_.values.size(); ++i) {
      const ScriptValue& value = script_.values[i];
      if (!value.value->mesh) continue;
      if (stages_.contains(std::nullopt)) meshes_of_[std::nullopt].insert(*value.value->mesh);
      if (value.maker != nullptr) meshes_of_[value.maker->stage].insert(*value.value->mesh);
      for (const Stage& reader : readers_[i]) meshes_of_[reader].insert(*value.value->mesh);
      const auto index = static_cast<std::size_t>(*value.value->mesh);
      const ProgramMesh& of = program_.meshes[index];
      if (of.of && of.stage) continue;
      const Mesh& ranks = of.of ? mesh(*of.of).mesh : of.mesh;
      ranges_[index] = Interval{ranks.first_rank(), ranks.first_rank() + ranks.num_ranks()};
      different.insert({ranges_[index]->start, ranges_[index]->stop});
    }
    if (different.size() > kMaxRankSets) std::ranges::fill(ranges_, std::nullopt);
  }

  static bool holds(const Interval& range, std::int64_t rank) {
    return range.start <= rank && rank < range.stop;
  }

  /// The ranks of a stage: those of its meshes; where it has none those of the meshes on which its
  /// steps read and make values.
  std::vector<Interval> ranks_of(const Stage& stage) {
    std::set<std::pair<std::int64_t, std::int64_t>> different;
    for (const ProgramMesh& each : program_.meshes) {
      if (!stage || each.stage != stage || each.of) continue;
      const std::int64_t first = each.mesh.first_rank();
      different.insert({first, first + each.mesh.num_ranks()});
    }
    if (different.empty()) {
      for (const int index : meshes_of_[stage]) {
        const auto& range = ranges_[static_cast<std::size_t>(index)];
        if (range) different.insert({range->start, range->stop});
      }
    }
    std::vector<Interval> ranges;
    for (const auto& [start, stop] : different) ranges.push_back({start, stop});
    if (ranges.empty()) ranges.push_back({0, std::max<std::int64_t>(1, program_.ranks)});
    return ranges;
  }

  Status add_classes(const Stage& stage) {
    const std::vector<Interval> all = ranks_of(stage);
    std::set<std::int64_t> borders;
    for (const Interval& range : all) borders.insert({range.start, range.stop});
    std::vector<int> meshes;
    std::set<std::pair<std::int64_t, std::int64_t>> seen;
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const bool is_other = program_.meshes[i].stage && program_.meshes[i].stage != stage;
      if (!ranges_[i] || is_other) continue;
      borders.insert({ranges_[i]->start, ranges_[i]->stop});
      if (seen.insert({ranges_[i]->start, ranges_[i]->stop}).second) {
        meshes.push_back(static_cast<int>(i));
      }
    }
    std::map<std::vector<bool>, std::size_t> by_meshes;
    for (auto border = borders.begin(); std::next(border) != borders.end(); ++border) {
      const auto is_here = [&](const Interval& range) { return holds(range, *border); };
      if (std::ranges::none_of(all, is_here)) continue;
      std::vector<bool> on;
      for (const int index : meshes)
        on.push_back(is_here(*ranges_[static_cast<std::size_t>(index)]));
      const auto [entry, is_new] = by_meshes.try_emplace(on, result_.classes.size());
      if (is_new) {
        if (result_.classes.size() == kMaxRankClasses) return too_many();
        result_.classes.push_back({stage, *border, 0});
      }
      result_.classes[entry->second].ranks += *std::next(border) - *border;
    }
    return absl::OkStatus();
  }

  int set_of(const ScriptValue& value, const std::set<Stage>& readers) {
    const std::optional<int> on = value.value->mesh;
    std::set<Stage> stages;
    if (stages_.contains(std::nullopt)) {
      // All is every rank's.
    } else if (on && mesh(*on).stage) {
      stages = {mesh(*on).stage};
    } else if (value.maker != nullptr && value.maker->stage) {
      stages = {value.maker->stage};
    } else if (value.is_declared && !readers.contains(std::nullopt)) {
      stages = readers;
    }
    const auto range = on ? ranges_[static_cast<std::size_t>(*on)] : std::nullopt;
    const auto key = std::pair{stages, range ? std::pair{range->start, range->stop}
                                             : std::pair{std::int64_t{-1}, std::int64_t{-1}}};
    const auto [entry, is_new] = sets_.try_emplace(key, static_cast<int>(result_.sets.size()));
    if (!is_new) return entry->second;
    std::vector<int>& set = result_.sets.emplace_back();
    for (std::size_t i = 0; i < result_.classes.size(); ++i) {
      const RankClass& each = result_.classes[i];
      if (!stages.empty() && !stages.contains(each.stage)) continue;
      if (!range || holds(*range, each.first_rank)) set.push_back(static_cast<int>(i));
    }
    return entry->second;
  }

  const Program& program_;
  const Script& script_;
  std::set<Stage> stages_;
  std::map<Stage, std::set<int>> meshes_of_;     ///< on which its steps read and make values
  std::vector<std::set<Stage>> readers_;         ///< by value
  std::vector<std::optional<Interval>> ranges_;  ///< by mesh
  std::map<std::pair<std::set<Stage>, std::pair<std::int64_t, std::int64_t>>, int> sets_;
  RankClasses result_;
};

}  // namespace

StatusOr<RankClasses> rank_classes(const Program& program, const Script& script) {
  return RankClassFinder(program, script).run();
}

}  // namespace tessera
