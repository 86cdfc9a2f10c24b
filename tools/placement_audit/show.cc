// What the modules of a program move and hold: a tree, and the collectives of the whole.
#include <algorithm>
#include <span>

#include "absl/strings/str_format.h"
#include "io/byte_text.h"
#include "program/module_cost.h"
#include "program/program_json.h"
#include "program/unfold.h"
#include "tools/placement_audit/command.h"
#include "tools/placement_audit/find_ops.h"
#include "tools/placement_audit/program_page.h"

namespace tessera::audit {
namespace {

constexpr std::size_t kNameWidth = 42;
constexpr std::size_t kMaxListed = 20;  // values of a module, in text

Json volume(const Volume& bytes) {
  return Json::object({{"max", bytes.max}, {"total", bytes.total}});
}

Json json_of(const Program& program, const ModuleCost& cost) {
  Json::Array moves, values, inside;
  for (const MoveTotal& move : cost.moves) {
    moves.push_back(Json::object({{"collective", move.collective},
                                  {"axes", move.axes},
                                  {"implicit", move.implicit},
                                  {"calls", move.calls},
                                  {"bytes", volume(move.bytes)}}));
  }
  for (const int index : cost.values) {
    const ProgramValue& value = program.values[static_cast<std::size_t>(index)];
    values.push_back(Json::object({{"name", value.name},
                                   {"role", std::string(name_of(value.role))},
                                   {"bytes", value_or_throw(held_bytes(program, value))}}));
  }
  for (const ModuleCost& each : cost.inside) inside.push_back(json_of(program, each));
  return Json::object({{"module", cost.name},
                       {"copies", cost.copies},
                       {"steps", cost.steps},
                       {"calls", cost.calls},
                       {"bytes", volume(cost.bytes)},
                       {"implicit_bytes", volume(cost.implicit_bytes)},
                       {"unplaced_moves", cost.unplaced_moves},
                       {"host_reads", cost.host_reads},
                       {"held_bytes", cost.held_bytes},
                       {"moves", Json(std::move(moves))},
                       {"values", Json(std::move(values))},
                       {"modules", Json(std::move(inside))}});
}

std::string cell(std::int64_t bytes) { return bytes == 0 ? "-" : byte_text(bytes); }

void add_rows(const ModuleCost& cost, std::string_view name, std::size_t depth, std::string& text) {
  std::string label = std::string(2 * std::min(depth, std::size_t{12}), ' ') + std::string(name);
  if (cost.copies > 1) label += absl::StrFormat(" (x%d)", cost.copies);
  if (label.size() > kNameWidth) label = label.substr(0, kNameWidth - 3) + "...";
  text += absl::StrFormat("%-*s %8d %8d %12s %12s %12s\n", static_cast<int>(kNameWidth), label,
                          cost.steps, cost.calls, cell(cost.bytes.max),
                          cell(cost.implicit_bytes.max), cell(cost.held_bytes));
  for (const ModuleCost& each : cost.inside) add_rows(each, each.name, depth + 1, text);
}

std::string placed_text(const Program& program, const ProgramValue& value) {
  if (!value.mesh) return "plain";
  if (!value.layout) return "not placed yet";
  return value_or_throw(spec_of(program, value)).to_string();
}

/// A module's own values, a line each.
std::string values_text(const Program& program, const ModuleCost& cost) {
  if (cost.values.empty()) return "";
  std::string text = "\nits values\n";
  for (const int index : std::span(cost.values).first(std::min(cost.values.size(), kMaxListed))) {
    const ProgramValue& value = program.values[static_cast<std::size_t>(index)];
    text += absl::StrFormat("%s, %s: %s, %s a rank\n", value.name, name_of(value.role),
                            placed_text(program, value),
                            byte_text(value_or_throw(held_bytes(program, value))));
  }
  if (cost.values.size() > kMaxListed) {
    text += absl::StrFormat("... and %d more\n", cost.values.size() - kMaxListed);
  }
  return text;
}

std::string text_of(const Program& program, const ModuleCost& cost, const std::string& path) {
  std::string text =
      absl::StrFormat("%s: %s, %d ranks", program.name, program.source.kind, program.ranks);
  if (!program.routing.empty()) text += ", routing " + program.routing;
  text += absl::StrFormat("\n\n%-*s %8s %8s %12s %12s %12s\n", static_cast<int>(kNameWidth),
                          "module", "steps", "calls", "received", "implicit", "held");
  add_rows(cost, path.empty() ? "(all)" : path, 0, text);
  if (!cost.moves.empty()) {
    text += absl::StrFormat("\n%-*s %8s %12s %12s\n", static_cast<int>(kNameWidth) + 9,
                            "what moves", "calls", "received", "by all");
  }
  for (const MoveTotal& move : cost.moves) {
    const std::string label = move.collective + (move.axes.empty() ? "" : " over " + move.axes) +
                              (move.implicit ? ", implicit" : "");
    text += absl::StrFormat("%-*s %8d %12s %12s\n", static_cast<int>(kNameWidth) + 9, label,
                            move.calls, cell(move.bytes.max), cell(move.bytes.total));
  }
  if (!path.empty()) text += values_text(program, cost);
  if (cost.unplaced_moves > 0) {
    text += absl::StrFormat("\n%d redistributions are of values without placements: not counted\n",
                            cost.unplaced_moves);
  }
  return text;
}

}  // namespace

StatusOr<Answer> show_program(const Request& request) {
  TSR_ASSIGN_OR_RETURN(const OpTable table, op_table(request));
  TSR_ASSIGN_OR_RETURN(const Program program,
                       plain_rounds(read_program(request.input, request.input_name, table)));
  TSR_ASSIGN_OR_RETURN(const ModuleCost all, module_cost(program));
  TSR_ASSIGN_OR_RETURN(const ModuleCost* cost, find_module(all, request.module));
  if (request.format == Format::kHtml) {
    TSR_ASSIGN_OR_RETURN(std::string page,
                         program_page(program, table, {.first = "modules", .title = "modules"}));
    return Answer{std::move(page)};
  }
  if (request.format == Format::kText) return Answer{text_of(program, *cost, request.module)};
  return Answer{json_line(Json::object({{"name", program.name},
                                        {"source", program.source.kind},
                                        {"ranks", program.ranks},
                                        {"cost", json_of(program, *cost)}}))};
}

}  // namespace tessera::audit
