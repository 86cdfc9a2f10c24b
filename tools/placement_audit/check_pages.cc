// A check as text for a terminal, as Markdown and as JUnit's XML.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "io/byte_text.h"
#include "placement/printable.h"
#include "tools/placement_audit/check_report.h"
#include "tools/placement_audit/report_lines.h"

namespace tessera::audit {
namespace {

constexpr std::size_t kMaxShown = 60;  // findings, in text
constexpr std::size_t kMaxRows = 200;  // of a table that a person reads
constexpr std::string_view kIndent = "     ";

std::string_view mark_of(Severity severity) {
  constexpr std::string_view kMarks[] = {"note", "WARN", "FAIL"};
  return kMarks[static_cast<int>(severity)];
}

/// Rule and measure, then site and module where the line has room for them.
std::string first_lines(const Finding& finding) {
  std::string line = absl::StrFormat("%s %s", std::string(mark_of(finding.severity)), finding.rule);
  if (!finding.measure.empty()) line += "  " + finding.measure;
  if (finding.known) line += "  (known)";
  std::string where = finding.site;
  const std::string place = place_of(finding);
  if (!place.empty()) where += (where.empty() ? "" : "  ") + place;
  if (where.empty()) return wrapped(line, "");
  where = printable(where);
  line = printable(line);
  if (line.size() + 2 + where.size() > kColumns) return wrapped(line, "") + wrapped(where, kIndent);
  line.resize(std::max(line.size() + 2, std::min<std::size_t>(45, kColumns - where.size())), ' ');
  return line + where + '\n';
}

std::string saved_text(const Finding& finding);

std::string lines_of(const Finding& finding) {
  std::string text = first_lines(finding);
  text += wrapped(finding.cause, kIndent);
  if (!finding.fix.empty()) text += wrapped("fix: " + finding.fix + saved_text(finding), kIndent);
  return text;
}

std::string saved_text(const Finding& finding) {
  if (finding.saved_bytes.value_or(0) <= 0) return "";
  return ": " + byte_text(*finding.saved_bytes, 1) + " less a step";
}

std::string counts_text(const CheckReport& report) {
  std::int64_t counts[3] = {0, 0, 0};
  for (const Finding& finding : report.findings.all) ++counts[static_cast<int>(finding.severity)];
  std::string text = absl::StrFormat("%d fail, %d warn, %d notes", counts[2], counts[1], counts[0]);
  if (report.known_before > 0) {
    text += absl::StrFormat("; %d that the baseline has are left out", report.known_before);
  }
  const Findings& findings = report.findings;
  text +=
      absl::StrFormat("; %s received a step, %s of them implicit", byte_text(findings.bytes.max, 1),
                      byte_text(findings.implicit_bytes.max, 1));
  return text;
}

std::string limit_line(const LimitCheck& limit) {
  return absl::StrFormat("%s %s  %s %s %s", limit.passed ? "ok  " : "FAIL", limit.name, limit.seen,
                         limit.passed ? "<=" : ">", limit.limit);
}

/// The marks at the beginnings of lines, for a terminal.
std::string coloured(const std::string& text) {
  struct Mark {
    std::string_view word, code;
  };
  constexpr Mark kMarks[] = {
      {"FAIL ", "\x1b[31m"}, {"WARN ", "\x1b[33m"}, {"ok   ", "\x1b[32m"}, {"note ", "\x1b[36m"}};
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const auto mark = std::find_if(std::begin(kMarks), std::end(kMarks), [line](const Mark& each) {
      return line.starts_with(each.word);
    });
    if (mark == std::end(kMarks)) {
      out += line;
    } else {
      out += std::string(mark->code) + std::string(line.substr(0, 4)) + "\x1b[0m" +
             std::string(line.substr(4));
    }
    begin = end;
  }
  return out;
}

std::string testcase(std::string_view rule, std::string_view name, std::string_view inside) {
  return absl::StrFormat(
      "  <testcase classname=\"placement-audit.%s\" name=\"%s\"%s\n", xml_escaped(rule),
      xml_escaped(name),
      inside.empty() ? std::string("/>") : ">" + std::string(inside) + "</testcase>");
}

std::string finding_case(const Finding& finding) {
  std::string name = finding.site;
  const std::string place = place_of(finding);
  if (!place.empty()) name += (name.empty() ? "" : " ") + place;
  if (!finding.op.empty()) name += (name.empty() ? "" : " ") + finding.op;
  name += " [" + finding.id + "]";
  std::string body = finding.cause;
  if (!finding.fix.empty()) body += "\nfix: " + finding.fix + saved_text(finding);
  if (finding.severity == Severity::kFail) {
    return testcase(finding.rule, name,
                    absl::StrFormat("<failure type=\"%s\" message=\"%s\">%s</failure>",
                                    xml_escaped(finding.rule), xml_escaped(headline(finding)),
                                    xml_escaped(body)));
  }
  return testcase(finding.rule, name, "<system-out>" + xml_escaped(body) + "</system-out>");
}

}  // namespace

std::string check_text(const Program& program, const CheckReport& report, Colour colour) {
  std::string text = one_line(
      absl::StrFormat("%s: %s, %d ranks", program.name, program.source.kind, program.ranks));
  const std::vector<Finding>& all = report.findings.all;
  for (std::size_t i = 0; i < std::min(all.size(), kMaxShown); ++i) text += lines_of(all[i]);
  if (all.size() > kMaxShown) {
    text +=
        absl::StrFormat("... and %d more; --format json has them all\n", all.size() - kMaxShown);
  }
  for (const LimitCheck& limit : report.limits) text += one_line(limit_line(limit));
  text += wrapped(counts_text(report), "");
  text += one_line("first: " + report.first);
  text = printable_lines(text);
  return colour == Colour::kAnsi ? coloured(text) : text;
}

std::string check_markdown(const Program& program, const CheckReport& report) {
  std::string text = absl::StrFormat("### %s: %s\n\n%s.\n", cell_escaped(program.name),
                                     report.passed ? "passed" : "failed", counts_text(report));
  const std::vector<Finding>& all = report.findings.all;
  if (!all.empty()) {
    text += "\n| | rule | size | where | cause | fix |\n|---|---|---|---|---|---|\n";
  }
  for (std::size_t i = 0; i < std::min(all.size(), kMaxRows); ++i) {
    const Finding& finding = all[i];
    std::string where = finding.site;
    const std::string place = place_of(finding);
    if (!place.empty()) where += (where.empty() ? "" : " ") + place;
    text += absl::StrFormat(
        "| %s | %s | %s | %s | %s | %s |\n", std::string(mark_of(finding.severity)), finding.rule,
        cell_escaped(finding.measure), cell_escaped(where), cell_escaped(finding.cause),
        finding.fix.empty() ? "" : cell_escaped(finding.fix + saved_text(finding)));
  }
  if (all.size() > kMaxRows) text += absl::StrFormat("\nAnd %d more.\n", all.size() - kMaxRows);
  if (!report.limits.empty()) text += "\n| limit | seen | allowed | |\n|---|---|---|---|\n";
  for (const LimitCheck& limit : report.limits) {
    text += absl::StrFormat("| %s | %s | %s | %s |\n", cell_escaped(limit.name), limit.seen,
                            limit.limit, limit.passed ? "ok" : "FAIL");
  }
  return text + "\nFirst: " + cell_escaped(report.first) + "\n";
}

std::string check_junit(const Program& program, const CheckReport& report) {
  std::string cases;
  std::int64_t tests = 0, failures = 0;
  for (const Finding& finding : report.findings.all) {
    ++tests;
    failures += finding.severity == Severity::kFail ? 1 : 0;
    cases += finding_case(finding);
  }
  for (const LimitCheck& limit : report.limits) {
    ++tests;
    failures += limit.passed ? 0 : 1;
    const std::string line = limit_line(limit);
    cases += testcase("budget", limit.name,
                      limit.passed ? ""
                                   : absl::StrFormat("<failure type=\"budget\" message=\"%s\"/>",
                                                     xml_escaped(line)));
  }
  // A rule that finds nothing is a test that passes: its name stays in the list of tests.
  for (const FindingRule& rule : finding_rules()) {
    const std::vector<Finding>& all = report.findings.all;
    const bool found = std::any_of(all.begin(), all.end(),
                                   [&](const Finding& each) { return each.rule == rule.name; });
    if (found) continue;
    ++tests;
    cases += testcase(rule.name, rule.name, "");
  }
  const std::string counts =
      absl::StrFormat("tests=\"%d\" failures=\"%d\" errors=\"0\"", tests, failures);
  return absl::StrFormat(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites %s>\n <testsuite name=\"%s\" "
      "%s>\n%s "
      "</testsuite>\n</testsuites>\n",
      counts, xml_escaped(program.name), counts, cases);
}

}  // namespace tessera::audit
