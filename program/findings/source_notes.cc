// What the program's source could not say.
#include "absl/strings/str_format.h"
#include "program/findings/rules.h"

namespace tessera {
namespace {

constexpr std::string_view kUnmapped = "is no op of the engine";
constexpr std::string_view kReduction = "may differ along ";  // lacks-reduction has these

bool says(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

Status find_warned(FindingContext& context, std::string_view rule, bool unmapped) {
  for (int i = 0; i < std::ssize(context.steps()); ++i) {
    const auto* region = std::get_if<RegionStep>(&context.step(i).step->what);
    if (region == nullptr || region->warning.empty()) continue;
    if (says(region->warning, kReduction) || says(region->warning, kUnmapped) != unmapped) continue;
    Finding finding = context.start(rule, i);
    finding.bytes = {};  // the region moves them, not its warning
    if (!region->out.empty()) finding.value = region->out[0].name;
    finding.cause = region->warning;
    if (unmapped) {
      finding.fix = "declare what it needs as a local_map, or add a row to the table of ops";
    }
    context.add(std::move(finding), i);
  }
  return absl::OkStatus();
}

}  // namespace

Status find_unmapped_ops(FindingContext& context) {
  return find_warned(context, "unmapped-op", true);
}

Status find_region_warnings(FindingContext& context) {
  return find_warned(context, "region-warning", false);
}

Status find_program_warnings(FindingContext& context) {
  for (const std::string& warning : context.program().warnings) {
    if (says(warning, kReduction)) continue;
    Finding finding = context.start("program-warning", -1);
    finding.cause = warning;
    finding.op = warning;  // two warnings are two findings
    context.add(std::move(finding), -1);
  }
  return absl::OkStatus();
}

}  // namespace tessera
