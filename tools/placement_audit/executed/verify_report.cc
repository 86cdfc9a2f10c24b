#include "tools/placement_audit/executed/verify_report.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "tools/placement_audit/executed/verify_document.h"

namespace tessera::audit {
namespace {

struct Totals {
  std::int64_t proven = 0, failed = 0, found = 0, declined = 0, missing = 0, failures = 0;
  std::int64_t refuted = 0, equivalent = 0, survived = 0;
  bool has_mutants = false;
};

Totals totals_of(const VerifySummary& summary) {
  Totals totals;
  for (const Verdict& verdict : summary.verdicts) {
    const VerifyReport& report = verdict.report;
    totals.proven += report.rows_proven;
    totals.failed += report.rows_failed;
    totals.found += report.rows_found;
    totals.declined += report.rows_declined;
    totals.missing += report.rows_missing;
    totals.failures += static_cast<std::int64_t>(report.failures.size());
    if (!verdict.mutants) continue;
    totals.has_mutants = true;
    totals.refuted += verdict.mutants->refuted;
    totals.equivalent += verdict.mutants->equivalent;
    totals.survived += static_cast<std::int64_t>(verdict.mutants->survivors.size());
  }
  return totals;
}

/// The failure that is run again with least effort; null where none can be.
const VerifyFailure* shortest(const VerifyReport& report) {
  const VerifyFailure* best = nullptr;
  for (const VerifyFailure& failure : report.failures) {
    if (!failure.repro) continue;
    if (best == nullptr || failure.repro->size() < best->repro->size()) best = &failure;
  }
  return best;
}

Json texts(const std::vector<std::string>& lines) {
  Json::Array items;
  for (const std::string& line : lines) items.push_back(Json(line));
  return Json(std::move(items));
}

Json failure_json(const VerifyFailure& failure) {
  Json json = Json::object({{"op", failure.op},
                            {"mesh", failure.mesh},
                            {"row", failure.row},
                            {"sample", failure.sample},
                            {"detail", failure.detail}});
  if (failure.rank < 0) return json;
  Json::Array index;
  for (const std::int64_t i : failure.index) index.push_back(Json(i));
  json.set("rank", Json(failure.rank));
  json.set("result", Json(failure.result));
  json.set("index", Json(std::move(index)));
  json.set("got", Json(failure.got));
  json.set("expected", Json(failure.expected));
  return json;
}

Json mutants_json(const MutantReport& mutants) {
  Json::Array survivors;
  for (const MutantSurvivor& survivor : mutants.survivors) {
    survivors.push_back(Json::object(
        {{"change", survivor.change}, {"rule", survivor.rule}, {"reason", survivor.reason}}));
  }
  return Json::object({{"refuted", mutants.refuted},
                       {"equivalent", mutants.equivalent},
                       {"survivors", Json(std::move(survivors))}});
}

std::string mutants_line(const Totals& totals) {
  const std::int64_t judged = totals.refuted + totals.survived;
  return absl::StrFormat("%d of %d mutants refuted, %d equivalent", totals.refuted, judged,
                         totals.equivalent);
}

std::string verdict_text(const Verdict& verdict) {
  const VerifyReport& report = verdict.report;
  std::string text = absl::StrFormat("%-28s %6d rows proven, %d failed\n", verdict.op->def.name,
                                     report.rows_proven, report.rows_failed);
  for (const std::string& reason : report.declined) text += "    declines " + reason + '\n';
  for (const VerifyFailure& failure : report.failures) {
    text += absl::StrFormat("    FAILED on %s: %s, sample %s: %s\n", failure.mesh, failure.row,
                            failure.sample, failure.detail);
  }
  if (const VerifyFailure* best = shortest(report)) {
    text += "    run again: " + run_document(*best).to_string() + '\n';
  }
  if (!verdict.mutants) return text;
  for (const MutantSurvivor& survivor : verdict.mutants->survivors) {
    text += absl::StrFormat("    SURVIVES %s, %s: %s\n", survivor.change, survivor.rule,
                            survivor.reason);
  }
  return text;
}

std::string cell(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) {
    text.insert(at, "\\");
  }
  return text;
}

}  // namespace

bool VerifySummary::passed() const {
  const Totals totals = totals_of(*this);
  const std::int64_t judged = totals.refuted + totals.survived;
  return totals.failed == 0 && totals.failures == 0 && totals.refuted * 100 >= judged * 97;
}

Json to_json(const VerifySummary& summary) {
  const Totals totals = totals_of(summary);
  Json::Array ops, failures;
  for (const auto& [op, report, mutants] : summary.verdicts) {
    Json json = Json::object({{"op", op->def.name},
                              {"rows_proven", report.rows_proven},
                              {"rows_failed", report.rows_failed},
                              {"rows_found", report.rows_found},
                              {"rows_declined", report.rows_declined},
                              {"declined", texts(report.declined)}});
    if (const VerifyFailure* best = shortest(report)) json.set("run_again", run_document(*best));
    if (mutants) json.set("mutants", mutants_json(*mutants));
    ops.push_back(std::move(json));
    for (const VerifyFailure& failure : report.failures) failures.push_back(failure_json(failure));
  }
  Json json = Json::object({{"rows_proven", totals.proven},
                            {"rows_failed", totals.failed},
                            {"rows_found", totals.found},
                            {"rows_declined", totals.declined},
                            {"rows_missing", totals.missing}});
  if (totals.has_mutants) {
    json.set("mutants", Json::object({{"refuted", totals.refuted},
                                      {"equivalent", totals.equivalent},
                                      {"survived", totals.survived}}));
  }
  if (summary.device != "cpu") json.set("device", Json(summary.device));
  json.set("ops", Json(std::move(ops)));
  json.set("failures", Json(std::move(failures)));
  return json;
}

std::string to_text(const VerifySummary& summary) {
  const Totals totals = totals_of(summary);
  std::string text;
  for (const Verdict& verdict : summary.verdicts) text += verdict_text(verdict);
  const std::string device = summary.device == "cpu" ? "" : " on the device: " + summary.device;
  text += absl::StrFormat("%d rows proven, %d failed%s\n", totals.proven, totals.failed, device);
  if (summary.whole_table) {
    text += absl::StrFormat("%d ops; the search finds %d rows: %d declined, %d missing; %.1f s\n",
                            summary.verdicts.size(), totals.found, totals.declined, totals.missing,
                            summary.seconds);
  }
  if (totals.has_mutants) text += mutants_line(totals) + '\n';
  return text;
}

std::string to_markdown(const VerifySummary& summary) {
  const Totals totals = totals_of(summary);
  std::string text =
      "<!-- Made by scripts/op_pages; changes by hand are lost. -->\n# Verification\n\n";
  text += absl::StrFormat(
      "What `placement-audit verify --mutants` finds. %d ops: %d rows executed and "
      "right, %d wrong; the search over placements finds %d rows, of which %d are declined and %d "
      "are missing",
      summary.verdicts.size(), totals.proven, totals.failed, totals.found, totals.declined,
      totals.missing);
  text += totals.has_mutants ? "; " + mutants_line(totals) + ".\n\n" : ".\n\n";
  text +=
      "A row counts once per mesh (axes of 2, 3 and 4, and 2x2). What is shown is evidence on "
      "samples: [verification](../verification.md) says of which kind.\n\n"
      "| op | rows right | found by search | declined | mutants refuted |\n|---|---|---|---|---|\n";
  for (const auto& [op, report, mutants] : summary.verdicts) {
    std::string declined;
    for (const std::string& reason : report.declined) {
      declined += (declined.empty() ? "" : "; ") + cell(reason);
    }
    const std::string refuted =
        !mutants ? ""
                 : absl::StrFormat("%d of %d", mutants->refuted,
                                   mutants->refuted + std::int64_t(mutants->survivors.size()));
    text += absl::StrFormat("| %s | %d%s | %d | %s | %s |\n", op->def.name, report.rows_proven,
                            report.failures.empty() ? "" : ", FAILED", report.rows_found, declined,
                            refuted);
  }
  if (!totals.has_mutants || totals.survived == 0) return text;
  text += "\nMutants that nothing refutes:\n\n| op | change | why |\n|---|---|---|\n";
  for (const Verdict& verdict : summary.verdicts) {
    if (!verdict.mutants) continue;
    for (const MutantSurvivor& survivor : verdict.mutants->survivors) {
      text += absl::StrFormat("| %s | %s | %s |\n", verdict.op->def.name, cell(survivor.change),
                              cell(survivor.reason));
    }
  }
  return text;
}

}  // namespace tessera::audit
