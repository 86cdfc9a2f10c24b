// Budgets, baselines and what they make of findings.
#include "program/findings/check.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "absl/strings/str_format.h"
#include "program/program_json.h"
#include "tests/support/builtin_ops.h"
#include "tests/support/changed_text.h"

namespace tessera {
namespace {

/// One implicit gather of 96 bytes in layers.0.attn, one that is asked for in layers.1.mlp, and a
/// read by the host. Held at most: x (32), a and b (128 each), for nothing is freed before its last
/// use.
std::string step_text(const std::string& more = "", const std::string& name = "step") {
  return R"({"version":1,"name":")" + name +
         R"j(","source":{"kind":"program"},"ranks":4,"meshes":{"m":{"shape":[4],"axes":["tp"]}},"values":[
 {"name":"x","shape":[8,4],"dtype":"F32","mesh":"m","placements":["S(0)"],"role":"input"}],"steps":[
 {"redistribute":"x","to":["R"],"out":"a","implicit":true,"module":"layers.0.attn"},
 {"redistribute":"x","to":["R"],"out":"b","module":"layers.1.mlp"},
 {"host_read":"b","bytes":4,"why":"loss"})j" +
         more + "]}";
}
Program step_program(const std::string& more = "", const std::string& name = "step") {
  return value_or_throw(read_program(step_text(more, name), "step.json", testing::builtin_ops()));
}
CheckReport checked(const CheckOptions& options, const Program& program = step_program()) {
  return value_or_throw(check_program(program, testing::builtin_ops(), options));
}
Budget budget(const std::string& text) { return value_or_throw(read_budget(text, "budget.json")); }
std::string budget_error(const std::string& text) {
  const StatusOr<Budget> read = read_budget(text, "budget.json");
  return read.ok() ? "none" : std::string(message_of(read.status()));
}

TEST_CASE("without a budget implicit moves warn", "[findings][budget]") {
  const CheckReport report = checked({});
  CHECK(report.passed);
  CHECK(report.limits.empty());
  CHECK(report.findings.all.at(0).severity == Severity::kWarn);
  CHECK_FALSE(checked({.fail_on = {"warn"}}).passed);
  CHECK_FALSE(checked({.fail_on = {"implicit-move"}}).passed);
  CHECK(checked({.fail_on = {"unsound-source"}}).passed);
  const StatusOr<CheckReport> unknown =
      check_program(step_program(), testing::builtin_ops(), {.fail_on = {"implicit"}});
  CHECK(message_of(unknown.status())
            .starts_with("--fail-on: \"implicit\" is no rule; allowed are note, warn, fail, "
                         "implicit-move, "));
}

TEST_CASE("each limit of a budget is held", "[findings][budget]") {
  const auto limit = [](const std::string& text) {
    const CheckReport report = checked({.budget = budget(text)});
    REQUIRE(report.limits.size() == 1);
    const LimitCheck& each = report.limits[0];
    CHECK(report.passed == each.passed);
    return each.name + " " + each.seen + (each.passed ? " <= " : " > ") + each.limit;
  };
  CHECK(limit(R"({"implicit_bytes":96})") == "implicit-bytes 96 B <= 96 B");
  CHECK(limit(R"({"implicit_bytes":95})") == "implicit-bytes 96 B > 95 B");
  CHECK(limit(R"({"total_bytes":"191 B"})") == "total-bytes 192 B > 191 B");
  CHECK(limit(R"({"total_bytes":"0.25KiB"})") == "total-bytes 192 B <= 256 B");
  CHECK(limit(R"({"modules":{"layers.*":100}})") == "bytes of layers.* 192 B > 100 B");
  CHECK(limit(R"({"modules":{"layers.*.mlp":100}})") == "bytes of layers.*.mlp 96 B <= 100 B");
  CHECK(limit(R"({"modules":{"layer":0}})") == "bytes of layer 0 B <= 0 B");
  CHECK(limit(R"({"collectives":{"all_gather":1}})") == "bytes of all_gather 192 B > 1 B");
  CHECK(limit(R"({"axes":{"tp":192}})") == "bytes over tp 192 B <= 192 B");
  CHECK(limit(R"({"axes":{"dp":0}})") == "bytes over dp 0 B <= 0 B");
  CHECK(limit(R"({"host_reads":0})") == "host-reads 1 > 0");
  CHECK(limit(R"({"ratio_to_bound":1.5})") == "ratio-to-bound 1.00 <= 1.50");
  CHECK(limit(R"({"rules":{"host-read":0}})") == "places of host-read 1 > 0");
  CHECK(limit(R"({"peak_bytes":"1 KiB"})").ends_with(" <= 1.0 KiB"));
  CHECK(limit(R"({"peak_bytes":1})").ends_with(" > 1 B"));
}

TEST_CASE("findings that a broken limit is about fail", "[findings][budget]") {
  const CheckReport report = checked({.budget = budget(R"({"implicit_bytes":0})")});
  CHECK_FALSE(report.passed);
  CHECK(report.findings.all.at(0).rule == "implicit-move");
  CHECK(report.findings.all.at(0).severity == Severity::kFail);
  const CheckReport memory = checked({.budget = budget(R"({"peak_bytes":1})")});
  CHECK(memory.findings.all.at(0).rule == "peak-memory");
  CHECK(memory.findings.all.at(0).measure.ends_with(" > 1 B"));
}

TEST_CASE("a wrong budget is one error with its place", "[findings][budget]") {
  CHECK(budget_error(R"({"implicit":0})") ==
        "budget.json: /: unknown key \"implicit\"; allowed: version, implicit_bytes, total_bytes, "
        "peak_bytes, host_reads, ratio_to_bound, modules, collectives, axes, rules");
  CHECK(budget_error(R"({"peak_bytes":"80 gigs"})") ==
        "budget.json: /peak_bytes: \"80 gigs\": expected a size such as \"80 GiB\"; units are B, "
        "KiB to EiB of 1024, kB to EB of 1000");
  CHECK(budget_error(R"({"rules":{"implicit":0}})")
            .starts_with(
                "budget.json: /rules: \"implicit\" is no rule; allowed are implicit-move, "));
  CHECK(
      budget_error(R"({"collectives":{"gather_all":0}})")
          .starts_with("budget.json: /collectives: \"gather_all\" is no collective; allowed are "));
  for (const char* const text :
       {"", "[]", "{", R"({"peak_bytes":-1})", R"({"peak_bytes":1.5})",
        R"({"peak_bytes":"9e99 B"})", R"({"peak_bytes":"nan B"})", R"({"peak_bytes":null})",
        R"({"ratio_to_bound":0.5})", R"({"ratio_to_bound":"2"})", R"({"version":2})",
        R"({"modules":{"":0}})", R"({"modules":[]})", R"({"axes":{"tp":true}})",
        R"({"host_reads":"1"})", R"({"rules":{"host-read":0,"host-read":1}})"}) {
    CAPTURE(text);
    CHECK(budget_error(text).starts_with("budget.json:"));
  }
  CHECK(budget("{}") == Budget{});
}

TEST_CASE("10,000 changed budgets are read alike twice, or refused with their place",
          "[findings][budget]") {
  const std::string sample =
      R"({"version":1,"implicit_bytes":0,"total_bytes":"1.5 GiB","peak_bytes":"80 GiB","host_reads":2,)"
      R"("ratio_to_bound":1.5,"modules":{"layers.*.attn":"1 MiB"},"collectives":{"all_gather":7},)"
      R"("axes":{"tp":"3 KiB"},"rules":{"host-read":0,"uneven-cut":4}})";
  std::mt19937 random(1);
  int accepted = 0;
  for (int round = 0; round < 10'000; ++round) {
    const std::string text = testing::changed_text(sample, random);
    const StatusOr<Budget> read = read_budget(text, "budget.json");
    if (!read.ok()) {
      REQUIRE(message_of(read.status()).starts_with("budget.json:"));
      continue;
    }
    ++accepted;
    REQUIRE(budget(text) == *read);
  }
  CHECK(accepted > 100);
}

TEST_CASE("what a baseline has is known, and may be left out", "[findings][baseline]") {
  const Baseline before =
      value_or_throw(read_baseline(step_text(), "old.json", testing::builtin_ops()));
  CheckOptions options = {.baseline = before, .new_only = true, .fail_on = {"warn"}};
  const CheckReport same = checked(options);
  CHECK(same.passed);
  CHECK(same.findings.all.empty());
  CHECK(same.known_before == 3);  // an implicit move, one that comes again, a read
  const std::string added =
      R"(,{"redistribute":"x","to":["R"],"out":"c","implicit":true,"module":"head"})";
  const CheckReport more = checked(options, step_program(added));
  CHECK_FALSE(more.passed);
  CHECK(std::all_of(more.findings.all.begin(), more.findings.all.end(),
                    [](const Finding& each) { return each.module == "head"; }));
  options.new_only = false;
  const CheckReport all = checked(options, step_program(added));
  CHECK(std::count_if(all.findings.all.begin(), all.findings.all.end(),
                      [](const Finding& each) { return each.known; }) == 3);
}

TEST_CASE("a baseline of another program is one error", "[findings][baseline]") {
  const auto error = [](const std::string& text) {
    const StatusOr<Baseline> baseline = read_baseline(text, "old.json", testing::builtin_ops());
    if (!baseline.ok()) return std::string(message_of(baseline.status()));
    const StatusOr<CheckReport> report =
        check_program(step_program(), testing::builtin_ops(), {.baseline = *baseline});
    return report.ok() ? "none" : std::string(message_of(report.status()));
  };
  CHECK(error(step_text("", "other")) ==
        "old.json: a baseline of another program: it is \"other\" on m {tp: 4}, and this one is "
        "\"step\" on m {tp: 4}");
  CHECK(error(R"({"version":1,"program":"step","meshes":"m {tp: 8}","findings":[]})") ==
        "old.json: a baseline of another program: it is \"step\" on m {tp: 8}, and this one is "
        "\"step\" on m {tp: 4}");
  CHECK(error(R"({"version":1,"program":"step","meshes":"m {tp: 4}","findings":[{"id":"0"}]})") ==
        "none");
  CHECK(error("{}") ==
        "old.json: /: neither a program (\"steps\") nor what check --format json writes "
        "(\"findings\")");
  for (const char* const text :
       {"", "[]", "7", R"({"findings":[]})", R"({"version":1,"findings":7})",
        R"({"version":1,"program":"step","meshes":"m","findings":[7]})",
        R"({"version":1,"program":"step","meshes":"m","findings":[{"id":7}]})",
        R"({"steps":[]})"}) {
    CAPTURE(text);
    CHECK(error(text).starts_with("old.json:"));
  }
}

}  // namespace
}  // namespace tessera
