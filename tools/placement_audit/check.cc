// What is dear, doubtful or wrong in a program: findings, and the limits of a budget.
#include "program/findings/check.h"

#include "absl/strings/str_format.h"
#include "program/program_json.h"
#include "program/unfold.h"
#include "tools/placement_audit/check_report.h"
#include "tools/placement_audit/find_ops.h"
#include "tools/placement_audit/program_page.h"

namespace tessera::audit {
namespace {

Json texts(const std::vector<std::string>& items) {
  Json::Array array(items.begin(), items.end());
  return Json(std::move(array));
}

Json volume_json(const Volume& bytes) {
  return Json::object({{"max", bytes.max}, {"total", bytes.total}});
}

StatusOr<CheckOptions> options_of(const Request& request, const OpTable& table) {
  CheckOptions options;
  options.new_only = request.new_only;
  options.fail_on = request.fail_on;
  if (!request.budget.name.empty()) {
    TSR_ASSIGN_OR_RETURN(options.budget, read_budget(request.budget.text, request.budget.name));
  }
  if (!request.baseline.name.empty()) {
    TSR_ASSIGN_OR_RETURN(options.baseline,
                         read_baseline(request.baseline.text, request.baseline.name, table));
  }
  return options;
}

/// The findings, beside all that the page of a program has.
StatusOr<Answer> page_with_findings(const Program& program, const OpTable& table,
                                    const CheckReport& report) {
  Json::Array all;
  for (const Finding& finding : report.findings.all) all.push_back(json_of(finding));
  TSR_ASSIGN_OR_RETURN(std::string page,
                       program_page(program, table,
                                    {.first = "findings",
                                     .title = report.passed ? "findings" : "findings: it fails",
                                     .findings = Json(std::move(all))}));
  return Answer{.text = std::move(page), .checks_passed = report.passed};
}

std::string page_of(const Request& request, const Program& program, const CheckReport& report) {
  switch (request.format) {
    case Format::kText:
      return check_text(program, report, request.colour);
    case Format::kMarkdown:
      return check_markdown(program, report);
    case Format::kJunit:
      return check_junit(program, report);
    case Format::kSarif:
      return check_sarif(program, report, request.input_name);
    default:
      return check_json(program, report);
  }
}

}  // namespace

std::string place_of(const Finding& finding) {
  if (finding.module.empty() && finding.count == 1) return "";
  std::string place = finding.module;
  if (finding.count > 1) {
    place += absl::StrFormat("%s(x%d)", place.empty() ? "" : " ", finding.count);
  }
  return place;
}

std::string headline(const Finding& finding) {
  std::string text = finding.rule;
  if (!finding.measure.empty()) text += ": " + finding.measure;
  const std::string place = place_of(finding);
  if (!place.empty()) text += ", " + place;
  return text;
}

Json json_of(const Finding& finding) {
  Json json = Json::object({{"id", finding.id},
                            {"rule", finding.rule},
                            {"severity", std::string(name_of(finding.severity))},
                            {"module", finding.module},
                            {"count", finding.count},
                            {"site", finding.site}});
  if (finding.phase) json.set("phase", std::string(name_of(*finding.phase)));
  if (finding.stage) json.set("stage", *finding.stage);
  json.set("op", finding.op);
  json.set("value", finding.value);
  json.set("collective", finding.collective);
  json.set("axes", texts(finding.axes));
  json.set("bytes", volume_json(finding.bytes));
  json.set("measure", finding.measure);
  json.set("cause", finding.cause);
  json.set("fix", finding.fix.empty() ? Json() : Json(finding.fix));
  if (finding.saved_bytes) json.set("saved_bytes", *finding.saved_bytes);
  if (finding.known) json.set("known", true);
  return json;
}

std::string check_json(const Program& program, const CheckReport& report) {
  const Findings& findings = report.findings;
  Json::Array limits, all;
  for (const LimitCheck& limit : report.limits) {
    limits.push_back(Json::object({{"name", limit.name},
                                   {"seen", limit.seen},
                                   {"limit", limit.limit},
                                   {"passed", limit.passed}}));
  }
  for (const Finding& finding : findings.all) all.push_back(json_of(finding));
  return json_line(Json::object({{"version", 1},
                                 {"program", program.name},
                                 {"source", program.source.kind},
                                 {"ranks", program.ranks},
                                 {"meshes", meshes_text(program)},
                                 {"passed", report.passed},
                                 {"first", report.first},
                                 {"bytes", volume_json(findings.bytes)},
                                 {"implicit_bytes", volume_json(findings.implicit_bytes)},
                                 {"ratio_to_bound", findings.ratio()},
                                 {"host_reads", findings.host_reads},
                                 {"unplaced_moves", findings.unplaced_moves},
                                 {"known_before", report.known_before},
                                 {"limits", Json(std::move(limits))},
                                 {"findings", Json(std::move(all))}}));
}

StatusOr<Answer> check_step(const Request& request) {
  TSR_ASSIGN_OR_RETURN(const OpTable table, op_table(request));
  TSR_ASSIGN_OR_RETURN(const Program program,
                       plain_rounds(read_program(request.input, request.input_name, table)));
  TSR_ASSIGN_OR_RETURN(const CheckOptions options, options_of(request, table));
  TSR_ASSIGN_OR_RETURN(const CheckReport report, check_program(program, table, options));
  if (request.format == Format::kHtml) return page_with_findings(program, table, report);
  return Answer{.text = page_of(request, program, report), .checks_passed = report.passed};
}

}  // namespace tessera::audit
