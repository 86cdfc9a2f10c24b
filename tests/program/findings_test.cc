// What the rules of program/findings/ find, in programs small enough to count by hand; and in the
// recorded programs of PyTorch every mistake that was planted there.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <set>

#include "absl/strings/str_format.h"
#include "io/file.h"
#include "program/findings/diff.h"
#include "program/findings/explain_value.h"
#include "program/findings/finding.h"
#include "program/program_json.h"
#include "tests/support/builtin_ops.h"
#include "tests/support/paths.h"

namespace tessera {
namespace {

Program program_of(const std::string& values, const std::string& steps,
                   const std::string& kind = "program") {
  const std::string text = R"({"version":1,"name":"t","source":{"kind":")" + kind +
                           R"("},"ranks":4,"meshes":{"m":{"shape":[4],"axes":["tp"]}},"values":[)" +
                           values + R"(],"steps":[)" + steps + "]}";
  return value_or_throw(read_program(text, "t.json", testing::builtin_ops()));
}
Findings found(const Program& program) {
  return value_or_throw(find_all(program, testing::builtin_ops()));
}
std::vector<Finding> of_rule(const Findings& findings, std::string_view rule) {
  std::vector<Finding> some;
  for (const Finding& each : findings.all) {
    if (each.rule == rule) some.push_back(each);
  }
  return some;
}

/// F32 of [8, 4] on the four ranks: 128 bytes, 32 a piece.
std::string placed(const std::string& name, const std::string& placement,
                   const std::string& more = "") {
  return absl::StrFormat(
      R"({"name":"%s","shape":[8,4],"dtype":"F32","mesh":"m","placements":["%s"]%s})", name,
      placement, more);
}
std::string input(const std::string& name, const std::string& placement) {
  return placed(name, placement, R"(,"role":"input")");
}
std::string move(const std::string& from, const std::string& to, const std::string& out,
                 const std::string& more = "") {
  return absl::StrFormat(R"({"redistribute":"%s","to":["%s"],"out":"%s"%s})", from, to, out, more);
}
std::string relu(const std::string& from, const std::string& out, const std::string& placement,
                 const std::string& more = "") {
  return absl::StrFormat(R"({"op":"relu","args":["%s"],"out":[%s]%s})", from,
                         placed(out, placement), more);
}

TEST_CASE("implicit moves of equal layers are one finding with a fix", "[findings]") {
  std::string steps;
  for (const std::string layer : {"0", "1"}) {
    const std::string module = R"(,"module":"layers.)" + layer + R"(","site":"a.py:7")";
    steps += (steps.empty() ? "" : ",") +
             move("x", "R", "r" + layer, R"(,"implicit":true,"for":"relu.x")" + module) + "," +
             relu("r" + layer, "y" + layer, "R", module) + "," +
             move("y" + layer, "S(0)", "z" + layer);
  }
  const Findings findings = found(program_of(input("x", "S(0)"), steps));
  const std::vector<Finding> moves = of_rule(findings, "implicit-move");
  REQUIRE(moves.size() == 1);
  CHECK(moves[0].module == "layers.*");
  CHECK(moves[0].count == 2);
  CHECK(moves[0].site == "a.py:7");
  CHECK(moves[0].op == "relu");
  CHECK(moves[0].severity == Severity::kWarn);
  CHECK(moves[0].bytes == Volume{192, 768});  // three pieces of 32 bytes to each, twice
  CHECK(moves[0].measure == "192 B a step");
  CHECK(moves[0].cause == "all_gather over tp, 96 B each: relu.x is S(0) and is needed as R");
  CHECK(moves[0].fix.starts_with("run relu by its row S(0) -> S(0) on tp"));
  CHECK(moves[0].saved_bytes == 192);
  CHECK(findings.implicit_bytes == Volume{192, 768});
  CHECK(findings.ratio() == 1);
}

TEST_CASE("a body of a repeat is looked at once and counts as often as it runs", "[findings]") {
  const std::string body = move("x", "R", "r", R"(,"implicit":true,"module":"layers.*")") + "," +
                           relu("r", "y", "R") + R"(,{"host_read":"y","bytes":4,"why":"loss"})";
  const Findings findings = found(
      program_of(input("x", "S(0)"), R"({"repeat":32,"as":"layers.*","steps":[)" + body + "]}"));
  CHECK(of_rule(findings, "implicit-move").at(0).count == 32);
  CHECK(of_rule(findings, "implicit-move").at(0).bytes == Volume{32 * 96, 32 * 384});
  CHECK(of_rule(findings, "host-read").at(0).count == 32);
  CHECK(findings.host_reads == 32);
}

TEST_CASE("an id stays where sizes and counts change", "[findings]") {
  const auto id = [](const std::string& more, const std::string& moves) {
    return of_rule(found(program_of(input("x", "S(0)"),
                                    move("x", "R", "r", R"(,"implicit":true)" + more + moves))),
                   "implicit-move")
        .at(0)
        .id;
  };
  const std::string gather =
      R"(,"moves":[{"collective":"all_gather","axes":["tp"],"ranks":4,"bytes":{"max":1,"total":2}}])";
  const std::string first = id(R"(,"module":"layers.0.a")", "");
  CHECK(first.size() == 16);
  CHECK(id(R"(,"module":"layers.1.a")", gather) == first);
  CHECK(id(R"(,"module":"layers.1.b")", "") != first);
  CHECK(id(R"(,"module":"layers.1.a","site":"a.py:1")", "") != first);
}

TEST_CASE("the search for a fix finds the row that moves 2,000 times less", "[findings]") {
  const auto value = [](const std::string& name, const std::string& shape,
                        const std::string& placement, const std::string& more) {
    return absl::StrFormat(
        R"({"name":"%s","shape":%s,"dtype":"F32","mesh":"m","placements":["%s"]%s})", name, shape,
        placement, more);
  };
  const Findings findings = found(program_of(
      value("a", "[64,4]", "S(1)", R"(,"role":"input")") + "," +
          value("b", "[4,4096]", "S(0)", R"(,"role":"parameter")"),
      R"({"op":"matmul","args":["a","b"],"out":[)" + value("y", "[64,4096]", "P(sum)", "") + "]}," +
          move("y", "R", "y.r", R"(,"implicit":true,"for":"relu.x")") +
          R"(,{"op":"relu","args":["y.r"],"out":[)" + value("z", "[64,4096]", "R", "") + "]}," +
          move("z", "S(1)", "out")));
  const Finding finding = of_rule(findings, "implicit-move").at(0);
  CHECK(finding.bytes.max == 64 * 4096 * 4 * 3 / 4 * 2);  // an all_reduce of 1 MiB
  CHECK(finding.fix == "place b as S(1) on tp, not S(0): a to R (all_gather over tp, 768 B)");
  CHECK(finding.saved_bytes == finding.bytes.max - 768);  // three of four pieces of a
}

TEST_CASE("moves beyond the bound are found", "[findings]") {
  const std::string gathered =
      R"(,"moves":[{"collective":"all_gather","axes":["tp"],"ranks":4,"bytes":{"max":96,"total":384}}])";
  const Findings findings = found(program_of(input("x", "S(0)"), move("x", "S(1)", "y", gathered)));
  const Finding finding = of_rule(findings, "above-bound").at(0);
  // A column of 32 bytes, a quarter of which is there.
  CHECK(finding.fix == "the engine's plan: all_to_all over tp, 24 B");
  CHECK(finding.saved_bytes == 72);
  CHECK(findings.bound == Volume{24, 96});
  CHECK(findings.ratio() == 4);
  CHECK(of_rule(found(program_of(input("x", "S(0)"), move("x", "S(1)", "y"))), "above-bound")
            .empty());
}

TEST_CASE("a gather before a cut is found", "[findings]") {
  const Findings findings =
      found(program_of(input("x", "S(0)"), move("x", "R", "r") + "," + move("r", "S(1)", "y")));
  const Finding finding = of_rule(findings, "gather-then-slice").at(0);
  CHECK(finding.fix == "redistribute x to S(1) at once: all_to_all over tp, 24 B");
  CHECK(finding.saved_bytes == 96 - 24);
  // Somebody else wants what was gathered.
  CHECK(of_rule(found(program_of(input("x", "S(0)"), move("x", "R", "r") + "," +
                                                         move("r", "S(1)", "y") + "," +
                                                         relu("r", "z", "R"))),
                "gather-then-slice")
            .empty());
}

TEST_CASE("a value that is moved twice is found, unless it was written between", "[findings]") {
  const std::string twice =
      move("x", "R", "a", R"(,"site":"a.py:1")") + "," + move("x", "R", "b", R"(,"site":"a.py:2")");
  const Finding finding =
      of_rule(found(program_of(input("x", "S(0)"), twice)), "repeated-move").at(0);
  CHECK(finding.site == "a.py:2");
  CHECK(finding.cause == "x was moved to R before at a.py:1: all_gather over tp, 96 B again");
  CHECK(finding.fix == "use a");
  CHECK(finding.saved_bytes == 96);
  const std::string written =
      move("x", "R", "a") + R"(,{"op":"relu_","args":["x"],"out":[]},)" + move("x", "R", "b");
  CHECK(of_rule(found(program_of(input("x", "S(0)"), written)), "repeated-move").empty());
  const std::string later = move("x", "R", "a", R"(,"phase":"forward")") + "," +
                            move("x", "R", "b", R"(,"phase":"backward")");
  CHECK(of_rule(found(program_of(input("x", "S(0)"), later)), "repeated-move").at(0).severity ==
        Severity::kNote);
}

TEST_CASE("an all_reduce whose result is cut is a reduce_scatter", "[findings]") {
  const Findings findings =
      found(program_of(input("x", "P(sum)"), move("x", "R", "r") + "," + move("r", "S(0)", "y")));
  const Finding finding = of_rule(findings, "all-reduce-splits").at(0);
  CHECK(finding.bytes.max == 192);  // 2 · 3/4 of 128
  CHECK(finding.fix == "redistribute to S(0): reduce_scatter over tp, 96 B");
  CHECK(finding.saved_bytes == 96);
  const Finding note =
      of_rule(
          found(program_of(input("x", "P(sum)"), move("x", "R", "r") + "," + relu("r", "y", "R"))),
          "all-reduce-splits")
          .at(0);
  CHECK(note.severity == Severity::kNote);
  CHECK(note.fix.starts_with("reduce_scatter to S(0), relu on the pieces, all_gather behind it"));
}

TEST_CASE("small messages that do not wait for one another are found", "[findings]") {
  const std::string values =
      input("x", "P(sum)") + "," + input("y", "P(sum)") + "," + input("z", "P(sum)");
  const Finding finding =
      of_rule(found(program_of(values, move("x", "R", "a") + "," + move("y", "R", "b") + "," +
                                           move("z", "R", "c"))),
              "small-messages")
          .at(0);
  CHECK(finding.measure == "3 calls");
  CHECK(finding.bytes.max == 3 * 192);
  // The second waits for the first.
  CHECK(
      of_rule(found(program_of(values, move("x", "R", "a") + "," + relu("a", "a2", "R") + "," +
                                           move("a2", "S(0)", "a3") + "," + move("a3", "R", "a4") +
                                           "," + move("a4", "S(0)", "a5"))),
              "small-messages")
          .empty());
}

TEST_CASE("products that all ranks compute alike are found with their share", "[findings]") {
  const auto square = [](const std::string& name, const std::string& placement,
                         const std::string& more) {
    return absl::StrFormat(
        R"({"name":"%s","shape":[8,8],"dtype":"F32","mesh":"m","placements":["%s"]%s})", name,
        placement, more);
  };
  const std::string values = square("x", "R", R"(,"role":"input")") + "," +
                             square("w", "R", R"(,"role":"parameter")") + "," +
                             square("v", "S(1)", R"(,"role":"parameter")");
  const auto step = [](const std::string& weight, const std::string& out) {
    return R"({"op":"mm","args":["x",")" + weight + R"("],"out":[)" + out + "]}";
  };
  const Findings findings = found(program_of(
      values, step("w", square("y", "R", "")) + "," + step("v", square("z", "S(1)", ""))));
  const std::vector<Finding> alike = of_rule(findings, "replicated-work");
  REQUIRE(alike.size() == 1);
  CHECK(alike[0].axes == std::vector<std::string>{"tp"});
  // One whole product and a quarter of one; of the whole three quarters are done elsewhere, too.
  CHECK(alike[0].measure == "60.0 % of a rank's products");
}

TEST_CASE("uneven cuts are found with what they lose", "[findings]") {
  const std::string five =
      R"j({"name":"x","shape":[5,4],"dtype":"F32","mesh":"m","placements":["S(0)"],"role":"input"})j";
  const Findings findings = found(program_of(
      five,
      R"j({"op":"relu","args":["x"],"out":[{"name":"y","shape":[5,4],"dtype":"F32","mesh":"m","placements":["S(0)"]}]})j"));
  const std::vector<Finding> uneven = of_rule(findings, "uneven-cut");
  REQUIRE(uneven.size() == 1);  // y is uneven because x is
  CHECK(uneven[0].value == "x");
  CHECK(uneven[0].measure == "37.5 % idle");  // 5 of 4 · 2
  CHECK(uneven[0].fix == "pad it to 8, or cut another dim");
  CHECK(
      of_rule(found(program_of(input("x", "S(0)"), relu("x", "y", "S(0)"))), "uneven-cut").empty());
}

TEST_CASE("gradients that ranks do not agree on are found", "[findings]") {
  const std::string parameter = placed("w", "R", R"(,"role":"parameter","module":"mlp")");
  const std::string local =
      R"({"name":"g","shape":[8,4],"dtype":"F32","mesh":null,"placements":null,"role":"input","varies":["tp"]})";
  const std::string declared = R"({"region":"from_local","args":["g"],"out":[)" +
                               placed("grad.w", "R") + R"(],"phase":"backward","site":"a.py:9"})";
  const Finding finding =
      of_rule(found(program_of(parameter + "," + local, declared, "torch")), "lacks-reduction")
          .at(0);
  CHECK(finding.severity == Severity::kFail);
  CHECK(finding.site == "a.py:9");
  CHECK(finding.axes == std::vector<std::string>{"tp"});
  CHECK(finding.fix == "declare it P(sum) on tp, as Partial(), or all_reduce it there");
  const std::string summands =
      R"({"op":"add_","args":["w","s"],"out":[],"phase":"optimizer","site":"a.py:12"})";
  CHECK(of_rule(found(program_of(parameter + "," + input("s", "P(sum)"), summands)),
                "lacks-reduction")
            .at(0)
            .cause == "add_ updates w by s, which is P(sum): summands, not their sum");
  const std::string free =
      R"({"op":"relu","args":["w"],"out":[{"name":"grad.w","shape":[8,4],"dtype":"F32","mesh":"m","placements":null}]})";
  CHECK(of_rule(found(program_of(parameter, free)), "missing-gradient-placement").at(0).fix ==
        "constrain it to R");
}

TEST_CASE("explain follows a placement to where it was chosen", "[findings][explain]") {
  const Program program =
      program_of(input("x", "S(0)") + "," + placed("w", "S(0)", R"(,"role":"parameter")"),
                 R"({"op":"mul","args":["x","w"],"out":[)" + placed("y", "S(0)") + "]}," +
                     move("y", "R", "r", R"(,"implicit":true,"for":"relu.x")") + "," +
                     relu("r", "z", "R") + "," + move("z", "S(0)", "out"));
  const CauseChain chain = value_or_throw(explain_value(program, testing::builtin_ops(), "z"));
  std::vector<std::string> path;
  for (const Cause& cause : chain.causes) path.push_back(cause.value + " " + cause.placements);
  CHECK(path == std::vector<std::string>{"z R", "r R", "y S(0)", "x S(0)"});
  CHECK(chain.causes[1].implicit);
  CHECK(chain.causes[1].saved_bytes == 96);
  CHECK(chain.causes[3].kind == Cause::Kind::kDeclared);
  CHECK(value_or_throw(explain_value(program, testing::builtin_ops(), "relu")).value == "z");
  CHECK(value_or_throw(explain_value(program, testing::builtin_ops(), "y")).moved_on.size() == 1);
  CHECK(message_of(explain_value(program, testing::builtin_ops(), "zz").status()) ==
        "no value or op \"zz\"; the nearest names are \"z\", \"r\", \"w\"");
}

TEST_CASE("diff says what is new, gone, larger and smaller", "[findings][diff]") {
  const std::string module = R"(,"module":"layers.0")";
  const Program before = program_of(input("x", "S(0)") + "," + input("p", "P(sum)"),
                                    move("x", "R", "a", module) + "," + move("p", "S(0)", "q"));
  const Program after = program_of(input("x", "S(0)") + "," + input("p", "P(sum)"),
                                   move("x", "R", "a", module) + "," + move("x", "R", "b", module) +
                                       "," + move("x", "S(1)", "c"));
  const ProgramDiff diff = value_or_throw(diff_programs(before, after, testing::builtin_ops()));
  std::map<std::string, std::string> kinds;
  for (const MoveChange& change : diff.moves) {
    kinds[change.module + " " + change.collective] = name_of(change.kind);
  }
  CHECK(kinds == std::map<std::string, std::string>{{"layers.* all_gather", "larger"},
                                                    {" reduce_scatter", "gone"},
                                                    {" all_to_all", "new"}});
  CHECK(diff.bytes_before.max == 96 + 96);
  CHECK(diff.bytes_after.max == 2 * 96 + 24);
  CHECK(diff.new_findings.size() == 1);  // x is moved to R twice
  CHECK(value_or_throw(diff_programs(before, before, testing::builtin_ops())).empty());
}

Program recorded_program(const std::string& name) {
  const std::string path = testing::test_data("/programs/torch_" + name + ".json");
  return value_or_throw(read_program(value_or_throw(read_file(path, kMaxProgramTextBytes)), name,
                                     testing::builtin_ops()));
}

TEST_CASE("every wrong row of PyTorch's is named with its line and a fix", "[findings][recorded]") {
  const Findings findings = found(recorded_program("wrong_rows"));
  std::set<std::string> lines;
  for (const Finding& finding : of_rule(findings, "unsound-source")) {
    CAPTURE(finding.site);
    CHECK_FALSE(finding.fix.empty());
    lines.insert(finding.site);
  }
  std::set<std::string> expected;  // lines of python/tests/models/wrong_rows.py
  for (const int line : {33, 34, 43, 45, 46, 47, 48, 50, 51, 52, 53, 57, 59, 61, 65, 67, 68, 69}) {
    expected.insert(absl::StrFormat("wrong_rows.py:%d", line));
  }
  CHECK(lines == expected);
}

TEST_CASE("wrong rows of older releases of PyTorch's are named, and what is right in 2.15 is not",
          "[findings]") {
  const auto rows_of = [](const std::string& placement, const std::string& step) {
    std::vector<std::string> rows;
    for (const Finding& finding :
         of_rule(found(program_of(input("x", placement),
                                  R"({"op":)" + step + R"(,"site":"a.py:3"})", "torch")),
                 "unsound-source")) {
      CHECK(finding.site == "a.py:3");
      CHECK(finding.severity == Severity::kFail);
      CHECK(finding.fix.find("redistribute to R") == 0);
      rows.push_back(finding.op);
    }
    return rows;
  };
  const auto max_dim = [](int dim, const std::string& placement) {
    const std::string shape = dim == 0 ? "[4]" : "[8]";
    return absl::StrFormat(
        R"("max_dim","args":["x"],"attrs":{"dim":%d},"from":"aten.max.dim","out":[)"
        R"({"name":"v","shape":%s,"dtype":"F32","mesh":"m","placements":["%s"]},)"
        R"({"name":"i","shape":%s,"dtype":"I64","mesh":"m","placements":["%s"]}])",
        dim, shape, placement, shape, placement);
  };
  const std::vector<std::string> max_indices = {"max_dim (max-indices)"};
  CHECK(rows_of("S(0)", max_dim(0, "P(max)")) == max_indices);
  CHECK(rows_of("R", max_dim(0, "R")).empty());
  CHECK(rows_of("S(0)", max_dim(1, "S(0)")).empty());  // each row is whole
  const std::string clamp =
      R"("clamp_","args":["x"],"attrs":{"min":0,"max":1},"from":"aten.clamp_.default","out":[])";
  const std::vector<std::string> clamp_of_sum = {"clamp_ (clamp-of-sum)"};
  CHECK(rows_of("P(sum)", clamp) == clamp_of_sum);
  CHECK(rows_of("P(max)", clamp).empty());  // the largest, clamped, is the largest of those clamped
  CHECK(rows_of("S(0)", clamp).empty());
}

TEST_CASE("what was planted in PyTorch programs is found where it is", "[findings][recorded]") {
  const Findings gather = found(recorded_program("implicit_gather"));
  const std::vector<Finding> moves = of_rule(gather, "implicit-move");
  REQUIRE(moves.size() == 2);
  for (const Finding& finding : moves) {
    CHECK(finding.site == "planted.py:25");  // both.chunk(2), there and back
    CHECK(finding.bytes.max == 3072);
    CHECK_FALSE(finding.fix.empty());
  }
  std::map<std::string, std::string> lacking;
  for (const Finding& finding : of_rule(found(recorded_program("router")), "lacks-reduction")) {
    lacking[finding.value + " " + finding.axes.at(0)] = finding.site;
  }
  CHECK(lacking == std::map<std::string, std::string>{{"grad.gate.weight tp", "planted.py:48"},
                                                      {"grad.experts tp", "planted.py:49"},
                                                      {"grad.experts dp", "planted.py:49"}});
  std::map<std::string, std::int64_t> summed;
  for (const Finding& finding : of_rule(found(recorded_program("decoder")), "all-reduce-splits")) {
    CHECK(finding.bytes.max == 1572864);  // of 1 MiB three quarters, there and back
    summed[finding.site] = finding.saved_bytes.value_or(-1);
  }
  CHECK(summed ==
        std::map<std::string, std::int64_t>{{"decoder.py:24", 786432}, {"decoder.py:34", 786432}});
  CHECK(of_rule(found(recorded_program("regions")), "lacks-reduction").at(0).site ==
        "planted.py:71");
}

TEST_CASE("sound programs have no finding that fails", "[findings][recorded]") {
  for (const char* const name : {"llama", "llama_stages", "deepseek", "decoder_mended"}) {
    CAPTURE(name);
    const Findings findings = found(recorded_program(name));
    CHECK(std::none_of(findings.all.begin(), findings.all.end(),
                       [](const Finding& each) { return each.severity == Severity::kFail; }));
    CHECK(findings.implicit_bytes == Volume{0, 0});
    CHECK(of_rule(findings, "replicated-work").empty());
  }
}

TEST_CASE("changed programs are searched, explained and compared without a crash",
          "[findings][recorded]") {
  std::mt19937 random(1);
  const auto below = [&](std::size_t count) { return random() % count; };
  int accepted = 0;
  for (const char* const name : {"implicit_gather", "router", "wrong_rows"}) {
    const std::string path = testing::test_data("/programs/torch_" + std::string(name) + ".json");
    const std::string sample = value_or_throw(read_file(path, kMaxProgramTextBytes));
    const Program before = recorded_program(name);
    for (int round = 0; round < 150; ++round) {
      std::string text = sample;
      for (std::size_t change = 0; change < 1 + below(2); ++change) {
        const std::size_t at = below(text.size());
        if (below(2) == 0) {
          // Digits, letters of placements and of dtypes: what leaves a program a program.
          for (std::size_t i = at; i < text.size(); ++i) {
            if (text[i] < '0' || text[i] > '9') continue;
            text[i] = static_cast<char>('0' + below(10));
            break;
          }
        } else if (const std::size_t placement = text.find("\"S(0)\"", at);
                   placement != std::string::npos) {
          const char* const others[] = {"\"R\"", "\"S(1)\"", "\"P(sum)\"", "\"P(max)\""};
          text.replace(placement, 6, others[below(4)]);
        }
      }
      const StatusOr<Program> program = read_program(text, "t.json", testing::builtin_ops());
      if (!program.ok()) continue;
      ++accepted;
      const StatusOr<Findings> findings = find_all(*program, testing::builtin_ops());
      if (!findings.ok()) continue;
      for (const Finding& finding : findings->all) {
        REQUIRE(finding.count >= 1);
        REQUIRE(finding.saved_bytes.value_or(0) >= 0);
        REQUIRE(find_rule(finding.rule) != nullptr);
      }
      REQUIRE(diff_programs(before, *program, testing::builtin_ops()).ok());
      if (!findings->all.empty() && !findings->all[0].value.empty()) {
        REQUIRE(explain_value(*program, testing::builtin_ops(), findings->all[0].value).ok());
      }
    }
  }
  CHECK(accepted > 150);
}

TEST_CASE("each rule has a section of its own", "[findings][docs]") {
  const std::string page =
      value_or_throw(read_file(testing::test_data("/../../docs/findings.md"), 1 << 20));
  std::set<std::string_view> names;
  for (const FindingRule& rule : finding_rules()) {
    CAPTURE(rule.name);
    CHECK(names.insert(rule.name).second);
    CHECK(page.find("\n## " + std::string(rule.name) + "\n") != std::string::npos);
    const std::string example = testing::test_data("/findings/" + std::string(rule.name) + ".json");
    CHECK(read_file(example, 1 << 20).ok());
  }
}

}  // namespace
}  // namespace tessera
