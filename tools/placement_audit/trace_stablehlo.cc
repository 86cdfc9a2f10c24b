// A program from StableHLO's text: its JSON, or how much of it our ops say.
#include <map>

#include "absl/strings/str_format.h"
#include "program/program_json.h"
#include "program/stablehlo/program_of_stablehlo.h"
#include "tools/placement_audit/command.h"
#include "tools/placement_audit/find_ops.h"

namespace tessera::audit {
namespace {

/// Steps by what they are, as written, and the regions that are foreign, by name.
struct StepCounts {
  std::int64_t calls = 0, moves = 0, repeats = 0;
  std::map<std::string, std::int64_t> regions;
  std::map<std::string, std::string> warnings;

  void add(const std::vector<AnyStep>& steps) {
    for (const AnyStep& step : steps) {
      if (std::holds_alternative<CallStep>(step.what)) ++calls;
      if (std::holds_alternative<MoveStep>(step.what)) ++moves;
      if (const auto* region = std::get_if<RegionStep>(&step.what)) {
        ++regions[region->name];
        if (!region->warning.empty()) warnings.emplace(region->name, region->warning);
      }
      if (const auto* repeat = std::get_if<RepeatStep>(&step.what)) {
        ++repeats;
        add(repeat->steps);
      }
    }
  }
};

std::string summary(const Program& program) {
  StepCounts counts;
  counts.add(program.steps);
  std::string text = absl::StrFormat(
      "%s: %d ranks, %d values before the first step, %d calls of ops, %d redistributions, %d "
      "repeats\n",
      program.name, program.ranks, program.values.size(), counts.calls, counts.moves,
      counts.repeats);
  for (const auto& [name, count] : counts.regions) {
    const auto warning = counts.warnings.find(name);
    text += absl::StrFormat("%6d %s%s\n", count, name,
                            warning == counts.warnings.end() ? "" : ": " + warning->second);
  }
  return text;
}

}  // namespace

StatusOr<Answer> trace_stablehlo(const Request& request) {
  TSR_ASSIGN_OR_RETURN(const OpTable table, op_table(request));
  TSR_ASSIGN_OR_RETURN(const Program program,
                       program_of_stablehlo(request.input, request.input_name, table));
  if (request.format == Format::kText) return Answer{summary(program)};
  return Answer{write_program(program)};
}

}  // namespace tessera::audit
