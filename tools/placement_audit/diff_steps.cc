// What moves, and what is held, in one program and not in the other.
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "io/byte_text.h"
#include "program/findings/check.h"
#include "program/findings/diff.h"
#include "program/program_json.h"
#include "program/unfold.h"
#include "tools/placement_audit/check_report.h"
#include "tools/placement_audit/command.h"
#include "tools/placement_audit/find_ops.h"
#include "tools/placement_audit/report_lines.h"

namespace tessera::audit {
namespace {

constexpr std::size_t kMaxLines = 60;  // of moves and of findings, each, in text and Markdown

Json both(std::int64_t before, std::int64_t after) {
  return Json::object({{"before", before}, {"after", after}});
}

std::string change_text(std::int64_t before, std::int64_t after) {
  const std::int64_t by = after - before;
  return byte_text(before) + " -> " + byte_text(after) +
         (by == 0 ? "" : absl::StrFormat(" (%s%s)", by > 0 ? "+" : "-", byte_text(std::abs(by))));
}

std::string move_name(const MoveChange& change) {
  std::string text = change.collective;
  if (!change.axes.empty()) text += " over " + absl::StrJoin(change.axes, ",");
  return text + (change.implicit ? ", implicit" : "");
}

std::string stage_name(const MemoryChange& change) {
  return change.stage ? absl::StrFormat("stage %d", *change.stage) : std::string("memory");
}

Json findings_json(const std::vector<Finding>& findings) {
  Json::Array all;
  for (const Finding& finding : findings) all.push_back(json_of(finding));
  return Json(std::move(all));
}

std::string diff_json(const Program& before, const Program& after, const ProgramDiff& diff) {
  Json::Array moves, memory;
  for (const MoveChange& change : diff.moves) {
    Json::Array axes(change.axes.begin(), change.axes.end());
    moves.push_back(Json::object({{"change", std::string(name_of(change.kind))},
                                  {"module", change.module},
                                  {"collective", change.collective},
                                  {"axes", Json(std::move(axes))},
                                  {"implicit", change.implicit},
                                  {"calls", both(change.calls_before, change.calls_after)},
                                  {"bytes", both(change.before.max, change.after.max)},
                                  {"total_bytes", both(change.before.total, change.after.total)}}));
  }
  for (const MemoryChange& change : diff.memory) {
    Json json = Json::object({});
    if (change.stage) json.set("stage", *change.stage);
    json.set("held", both(change.held_before, change.held_after));
    json.set("peak", both(change.peak_before, change.peak_after));
    memory.push_back(std::move(json));
  }
  return json_line(
      Json::object({{"version", 1},
                    {"before", before.name},
                    {"after", after.name},
                    {"bytes", both(diff.bytes_before.max, diff.bytes_after.max)},
                    {"implicit_bytes", both(diff.implicit_before.max, diff.implicit_after.max)},
                    {"moves", Json(std::move(moves))},
                    {"memory", Json(std::move(memory))},
                    {"new_findings", findings_json(diff.new_findings)},
                    {"gone_findings", findings_json(diff.gone_findings)}}));
}

std::string names_text(const Program& before, const Program& after) {
  std::string text = before.name;
  if (after.name != before.name) text += " -> " + after.name;
  if (meshes_text(before) != meshes_text(after)) {
    text += "; other meshes: " + meshes_text(before) + " -> " + meshes_text(after);
  }
  return text;
}

std::string first_of(const ProgramDiff& diff) {
  for (const Finding& finding : diff.new_findings) {
    if (finding.severity == Severity::kNote) continue;
    const std::string place = !finding.site.empty() ? finding.site : finding.module;
    return (place.empty() ? "" : place + ": ") +
           (finding.fix.empty() ? finding.cause : finding.fix);
  }
  if (diff.empty()) return "nothing to do: the programs move and hold the same";
  return "nothing to do: no finding is new";
}

std::string diff_text(const Program& before, const Program& after, const ProgramDiff& diff) {
  std::string text = wrapped(names_text(before, after), "");
  text += one_line("received a step: " + change_text(diff.bytes_before.max, diff.bytes_after.max));
  text += one_line("implicit: " + change_text(diff.implicit_before.max, diff.implicit_after.max));
  for (std::size_t i = 0; i < std::min(kMaxLines, diff.moves.size()); ++i) {
    const MoveChange& change = diff.moves[i];
    text += wrapped(
        absl::StrFormat("%-8s%s  %s", std::string(name_of(change.kind)),
                        change.module.empty() ? "(program)" : change.module, move_name(change)),
        "");
    text += wrapped(
        absl::StrFormat("%s, %d calls -> %d", change_text(change.before.max, change.after.max),
                        change.calls_before, change.calls_after),
        "        ");
  }
  if (diff.moves.size() > kMaxLines) {
    text += absl::StrFormat("... and %d more moves\n", diff.moves.size() - kMaxLines);
  }
  for (const MemoryChange& change : diff.memory) {
    text += one_line(stage_name(change) + ": peak " +
                     change_text(change.peak_before, change.peak_after));
    text += one_line("        held before the step " +
                     change_text(change.held_before, change.held_after));
  }
  const auto list = [&](std::string_view what, const std::vector<Finding>& findings) {
    for (std::size_t i = 0; i < std::min(kMaxLines, findings.size()); ++i) {
      const Finding& finding = findings[i];
      text += wrapped(absl::StrFormat("%s finding: %s%s%s", std::string(what), headline(finding),
                                      finding.site.empty() ? "" : ", ", finding.site),
                      "");
    }
    if (findings.size() > kMaxLines) {
      text += absl::StrFormat("... and %d more\n", findings.size() - kMaxLines);
    }
  };
  list("new", diff.new_findings);
  list("gone", diff.gone_findings);
  return text + one_line("first: " + first_of(diff));
}

std::string diff_markdown(const Program& before, const Program& after, const ProgramDiff& diff) {
  std::string text =
      "### " + cell_escaped(names_text(before, after)) + "\n\n| | before -> after |\n";
  text += "|---|---|\n| received a step | " +
          change_text(diff.bytes_before.max, diff.bytes_after.max) + " |\n| implicit | " +
          change_text(diff.implicit_before.max, diff.implicit_after.max) + " |\n";
  for (const MemoryChange& change : diff.memory) {
    text += "| " + stage_name(change) + ", peak | " +
            change_text(change.peak_before, change.peak_after) + " |\n";
  }
  if (!diff.moves.empty()) text += "\n| | module | move | bytes | calls |\n|---|---|---|---|---|\n";
  for (std::size_t i = 0; i < std::min(kMaxLines, diff.moves.size()); ++i) {
    const MoveChange& change = diff.moves[i];
    text += absl::StrFormat("| %s | %s | %s | %s | %d -> %d |\n", std::string(name_of(change.kind)),
                            cell_escaped(change.module), cell_escaped(move_name(change)),
                            change_text(change.before.max, change.after.max), change.calls_before,
                            change.calls_after);
  }
  if (diff.moves.size() > kMaxLines) {
    text += absl::StrFormat("\nAnd %d more moves.\n", diff.moves.size() - kMaxLines);
  }
  if (!diff.new_findings.empty() || !diff.gone_findings.empty()) {
    text += "\n| | finding | where | cause |\n|---|---|---|---|\n";
  }
  const auto list = [&](std::string_view what, const std::vector<Finding>& findings) {
    for (std::size_t i = 0; i < std::min(kMaxLines, findings.size()); ++i) {
      const Finding& finding = findings[i];
      text += absl::StrFormat("| %s | %s | %s | %s |\n", std::string(what),
                              cell_escaped(headline(finding)), cell_escaped(finding.site),
                              cell_escaped(finding.cause));
    }
  };
  list("new", diff.new_findings);
  list("gone", diff.gone_findings);
  return text + "\nFirst: " + cell_escaped(first_of(diff)) + "\n";
}

}  // namespace

StatusOr<Answer> diff_steps(const Request& request) {
  TSR_ASSIGN_OR_RETURN(const OpTable table, op_table(request));
  TSR_ASSIGN_OR_RETURN(const Program before,
                       plain_rounds(read_program(request.input, request.input_name, table)));
  TSR_ASSIGN_OR_RETURN(const Program after,
                       plain_rounds(read_program(request.other.text, request.other.name, table)));
  TSR_ASSIGN_OR_RETURN(const ProgramDiff diff, diff_programs(before, after, table));
  if (request.format == Format::kText) return Answer{diff_text(before, after, diff)};
  if (request.format == Format::kMarkdown) return Answer{diff_markdown(before, after, diff)};
  return Answer{diff_json(before, after, diff)};
}

}  // namespace tessera::audit
