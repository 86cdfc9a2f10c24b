#include "program/memory.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "program/memory_sweep.h"
#include "program/unfold.h"

namespace tessera {
namespace {

constexpr std::size_t kMostHolders = 64;

/// "layers.*.w" for "layers.3.w": the first part that is a number, as a star.
std::string with_star(const std::string& name) {
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const bool is_number =
        end > begin && std::all_of(name.begin() + static_cast<std::ptrdiff_t>(begin),
                                   name.begin() + static_cast<std::ptrdiff_t>(end),
                                   [](char c) { return c >= '0' && c <= '9'; });
    if (is_number) return name.substr(0, begin) + "*" + name.substr(end);
    begin = end + 1;
  }
  return name;
}

class Answerer {
 public:
  Answerer(const Script& script, const FollowedSteps& steps, const RankClasses& ranks)
      : script_(script), steps_(steps), ranks_(ranks) {}

  std::vector<StageMemory> answer(std::vector<MemoryTrack> tracks);

 private:
  const ScriptValue& value(std::size_t index) const { return script_.values[index]; }

  std::string path_of(int written) const;
  std::vector<MemoryHolder> holders(int rank_class, const std::vector<std::int64_t>& held) const;
  std::int64_t unplaced(int rank_class) const;
  bool is_held_by(std::size_t value, int rank_class) const {
    const auto& set = ranks_.sets[static_cast<std::size_t>(ranks_.set_of_value[value])];
    return std::ranges::binary_search(set, rank_class);
  }

  const Script& script_;
  const FollowedSteps& steps_;
  const RankClasses& ranks_;
};

std::string Answerer::path_of(int written) const {
  std::string path;
  for (int at = written; at >= 0;) {
    const WrittenStep& step = script_.written[static_cast<std::size_t>(at)];
    path = "/steps/" + std::to_string(step.index) + path;
    at = step.outer;
  }
  return path;
}

std::vector<MemoryHolder> Answerer::holders(int rank_class,
                                            const std::vector<std::int64_t>& held) const {
  // By kind, bytes of one, name and module with a star.
  std::map<std::tuple<MemoryKind, std::int64_t, std::string, std::string>,
           std::pair<MemoryHolder, int>>
      groups;
  for (std::size_t i = 0; i < held.size(); ++i) {
    const ScriptValue& each = value(i);
    if (held[i] <= 0 || each.bytes == 0 || !is_held_by(i, rank_class)) continue;
    const std::string& name = each.value->name;
    const bool is_made = each.maker != nullptr && each.value->module.empty();
    const std::string& module = is_made ? each.maker->module : each.value->module;
    auto& [holder, names] = groups[{each.kind, each.bytes, with_star(name), with_star(module)}];
    if (names++ == 0) {
      holder = {name, module, each.kind, 0, 0};
    } else if (names == 2) {
      holder.name = with_star(name);
      if (holder.module != module) holder.module = with_star(module);
    }
    holder.count += held[i];
    holder.bytes += held[i] * each.bytes;
  }
  std::vector<MemoryHolder> holders;
  for (auto& [key, group] : groups) holders.push_back(std::move(group.first));
  std::ranges::stable_sort(holders, [](const MemoryHolder& a, const MemoryHolder& b) {
    return std::tie(b.bytes, a.name, a.module) < std::tie(a.bytes, b.name, b.module);
  });
  if (holders.size() > kMostHolders) holders.resize(kMostHolders);
  return holders;
}

std::int64_t Answerer::unplaced(int rank_class) const {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < script_.values.size(); ++i) {
    const ProgramValue& each = *value(i).value;
    count += each.mesh && !each.layout && value(i).shares < 0 && is_held_by(i, rank_class);
  }
  return count;
}

std::vector<StageMemory> Answerer::answer(std::vector<MemoryTrack> tracks) {
  std::vector<StageMemory> answers;
  for (std::size_t i = 0; i < tracks.size(); ++i) {
    MemoryTrack& track = tracks[i];
    const RankClass& ranks = ranks_.classes[i];
    StageMemory& answer = answers.emplace_back();
    answer.stage = ranks.stage;
    answer.first_rank = ranks.first_rank;
    answer.ranks = ranks.ranks;
    answer.peak_bytes = track.peak.bytes;
    answer.at_peak = track.peak.by_kind;
    answer.start_bytes = track.start.bytes;
    answer.end_bytes = track.end.bytes;
    answer.peak_step = track.peak.step;
    answer.peak_rounds = std::move(track.peak_rounds);
    if (track.peak_position >= 0) {
      const int written = steps_.written[static_cast<std::size_t>(track.peak_position)];
      answer.peak_path = path_of(written);
      answer.peak_origin = script_.written[static_cast<std::size_t>(written)].step->origin;
    }
    answer.timeline = std::move(track.timeline);
    answer.unplaced = unplaced(static_cast<int>(i));
  }
  std::vector<std::int64_t> positions;
  for (const MemoryTrack& track : tracks) positions.push_back(track.peak_position);
  std::ranges::sort(positions);
  positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
  visit_held(script_, steps_, ranks_, positions,
             [&](std::int64_t position, const std::vector<std::int64_t>& held) {
               for (std::size_t i = 0; i < tracks.size(); ++i) {
                 if (tracks[i].peak_position != position) continue;
                 answers[i].holders = holders(static_cast<int>(i), held);
               }
             });
  return answers;
}

}  // namespace

std::string_view name_of(MemoryKind kind) noexcept {
  constexpr std::array<std::string_view, kMemoryKinds> kNames = {
      "parameter", "gradient", "optimizer state", "buffer", "input", "gathered", "activation"};
  return kNames[static_cast<std::size_t>(kind)];
}

StatusOr<std::vector<StageMemory>> memory_of(const Program& written, const OpTable& ops) {
  TSR_ASSIGN_OR_RETURN(const Program program, plain_rounds(written));
  TSR_ASSIGN_OR_RETURN(Script script, script_of(program, ops));
  find_kinds(script);
  TSR_ASSIGN_OR_RETURN(const FollowedSteps steps, follow(script));
  TSR_ASSIGN_OR_RETURN(const RankClasses ranks, rank_classes(program, script));
  TSR_ASSIGN_OR_RETURN(std::vector<MemoryTrack> tracks, sweep(script, steps, ranks));
  return Answerer(script, steps, ranks).answer(std::move(tracks));
}

}  // namespace tessera
