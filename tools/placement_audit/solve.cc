// The cheapest placements of a program: the program itself, what other systems take, or what they
// cost and why.
#include <algorithm>
#include <map>

#include "absl/strings/str_format.h"
#include "io/byte_text.h"
#include "io/plan_json.h"
#include "placement/checked_int.h"
#include "program/export/placement_words.h"
#include "program/export/value_groups.h"
#include "program/module_cost.h"
#include "program/program_json.h"
#include "tools/placement_audit/command.h"
#include "tools/placement_audit/export_answer.h"
#include "tools/placement_audit/find_ops.h"
#include "tools/placement_audit/report_lines.h"

namespace tessera::audit {
namespace {

constexpr std::size_t kMostModules = 40;  // in text, those that move most
constexpr std::size_t kMostChoices = 60;

/// A cost as the solver has it.
std::string cost_text(double cost, bool in_time) {
  if (!in_time) return byte_text(static_cast<std::int64_t>(std::min(cost, 9.2e18)), 1);
  if (cost < 1e3) return absl::StrFormat("%.1f us", cost);
  return cost < 1e6 ? absl::StrFormat("%.2f ms", cost / 1e3)
                    : absl::StrFormat("%.3f s", cost / 1e6);
}

struct ModuleLine {
  std::string label;
  std::int64_t calls = 0;
  CheckedInt bytes = 0;
};

StatusOr<std::string> modules_text(const Program& program) {
  TSR_ASSIGN_OR_RETURN(const std::vector<ModuleMoves> all, moves_by_module(program));
  std::vector<ModuleLine> lines;
  std::map<std::string, std::size_t> known;
  for (const ModuleMoves& each : all) {
    for (const MoveTotal& move : each.moves) {
      std::string module = without_numbers(each.module);
      if (module.empty()) module = "(the program)";
      const std::string label = absl::StrFormat("%-44s %s%s", module, move.collective,
                                                move.axes.empty() ? "" : " over " + move.axes);
      const auto [found, is_new] = known.try_emplace(label, lines.size());
      if (is_new) lines.push_back({.label = label});
      lines[found->second].calls += move.calls;
      lines[found->second].bytes += move.bytes.max;
    }
  }
  if (lines.empty()) return "\nnothing moves\n";
  std::ranges::stable_sort(lines, std::ranges::greater(), &ModuleLine::bytes);
  std::string text = absl::StrFormat("\n%-74s %8s %12s\n", "what moves", "calls", "received");
  for (std::size_t i = 0; i < std::min(lines.size(), kMostModules); ++i) {
    text += absl::StrFormat("%-74s %8d %12s\n", lines[i].label, lines[i].calls,
                            byte_text(lines[i].bytes.clamped(), 1));
  }
  if (lines.size() > kMostModules) {
    text += absl::StrFormat("... and %d more\n", lines.size() - kMostModules);
  }
  return text;
}

/// Equal layers' choices as one.
struct ChoiceLine {
  PlacementChoice first;
  std::int64_t count = 1;
};

std::vector<ChoiceLine> grouped(const std::vector<PlacementChoice>& choices) {
  std::vector<ChoiceLine> lines;
  std::map<std::vector<std::string>, std::size_t> known;
  for (const PlacementChoice& each : choices) {
    const auto [found, is_new] =
        known.try_emplace({without_numbers(each.value), without_numbers(each.module), each.made_by,
                           each.placements, each.next_best},
                          lines.size());
    if (is_new) {
      lines.push_back({.first = each});
      continue;
    }
    ChoiceLine& line = lines[found->second];
    ++line.count;
    line.first.value = without_numbers(each.value);
    line.first.module = without_numbers(each.module);
    line.first.next_costs = std::min(line.first.next_costs, each.next_costs);
  }
  return lines;
}

/// What makes each value lie so, by the value's name without numbers.
StatusOr<std::map<std::string, std::string>> reasons(const Program& program) {
  TSR_ASSIGN_OR_RETURN(const std::vector<ValueGroup> groups, value_groups(program));
  std::map<std::string, std::string> found;
  for (const ValueGroup& group : groups) {
    found.emplace(without_numbers(group.name), group.why);
  }
  return found;
}

StatusOr<std::string> choices_text(const PropagatedProgram& solved, bool in_time) {
  TSR_ASSIGN_OR_RETURN(const auto why, reasons(solved.program));
  const std::vector<ChoiceLine> lines = grouped(solved.choices);
  if (lines.empty()) return "";
  std::string text = "\nwhere values lie, and what the next best would cost more\n";
  for (std::size_t i = 0; i < std::min(lines.size(), kMostChoices); ++i) {
    const PlacementChoice& choice = lines[i].first;
    std::string line = choice.value;
    if (lines[i].count > 1) line += absl::StrFormat(" (x%d)", lines[i].count);
    line += "  " + choice.placements + "  " + choice.made_by;
    const auto found = why.find(without_numbers(choice.value));
    if (found != why.end() && !found->second.empty()) line += ", " + found->second;
    text += wrapped(line, "");
    text +=
        wrapped(choice.next_best.empty() ? "nothing else is possible"
                                         : absl::StrFormat("else %s: %s more", choice.next_best,
                                                           cost_text(choice.next_costs, in_time)),
                "     ");
  }
  if (lines.size() > kMostChoices) {
    text += absl::StrFormat("... and %d more\n", lines.size() - kMostChoices);
  }
  return text;
}

StatusOr<std::string> summary(const PropagatedProgram& solved, const Request& request,
                              bool in_time) {
  const Program& program = solved.program;
  std::string text = program.name + ": " + std::to_string(program.ranks) + " ranks";
  for (const ProgramMesh& each : program.meshes) text += ", " + each.mesh.to_string();
  text += request.solve.greedy ? ", op by op\n" : ", solved\n";
  text += absl::StrFormat("cost   %s%s\n", cost_text(solved.cost, in_time),
                          in_time ? "" : ", received by all ranks");
  if (!request.solve.greedy) {
    text += absl::StrFormat("bound  %s, gap %.2f %%%s\n", cost_text(solved.bound, in_time),
                            100 * solved.gap(), solved.is_exact ? ", exact" : "");
  }
  text += absl::StrFormat("peak   %s a rank", byte_text(solved.peak_bytes, 1));
  if (request.cap_bytes) text += " of " + byte_text(*request.cap_bytes, 1);
  text += absl::StrFormat("\ntook   %.2f s: %d variables, %d states\n", solved.seconds,
                          solved.num_variables, solved.num_states);
  TSR_ASSIGN_OR_RETURN(const std::string modules, modules_text(program));
  TSR_ASSIGN_OR_RETURN(const std::string choices, choices_text(solved, in_time));
  return text + modules + choices;
}

StatusOr<Program> freed(Program program, const SolveRequest& solve) {
  if (!solve.free) return program;
  if (!solve.mesh && program.meshes.size() != 1) {
    return invalid_argument(absl::StrFormat(
        "--free: the program has %d meshes; name one with --mesh", program.meshes.size()));
  }
  ProgramMesh mesh{.name = program.meshes.empty() ? "mesh" : program.meshes[0].name,
                   .mesh = solve.mesh ? *solve.mesh : program.meshes[0].mesh,
                   .stage = {}};
  return free_on_mesh(program, mesh);
}

}  // namespace

StatusOr<Answer> solve_program(const Request& request) {
  TSR_ASSIGN_OR_RETURN(const OpTable table, op_table(request));
  TSR_ASSIGN_OR_RETURN(Program program, read_program(request.input, request.input_name, table));
  TSR_ASSIGN_OR_RETURN(const std::optional<Topology> topology, topology_of(request));
  TSR_ASSIGN_OR_RETURN(program, freed(std::move(program), request.solve));
  const PropagateOptions options{
      .mode = request.solve.greedy ? PropagateMode::kGreedy : PropagateMode::kSolve,
      .constraints = request.solve.pins,
      .topology = topology ? &*topology : nullptr,
      .rate = {.tflops = request.solve.tflops, .gb_per_s = request.solve.gb_per_s},
      .memory_cap = request.cap_bytes,
      .time_limit_s = request.solve.time_limit_s};
  const StatusOr<PropagatedProgram> solved = propagate_program(program, table, options);
  // A cap that nothing keeps is the input's fault, not this machine's.
  if (absl::IsResourceExhausted(solved.status())) {
    return failed_precondition(std::string(message_of(solved.status())));
  }
  TSR_RETURN_IF_ERROR(solved.status());
  if (request.format != Format::kText) return export_answer(solved->program, request.format);
  TSR_ASSIGN_OR_RETURN(std::string text, summary(*solved, request, topology.has_value()));
  return Answer{std::move(text)};
}

}  // namespace tessera::audit
