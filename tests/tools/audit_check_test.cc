// placement-audit check, explain and diff: formats, exit codes, and what fits a terminal.
#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "io/file.h"
#include "io/json.h"
#include "tests/support/paths.h"
#include "tests/tools/program.h"

namespace tessera {
namespace {

using testing::Ran;
using testing::run_program;

const std::string kStep =
    R"j({"version":1,"name":"two layers","source":{"kind":"program"},"ranks":4,
"meshes":{"m":{"shape":[4],"axes":["tp"]}},"values":[
 {"name":"x","shape":[8,4],"dtype":"F32","mesh":"m","placements":["S(0)"],"role":"input"}],"steps":[
 {"redistribute":"x","to":["R"],"out":"a","implicit":true,"for":"relu.x","module":"layers.0","site":"model/attn.py:7"},
 {"op":"relu","args":["a"],"out":[{"name":"y","shape":[8,4],"dtype":"F32","mesh":"m","placements":["R"]}],"module":"layers.0","site":"model/attn.py:7"},
 {"redistribute":"y","to":["S(0)"],"out":"z","module":"layers.0","site":"model/attn.py:8"},
 {"host_read":"z","bytes":4,"why":"a <loss> & \"more\" | so"}]})j";

Ran audit(std::vector<std::string> arguments, const std::string& input = kStep) {
  return run_program("placement-audit", arguments, input);
}
std::string recorded_path(const std::string& name) {
  return testing::test_data("/programs/torch_" + name + ".json");
}

TEST_CASE("check prints findings, limits and what to do first", "[tools][check]") {
  const Ran ran = audit({"check", "-"});
  CHECK(ran.exit_code == 0);
  CHECK(ran.err.empty());
  CHECK(
      ran.out ==
      "two layers: program, 4 ranks\n"
      "WARN implicit-move  96 B a step              model/attn.py:7  layers.*\n"
      "     all_gather over tp, 96 B each: relu.x is S(0) and is needed as R\n"
      "     fix: run relu by its row S(0) -> S(0) on tp: nothing moves instead: 96 B less a step\n"
      "WARN host-read\n"
      "     the host waits for 4 B of z: a <loss> & \"more\" | so\n"
      "     fix: keep it on the device, or read it later, once for all\n"
      "0 fail, 2 warn, 0 notes; 96 B received a step, 96 B of them implicit\n"
      "first: model/attn.py:7: run relu by its row S(0) -> S(0) on tp: nothing moves instead\n");
  testing::ScratchFolder scratch;
  const std::string budget =
      scratch.file("budget.json", R"({"implicit_bytes":0,"ratio_to_bound":1.5})");
  const Ran failed = audit({"check", "-", "--budget", budget});
  CHECK(failed.exit_code == 1);
  CHECK(failed.out.find("\nFAIL implicit-move  96 B a step ") != std::string::npos);
  CHECK(failed.out.find("\nFAIL implicit-bytes  96 B > 0 B\nok   ratio-to-bound  1.00 <= 1.50\n") !=
        std::string::npos);
}

TEST_CASE("lines of check, explain and diff fit 100 columns and have no colour in files",
          "[tools][check]") {
  for (const std::string name : {"wrong_rows", "router", "deepseek", "llama_stages"}) {
    for (const std::vector<std::string>& arguments :
         {std::vector<std::string>{"check", recorded_path(name)},
          std::vector<std::string>{"explain", recorded_path(name), "mul"},
          std::vector<std::string>{"diff", recorded_path("implicit_gather"),
                                   recorded_path(name)}}) {
      CAPTURE(name, arguments[0]);
      const Ran ran = audit(arguments, "");
      CHECK(ran.exit_code <= 1);
      CHECK(ran.err.empty());
      std::size_t widest = 0;
      for (const auto line : absl::StrSplit(ran.out, '\n')) {
        widest = std::max(widest, line.size());
      }
      CHECK(widest <= 100);
      CHECK(ran.out.find('\x1b') == std::string::npos);
      CHECK(ran.out.find("\nfirst: ") != std::string::npos);
      CHECK(audit(arguments, "").out == ran.out);
    }
  }
}

TEST_CASE("names in a program move no cursor and make no line longer", "[tools][check]") {
  std::string text = kStep;
  const std::string name = R"(\u001b[31mred\u202e )" + std::string(300, 'w') + R"(\u00e4\u00f6)";
  for (std::size_t at = 0; (at = text.find("layers.0", at)) != std::string::npos;) {
    text.replace(at, 8, name);
    at += name.size();
  }
  for (const std::string format : {"text", "md", "junit", "sarif", "json"}) {
    CAPTURE(format);
    const Ran ran = audit({"check", "-", "--format", format}, text);
    CHECK(ran.exit_code == 0);
    CHECK(ran.out.find('\x1b') == std::string::npos);
    CHECK(ran.out.size() > 300);
  }
  const Ran ran = audit({"check", "-"}, text);
  for (const auto line : absl::StrSplit(ran.out, '\n')) CHECK(line.size() <= 100);
}

TEST_CASE("check fails what is wrong in a PyTorch program", "[tools][check]") {
  CHECK(audit({"check", recorded_path("llama")}, "").exit_code == 0);
  CHECK(audit({"check", recorded_path("router")}, "").exit_code == 1);
  CHECK(audit({"check", recorded_path("wrong_rows")}, "").exit_code == 1);
  CHECK(audit({"check", recorded_path("deepseek"), "--fail-on", "host-read"}, "").exit_code == 1);
  CHECK(audit({"check", recorded_path("deepseek")}, "").exit_code == 0);
}

TEST_CASE("the reference model's own step passes its check", "[tools][check]") {
  testing::ScratchFolder scratch;
  const std::string step = scratch / "step.json";
  const Ran traced =
      audit({"trace", "--train", testing::test_data("/../../configs/debug.json"), "--ranks", "8",
             "--parallel", R"({"dp_shard":2,"tp":2,"ep":2,"pp":2})", "--output", step},
            "");
  REQUIRE(traced.exit_code == 0);
  const std::string budget =
      scratch.file("budget.json", R"({"implicit_bytes":0,"rules":{"above-bound":0}})");
  const Ran ran = audit({"check", step, "--budget", budget}, "");
  CHECK(ran.exit_code == 0);
  CHECK(ran.out.find("ok   implicit-bytes  0 B <= 0 B\n") != std::string::npos);
}

TEST_CASE("what check says in JSON is a baseline for later", "[tools][check]") {
  testing::ScratchFolder scratch;
  const std::string old = scratch / "old.json";
  const Ran ran = audit({"check", "-", "--format", "json", "--output", old});
  CHECK(ran.exit_code == 0);
  const std::string text = value_or_throw(read_file(old, 1 << 20));
  const Json answer = value_or_throw(parse_json(text, "old"));
  CHECK(*answer.find("version")->if_integer() == 1);
  CHECK(answer.find("findings")->if_array()->size() == 2);
  const Ran again = audit({"check", "-", "--baseline", old, "--new-only", "--fail-on", "warn"});
  CHECK(again.exit_code == 0);
  CHECK(again.out.find("0 fail, 0 warn, 0 notes; 2 that the baseline has are left out;") !=
        std::string::npos);
  const Ran other = audit({"check", recorded_path("llama"), "--baseline", old}, "");
  CHECK(other.exit_code == 3);
  CHECK(other.out.empty());
  CHECK(other.err.find("old.json: a baseline of another program: it is \"two layers\" on m") !=
        std::string::npos);
}

/// Required properties of SARIF 2.1.0, sections 3.13 to 3.27, and GitHub's own.
void check_sarif_log(const std::string& text) {
  const Json log = value_or_throw(parse_json(text, "sarif"));
  CHECK(*log.find("version")->if_string() == "2.1.0");
  REQUIRE(log.find("runs")->if_array()->size() == 1);
  const Json& run = (*log.find("runs")->if_array())[0];
  const Json& driver = *run.find("tool")->find("driver");
  CHECK(*driver.find("name")->if_string() == "placement-audit");
  std::vector<std::string> rules;
  for (const Json& rule : *driver.find("rules")->if_array()) {
    rules.push_back(*rule.find("id")->if_string());
    CHECK_FALSE(rule.find("help")->find("text")->if_string()->empty());
    CHECK_FALSE(rule.find("shortDescription")->find("text")->if_string()->empty());
  }
  CHECK(std::set<std::string>(rules.begin(), rules.end()).size() == rules.size());
  const std::set<std::string> levels = {"error", "warning", "note"};
  for (const Json& result : *run.find("results")->if_array()) {
    const auto index = static_cast<std::size_t>(*result.find("ruleIndex")->if_integer());
    REQUIRE(index < rules.size());
    CHECK(rules[index] == *result.find("ruleId")->if_string());
    CHECK(levels.contains(*result.find("level")->if_string()));
    CHECK_FALSE(result.find("message")->find("text")->if_string()->empty());
    CHECK(result.find("partialFingerprints")->find("placementAudit/v1") != nullptr);
    for (const Json& location : *result.find("locations")->if_array()) {
      const Json& physical = *location.find("physicalLocation");
      const std::string& uri = *physical.find("artifactLocation")->find("uri")->if_string();
      CHECK(uri.find_first_of(" \\<>\"") == std::string::npos);
      if (const Json* region = physical.find("region")) {
        CHECK(*region->find("startLine")->if_integer() >= 1);
      }
    }
  }
}

TEST_CASE("check writes SARIF", "[tools][check][sarif]") {
  const Ran ran = audit({"check", recorded_path("wrong_rows"), "--format", "sarif"}, "");
  CHECK(ran.exit_code == 1);
  check_sarif_log(ran.out);
  CHECK(ran.out.find(R"("artifactLocation":{"uri":"wrong_rows.py","uriBaseId":"%SRCROOT%"},)"
                     R"("region":{"startLine":33})") != std::string::npos);
  check_sarif_log(audit({"check", "-", "--format", "sarif"}).out);
}

TEST_CASE("SARIF stays below 10 MB and says what it leaves out", "[tools][check][sarif]") {
  std::string text =
      R"j({"version":1,"name":"wide","source":{"kind":"program"},"ranks":4,"meshes":{"m":{"shape":[4],"axes":["tp"]}},"values":[
 {"name":"x","shape":[8,4],"dtype":"F32","mesh":"m","placements":["S(0)"],"role":"input"}],"steps":[)j";
  const std::string long_name(700, 'm');
  for (int i = 0; i < 9000; ++i) {
    text += absl::StrFormat(
        R"(%s{"host_read":"x","bytes":4,"why":"loss","module":"%s.a%d","site":"a.py:%d"})",
        i == 0 ? "" : ",", long_name, i, i + 1);
  }
  const Ran ran = audit({"check", "-", "--format", "sarif"}, text + "]}");
  CHECK(ran.out.size() < 10'000'000);
  CHECK(ran.out.size() > 8'000'000);
  CHECK(ran.out.find(" findings are left out") != std::string::npos);
}

TEST_CASE("check writes JUnit and Markdown, with names escaped", "[tools][check]") {
  const Ran junit = audit({"check", "-", "--format", "junit", "--fail-on", "host-read"});
  CHECK(junit.exit_code == 1);
  CHECK(junit.out.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\""));
  CHECK(junit.out.find("failures=\"1\"") != std::string::npos);
  CHECK(junit.out.find("a &lt;loss&gt; &amp; &quot;more&quot; | so") != std::string::npos);
  CHECK(junit.out.find("<loss>") == std::string::npos);
  const Ran table = audit({"check", "-", "--format", "md"});
  CHECK(table.out.find("### two layers: passed\n") == 0);
  CHECK(table.out.find("a &lt;loss> &amp; \"more\" \\| so") != std::string::npos);
}

TEST_CASE("explain tells the chain of causes", "[tools][explain]") {
  const Ran ran = audit({"explain", "-", "y"});
  CHECK(ran.exit_code == 0);
  CHECK(ran.out ==
        "y is R\n"
        "     relu(a R) by its row R -> R (all R) on tp\n"
        "     at model/attn.py:7  layers.0\n"
        "a is R\n"
        "     the engine moves x from S(0): all_gather over tp, 96 B, for relu.x\n"
        "     at model/attn.py:7  layers.0\n"
        "     fix: run relu by its row S(0) -> S(0) on tp: nothing moves instead: 96 B less\n"
        "x is S(0)\n"
        "     input, placed so before the step\n"
        "\nfrom there it moves on\n"
        "z is S(0)\n"
        "     the code moves y from R: nothing moves\n"
        "     at model/attn.py:8  layers.0\n"
        "first: run relu by its row S(0) -> S(0) on tp: nothing moves instead\n");
  const Json answer =
      value_or_throw(parse_json(audit({"explain", "-", "y", "--format", "json"}).out, "explain"));
  CHECK(answer.find("causes")->if_array()->size() == 3);
  const Ran none = audit({"explain", "-", "relo"});
  CHECK(none.exit_code == 3);
  CHECK(none.err.starts_with("placement-audit: no value or op \"relo\"; the nearest names are "));
}

TEST_CASE("diff tells what is new and gone", "[tools][diff]") {
  testing::ScratchFolder scratch;
  std::string text = kStep;
  text.replace(text.find(R"("to":["R"])"), 10, R"j("to":["S(0)"])j");
  text.replace(text.find(R"("placements":["R"])"), 18, R"j("placements":["S(0)"])j");
  const std::string later = scratch.file("later.json", text);
  const Ran ran = audit({"diff", "-", later});
  CHECK(ran.exit_code == 0);
  CHECK(ran.out.find("received a step: 96 B -> 0 B (-96 B)\n") != std::string::npos);
  CHECK(
      ran.out.find("gone    layers.*  all_gather over tp, implicit\n        96 B -> 0 B (-96 B), 1 "
                   "calls -> 0\n") != std::string::npos);
  CHECK(ran.out.find("gone finding: implicit-move: 96 B a step, layers.*, model/attn.py:7\n") !=
        std::string::npos);
  const Ran table = audit({"diff", "-", later, "--format", "md"});
  CHECK(table.out.find("| gone | layers.\\* | all\\_gather over tp, implicit |") !=
        std::string::npos);
  const Ran same = audit({"diff", recorded_path("llama"), recorded_path("llama")}, "");
  CHECK(same.out.find("first: nothing to do: the programs move and hold the same\n") !=
        std::string::npos);
}

TEST_CASE("check, explain and diff refuse what they cannot use", "[tools][check]") {
  CHECK(audit({"check"}).exit_code == 2);
  CHECK(audit({"check", "-", "--new-only"}).exit_code == 2);
  CHECK(audit({"check", "-", "--format", "svg"}).exit_code == 2);
  CHECK(audit({"explain", "-"}).exit_code == 2);
  CHECK(audit({"diff", "-"}).exit_code == 2);
  CHECK(audit({"check", "-"}, "{}").exit_code == 3);
  CHECK(audit({"check", "-", "--fail-on", "nothing"}).exit_code == 3);
  CHECK(audit({"check", "-", "--budget", "/no/such.json"}).exit_code == 4);
  CHECK(audit({"diff", "-", "/no/such.json"}).exit_code == 4);
  const Ran budget = audit({"check", "-", "--budget", recorded_path("llama")});
  CHECK(budget.exit_code == 3);
  CHECK(budget.err.find("torch_llama.json: /: unknown key ") != std::string::npos);
}

}  // namespace
}  // namespace tessera
