// What a rank of each stage of a program holds over the step: by kind, who holds most where most is
// held, and a timeline.
#include "program/memory.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "io/byte_text.h"
#include "placement/checked_int.h"
#include "program/program_json.h"
#include "program/unfold.h"
#include "tools/placement_audit/command.h"
#include "tools/placement_audit/find_ops.h"
#include "tools/placement_audit/memory_advice.h"
#include "tools/placement_audit/program_page.h"

namespace tessera::audit {
namespace {

constexpr std::size_t kMostListed = 10;  // holders, in text
constexpr std::size_t kMostDrawn = 8;    // stages with holders and a timeline, in text
constexpr std::size_t kBars = 16;
constexpr std::size_t kBarWidth = 64;
// By kind, as they are stacked in a bar.
constexpr std::string_view kLetters = "PgOBIGa";

std::string cell(std::int64_t bytes) {
  return bytes == 0 ? "-" : short_byte_text(bytes) + (bytes < 1000 ? "" : "iB");
}

Json by_kind(const MemoryBytes& bytes) {
  Json json = Json::object({});
  for (std::size_t kind = 0; kind < kMemoryKinds; ++kind) {
    json.set(std::string(name_of(static_cast<MemoryKind>(kind))), bytes[kind]);
  }
  return json;
}

Json json_of(const StageMemory& stage) {
  Json::Array holders, timeline, rounds;
  for (const MemoryHolder& each : stage.holders) holders.push_back(holder_json(each));
  for (const MemoryPoint& point : stage.timeline) {
    Json::Array kinds(point.by_kind.begin(), point.by_kind.end());
    timeline.push_back(Json::object(
        {{"step", point.step}, {"bytes", point.bytes}, {"by_kind", Json(std::move(kinds))}}));
  }
  for (const std::int64_t round : stage.peak_rounds) rounds.push_back(round);
  const auto phase = stage.peak_origin.phase;
  return Json::object(
      {{"stage", stage.stage ? Json(*stage.stage) : Json()},
       {"first_rank", stage.first_rank},
       {"ranks", stage.ranks},
       {"peak_bytes", stage.peak_bytes},
       {"start_bytes", stage.start_bytes},
       {"end_bytes", stage.end_bytes},
       {"at_peak", by_kind(stage.at_peak)},
       {"peak", Json::object({{"step", stage.peak_step},
                              {"path", stage.peak_path},
                              {"rounds", Json(std::move(rounds))},
                              {"module", stage.peak_origin.module},
                              {"site", stage.peak_origin.site},
                              {"phase", phase ? Json(std::string(name_of(*phase))) : Json()}})},
       {"unplaced_values", stage.unplaced},
       {"holders", Json(std::move(holders))},
       {"timeline", Json(std::move(timeline))}});
}

std::string fitting(std::string text, std::size_t width) {
  if (text.size() > width) text = "..." + text.substr(text.size() - width + 3);
  return text;
}

std::string row(const StageMemory& stage) {
  std::string text =
      absl::StrFormat("%5s %8d %8d", stage.stage ? std::to_string(*stage.stage) : "-",
                      stage.first_rank, stage.ranks);
  for (const std::int64_t each : stage.at_peak) text += absl::StrFormat(" %8s", cell(each));
  return text + absl::StrFormat(" %8s\n", cell(stage.peak_bytes));
}

std::string table(const std::vector<StageMemory>& stages) {
  std::string text = "what a rank holds at its peak\nstage";
  for (const char* const head : {"first", "ranks", "param", "grad", "optim", "buffer", "input",
                                 "gathered", "activ", "all"}) {
    text += absl::StrFormat(" %8s", head);
  }
  text += "\n";
  for (const StageMemory& stage : stages) text += row(stage);
  return text;
}

std::string place_text(const StageMemory& stage) {
  if (stage.peak_path.empty()) return "before the first step";
  std::string text = absl::StrFormat("at step %d, %s", stage.peak_step, stage.peak_path);
  if (!stage.peak_rounds.empty()) {
    text += " of round";
    for (const std::int64_t round : stage.peak_rounds) text += absl::StrFormat(" %d", round);
  }
  if (stage.peak_origin.phase) text += ", " + std::string(name_of(*stage.peak_origin.phase));
  return text;
}

std::string origin_text(const StepOrigin& origin) {
  if (origin.module.empty() && origin.site.empty()) return "";
  const std::string site = origin.site.empty() ? "" : " (" + origin.site + ")";
  return "  in " + fitting((origin.module.empty() ? "the program" : origin.module) + site, 92) +
         "\n";
}

/// "moved.* in layers.*.attention"; without a module that the name begins with.
std::string label_of(const MemoryHolder& holder) {
  constexpr std::size_t kWidth = 58;
  std::string label = holder.name;
  if (!holder.module.empty() && !holder.name.starts_with(holder.module)) {
    label += " in " + holder.module;
  }
  if (label.size() > kWidth) label = label.substr(0, kWidth - 3) + "...";
  return label;
}

std::string holders_text(const StageMemory& stage) {
  std::string text;
  for (std::size_t i = 0; i < std::min(stage.holders.size(), kMostListed); ++i) {
    const MemoryHolder& each = stage.holders[i];
    const std::string times = each.count == 1 ? "" : absl::StrFormat("x%d", each.count);
    text += absl::StrFormat("  %-58s %-15s %9s %8s\n", label_of(each), name_of(each.kind), times,
                            cell(each.bytes));
  }
  if (stage.holders.size() > kMostListed) {
    text += absl::StrFormat("  and %d more\n", stage.holders.size() - kMostListed);
  }
  return text;
}

/// A bar of letters by kind, `most` as long as there is room.
std::string bar(const MemoryPoint& point, std::int64_t most) {
  std::string text;
  double sum = 0;
  for (std::size_t kind = 0; kind < kMemoryKinds; ++kind) {
    sum += static_cast<double>(point.by_kind[kind]);
    const double end = sum / static_cast<double>(most) * static_cast<double>(kBarWidth);
    text.resize(std::max(text.size(), static_cast<std::size_t>(end + 0.5)), kLetters[kind]);
  }
  return text;
}

/// The most of each stretch of steps.
std::string timeline_text(const StageMemory& stage) {
  if (stage.timeline.size() < 2 || stage.peak_bytes == 0) return "";
  const std::int64_t last = stage.timeline.back().step;
  std::string text;
  std::size_t at = 0;
  for (std::size_t i = 0; i < kBars; ++i) {
    const CheckedInt end = (CheckedInt(last) + 1) * static_cast<std::int64_t>(i + 1) /
                           static_cast<std::int64_t>(kBars);
    const MemoryPoint* most = nullptr;
    for (; at < stage.timeline.size() && CheckedInt(stage.timeline[at].step) < end; ++at) {
      if (most == nullptr || stage.timeline[at].bytes > most->bytes) most = &stage.timeline[at];
    }
    if (most == nullptr) continue;
    text += absl::StrFormat("  %10d %9s  %s\n", most->step, cell(most->bytes),
                            bar(*most, stage.peak_bytes));
  }
  return text;
}

std::string text_of(const Program& program, const std::vector<StageMemory>& stages,
                    std::optional<std::int64_t> cap) {
  std::string text =
      absl::StrFormat("%s: %s, %d ranks", program.name, program.source.kind, program.ranks);
  if (!program.routing.empty()) text += ", routing " + program.routing;
  text += "\n\n" + table(stages);
  std::vector<const StageMemory*> dearest;
  for (const StageMemory& stage : stages) dearest.push_back(&stage);
  std::ranges::stable_sort(dearest, std::ranges::greater(), &StageMemory::peak_bytes);
  for (std::size_t i = 0; i < std::min(dearest.size(), kMostDrawn); ++i) {
    const StageMemory& stage = *dearest[i];
    text += absl::StrFormat("\n%s: %s %s\n", ranks_text(stage), byte_text(stage.peak_bytes),
                            place_text(stage));
    text += origin_text(stage.peak_origin) + holders_text(stage);
    const std::string timeline = timeline_text(stage);
    if (timeline.empty()) continue;
    text += absl::StrFormat("  %10s %9s  %s\n", "step", "held",
                            "P param, g grad, O optim, B buffer, I input, G gathered, a activ");
    text += timeline;
  }
  if (dearest.size() > kMostDrawn) {
    text += absl::StrFormat("\nand %d stages that hold less\n", dearest.size() - kMostDrawn);
  }
  return text + "\n" + first_advice(program, stages, cap) + "\n";
}

}  // namespace

StatusOr<Answer> show_memory(const Request& request) {
  TSR_ASSIGN_OR_RETURN(const OpTable table, op_table(request));
  TSR_ASSIGN_OR_RETURN(const Program program,
                       plain_rounds(read_program(request.input, request.input_name, table)));
  TSR_ASSIGN_OR_RETURN(const std::vector<StageMemory> stages, memory_of(program, table));
  const bool fits = !request.cap_bytes || std::ranges::all_of(stages, [&](const StageMemory& each) {
    return each.peak_bytes <= *request.cap_bytes;
  });
  if (request.format == Format::kHtml) {
    TSR_ASSIGN_OR_RETURN(
        std::string page,
        program_page(program, table,
                     {.first = "memory", .title = "memory", .cap_bytes = request.cap_bytes}));
    return Answer{std::move(page), fits};
  }
  if (request.format == Format::kText) {
    return Answer{text_of(program, stages, request.cap_bytes), fits};
  }
  Json::Array all;
  for (const StageMemory& stage : stages) all.push_back(json_of(stage));
  return Answer{
      json_line(Json::object({{"name", program.name},
                              {"source", program.source.kind},
                              {"ranks", program.ranks},
                              {"cap_bytes", request.cap_bytes ? Json(*request.cap_bytes) : Json()},
                              {"fits", fits},
                              {"stages", Json(std::move(all))},
                              {"first", first_advice(program, stages, request.cap_bytes)}})),
      fits};
}

}  // namespace tessera::audit
