// A check as SARIF 2.1.0, for the tools of code hosts that show results beside the lines.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "placement/version.h"
#include "tools/placement_audit/check_report.h"
#include "tools/placement_audit/report_lines.h"

namespace tessera::audit {
namespace {

constexpr std::size_t kMaxSarifBytes = 9'500'000;  // GitHub takes 10 MB
constexpr std::size_t kMaxResults = 25'000;        // and so many results
constexpr std::string_view kBudgetRule = "budget";

Json text_json(std::string text) { return Json::object({{"text", std::move(text)}}); }

std::string level_of(Severity severity) {
  constexpr const char* kLevels[] = {"note", "warning", "error"};
  return kLevels[static_cast<int>(severity)];
}

Json rule_json(std::string_view name, std::string_view meaning, Severity severity) {
  return Json::object(
      {{"id", std::string(name)},
       {"shortDescription", text_json(std::string(meaning))},
       {"help", text_json(std::string(meaning) + ". docs/findings.md, section " +
                          std::string(name) + ", says why it matters and what mends it.")},
       {"defaultConfiguration", Json::object({{"level", level_of(severity)}})}});
}

/// A path as a reference that SARIF can hold: what a URI gives another meaning is spelled out.
std::string uri_of(std::string_view path) {
  std::string uri;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("/._-~+@").find(c) != std::string_view::npos;
    if (plain) {
      uri += c;
    } else if (c == '\\') {
      uri += '/';
    } else {
      uri += absl::StrFormat("%%%02X", byte);
    }
  }
  return uri;
}

Json location_json(std::string_view site, std::string_view module) {
  const Site place = site_of(site);
  Json location = Json::object({});
  if (!place.file.empty()) {
    const bool absolute = place.file.starts_with('/');
    Json artifact = Json::object({{"uri", (absolute ? "file://" : "") + uri_of(place.file)}});
    if (!absolute) artifact.set("uriBaseId", "%SRCROOT%");
    Json physical = Json::object({{"artifactLocation", std::move(artifact)}});
    if (place.line > 0) {
      physical.set("region", Json::object({{"startLine", place.line}}));
    }
    location.set("physicalLocation", std::move(physical));
  }
  if (!module.empty()) {
    location.set("logicalLocations",
                 Json::array({Json::object(
                     {{"fullyQualifiedName", std::string(module)}, {"kind", "module"}})}));
  }
  return location;
}

Json result_json(const Finding& finding, std::int64_t rule_index, std::string_view input_name) {
  std::string message = headline(finding) + ". " + finding.cause + ".";
  if (!finding.fix.empty()) message += " Fix: " + finding.fix + ".";
  Json result = Json::object({{"ruleId", finding.rule},
                              {"ruleIndex", rule_index},
                              {"level", level_of(finding.severity)},
                              {"message", text_json(std::move(message))}});
  // Code hosts refuse results without a file: a place that is not known is the program's own.
  result.set(
      "locations",
      Json::array({location_json(finding.site.empty() ? input_name : std::string_view(finding.site),
                                 finding.module)}));
  result.set("partialFingerprints", Json::object({{"placementAudit/v1", finding.id}}));
  if (finding.known) result.set("baselineState", "unchanged");
  return result;
}

std::int64_t index_of(std::string_view name) {
  const std::vector<FindingRule>& rules = finding_rules();
  const auto found = std::find_if(rules.begin(), rules.end(),
                                  [name](const FindingRule& rule) { return rule.name == name; });
  return found - rules.begin();
}

Json driver_json() {
  Json::Array rules;
  for (const FindingRule& rule : finding_rules()) {
    rules.push_back(rule_json(rule.name, rule.meaning, rule.severity));
  }
  rules.push_back(rule_json(kBudgetRule, "A limit of the budget is passed", Severity::kFail));
  return Json::object({{"driver", Json::object({{"name", "placement-audit"},
                                                {"version", std::string(version())},
                                                {"rules", Json(std::move(rules))}})}});
}

}  // namespace

std::string check_sarif(const Program& program, const CheckReport& report,
                        std::string_view input_name) {
  Json::Array results;
  std::size_t bytes = 0, left_out = 0;
  for (const LimitCheck& limit : report.limits) {
    if (limit.passed) continue;
    results.push_back(Json::object(
        {{"ruleId", std::string(kBudgetRule)},
         {"ruleIndex", static_cast<std::int64_t>(finding_rules().size())},
         {"level", "error"},
         {"message",
          text_json(limit.name + " is " + limit.seen + ", allowed is " + limit.limit + ".")},
         {"locations", Json::array({location_json(input_name, "")})},
         {"partialFingerprints", Json::object({{"placementAudit/v1", "budget " + limit.name}})}}));
    bytes += results.back().to_string().size() + 1;
  }
  for (const Finding& finding : report.findings.all) {
    Json result = result_json(finding, index_of(finding.rule), input_name);
    const std::size_t size = result.to_string().size() + 1;
    if (bytes + size > kMaxSarifBytes || results.size() == kMaxResults) {
      ++left_out;
      continue;
    }
    bytes += size;
    results.push_back(std::move(result));
  }
  Json invocation = Json::object({{"executionSuccessful", true}});
  if (left_out > 0) {
    invocation.set(
        "toolExecutionNotifications",
        Json::array({Json::object(
            {{"level", "warning"},
             {"message", text_json(absl::StrFormat(
                             "%d findings are left out, for a file of this kind is taken "
                             "up to 10 MB; --format json has them all",
                             left_out))}})}));
  }
  Json run = Json::object(
      {{"tool", driver_json()},
       {"invocations", Json::array({std::move(invocation)})},
       {"originalUriBaseIds",
        Json::object(
            {{"%SRCROOT%", Json::object({{"description", text_json("The folder in which the "
                                                                   "program was traced.")}})}})},
       {"results", Json(std::move(results))},
       {"properties",
        Json::object({{"program", program.name}, {"meshes", meshes_text(program)}})}});
  return json_line(Json::object({{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                                 {"version", "2.1.0"},
                                 {"runs", Json::array({std::move(run)})}}));
}

}  // namespace tessera::audit
