#include "io/json.h"
#include "tests/tools/program.h"

namespace tessera {
namespace {

using testing::Ran;
using testing::run_program;

Ran audit(const std::vector<std::string>& arguments, const std::string& input = "") {
  return run_program("placement-audit", arguments, input);
}

Json parsed(const Ran& ran) {
  INFO(ran.err);
  REQUIRE(ran.exit_code == 0);
  CHECK(ran.err.empty());
  return *parse_json(ran.out, "stdout");
}

std::string text_of(const Json& json, std::string_view key) {
  const Json* value = json.find(key);
  REQUIRE(value != nullptr);
  return value->to_string();
}

TEST_CASE("ops prints an op's rule as its author wrote it", "[tools][ops]") {
  const Json json = parsed(audit({"ops", "matmul"}));
  const Json::Array& ops = *json.find("ops")->if_array();
  REQUIRE(ops.size() == 1);
  CHECK(text_of(ops[0], "name") == "\"matmul\"");
  CHECK(text_of(ops[0], "rule") == "\"...mk, ...kn -> ...mn | k:sum | lin A*B\"");
  CHECK(text_of(ops[0], "differentiable") == "true");
  CHECK(text_of(ops[0], "in_place") == "false");
  CHECK(ops[0].find("args")->if_array()->size() == 2);
}

TEST_CASE("ops says where an op runs", "[tools][ops]") {
  const Json json = parsed(audit({"ops", "matmul", "grouped_mm", "multinomial"}));
  const Json::Array& ops = *json.find("ops")->if_array();
  REQUIRE(ops.size() == 3);
  CHECK(text_of(ops[0], "devices") == "\"cpu, cuda, emulated\"");
  CHECK(text_of(ops[1], "devices") ==
        "\"cpu, cuda, emulated; where rows or weights are cut cpu only: reads counts\"");
  CHECK(text_of(ops[2], "devices") == "\"cpu only: reads self\"");
}

TEST_CASE("ops without a name lists every op, by name", "[tools][ops]") {
  const Ran ran = audit({"ops"});
  const Json json = parsed(ran);
  std::vector<std::string> names;
  for (const Json& op : *json.find("ops")->if_array()) {
    names.push_back(*op.find("name")->if_string());
    CHECK_FALSE(op.find("doc")->if_string()->empty());
  }
  CHECK(names.size() > 50);
  CHECK(std::is_sorted(names.begin(), names.end()));
  for (const char* name : {"matmul", "scatter_", "topk", "embedding", "cross_entropy"}) {
    CHECK(std::count(names.begin(), names.end(), name) == 1);
  }
  CHECK(audit({"ops"}).out == ran.out);
  CHECK_THAT(audit({"ops", "--format", "text", "matmul"}).out,
             Catch::StartsWith("matmul(self, other)\n"));
}

TEST_CASE("an unknown op is one line and exit code 3", "[tools][ops]") {
  for (const std::string command : {"ops", "verify"}) {
    const Ran ran = audit({command, "matmull"});
    CHECK(ran.exit_code == 3);
    CHECK(ran.out.empty());
    CHECK_THAT(ran.err, Catch::Contains("matmull") && Catch::Contains("matmul"));
    CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
  }
}

std::string matmul_on_tp(const std::string& a, const std::string& b) {
  return R"j({"mesh":{"shape":[2],"axes":["tp"]},"op":"matmul","args":[)j"
         R"j({"tensor":{"shape":[8,6]},"placements":[")j" +
         a + R"j("]},{"tensor":{"shape":[6,4]},"placements":[")j" + b + R"j("]}]})j";
}

TEST_CASE("propagate keeps operands that already fit a row", "[tools][propagate]") {
  const std::string output = R"j([{"tensor":{"shape":[8,4],"dtype":"F32"},"placements":[")j";
  const std::tuple<std::string, std::string, std::string> rows[] = {
      {"S(1)", "S(0)", "P(sum)"}, {"S(0)", "R", "S(0)"},    {"R", "S(1)", "S(1)"}, {"R", "R", "R"},
      {"P(sum)", "R", "P(sum)"},  {"R", "P(sum)", "P(sum)"}};
  for (const auto& [a, b, out] : rows) {
    CAPTURE(a, b);
    const Json json = parsed(audit({"propagate"}, matmul_on_tp(a, b)));
    CHECK(text_of(json, "outputs") == output + out + "\"]}]");
    CHECK(text_of(json, "inputs") == R"j([{"placements":[")j" + a +
                                         R"j("],"bytes":0},{"placements":[")j" + b +
                                         R"j("],"bytes":0}])j");
    CHECK(text_of(json, "rows") == "[\"" + a + ", " + b + " -> " + out + "\"]");
  }
}

TEST_CASE("propagate moves the operand that is cheaper to move", "[tools][propagate]") {
  // Both on rows: the smaller operand (24 elements, half of them missing on each of 2 ranks) is
  // gathered.
  const Json json = parsed(audit({"propagate"}, matmul_on_tp("S(0)", "S(0)")));
  CHECK(text_of(json, "inputs") ==
        R"j([{"placements":["S(0)"],"bytes":0},{"placements":["R"],"bytes":96}])j");
  CHECK(json.find("runner_up")->find("why") != nullptr);
  CHECK_THAT(audit({"propagate", "--format", "text"}, matmul_on_tp("S(0)", "S(0)")).out,
             Catch::Contains("moves to") && Catch::Contains("96 bytes"));
}

TEST_CASE("propagate takes the row that is asked for, and says so", "[tools][propagate]") {
  const auto forced = [](const std::string& row) {
    std::string call = matmul_on_tp("S(0)", "R");
    return call.insert(call.size() - 1, R"j(,"force":[{"row":")j" + row + R"j(","axis":"tp"}])j");
  };
  CHECK(text_of(parsed(audit({"propagate"}, matmul_on_tp("S(0)", "R"))), "bytes") == "0");
  for (const std::string row : {"k:sum", "S(1), S(0) -> P(sum)"}) {
    const Json json = parsed(audit({"propagate"}, forced(row)));
    CHECK(text_of(json, "rows") == R"j(["S(1), S(0) -> P(sum)"])j");
    CHECK(text_of(json, "bytes") != "0");
    CHECK(text_of(json, "why") == "\"tp: k:sum; " + row + R"j( on tp as \"force\" asks")j");
  }
}

TEST_CASE("propagate reads attributes, numbers and lists", "[tools][propagate]") {
  const Json topk = parsed(audit(
      {"propagate"},
      R"j({"mesh":{"shape":[2]},"op":"topk","args":[{"tensor":{"shape":[8,6]},"placements":["S(0)"]}],)j"
      R"j("attrs":{"k":2,"dim":-1}})j"));
  CHECK(text_of(topk, "outputs") ==
        R"j([{"tensor":{"shape":[8,2],"dtype":"F32"},"placements":["S(0)"]},)j"
        R"j({"tensor":{"shape":[8,2],"dtype":"I64"},"placements":["S(0)"]}])j");
  const Json cat = parsed(audit(
      {"propagate"},
      R"j({"mesh":{"shape":[2]},"op":"cat","args":[[{"tensor":{"shape":[8,6]},"placements":["S(0)"]},)j"
      R"j({"tensor":{"shape":[8,2]},"placements":["S(0)"]}]],"attrs":{"dim":1}})j"));
  CHECK(text_of(cat, "outputs") ==
        R"j([{"tensor":{"shape":[8,8],"dtype":"F32"},"placements":["S(0)"]}])j");
  const Json add = parsed(audit(
      {"propagate"},
      R"j({"mesh":{"shape":[2]},"op":"mul","args":[{"tensor":{"shape":[8]},"placements":["P(sum)"]},2.5]})j"));
  CHECK(text_of(add, "outputs") ==
        R"j([{"tensor":{"shape":[8],"dtype":"F32"},"placements":["P(sum)"]}])j");
}

TEST_CASE("a call that cannot be is refused with its place", "[tools][propagate]") {
  const std::string head = R"j({"mesh":{"shape":[2]},"op":"topk",)j";
  const std::string arg = R"j("args":[{"tensor":{"shape":[8,6]},"placements":["S(0)"]}])j";
  const std::pair<std::string, std::string> cases[] = {
      {R"j({"mesh":{"shape":[2]},"op":"nope","args":[]})j", "standard input: /op: "},
      {head + R"j("args":[]})j", "standard input: /args: 0 operands for topk, which takes (self)"},
      {head + arg + R"j(,"attrs":{"kk":2}})j",
       "standard input: /attrs: topk has no attribute \"kk\"; allowed: k, dim, largest, sorted"},
      {head + arg + R"j(,"attrs":{"k":2.5}})j",
       "standard input: /attrs/k: expected an integer, not 2.5"},
      {head + arg + "}", "standard input: /: "},
      {head + R"j("args":[{"tensor":{"shape":[8,6]},"placements":["S(3)"]}],"attrs":{"k":2}})j",
       "standard input: /args/0/placements: "},
      {R"j({"mesh":{"shape":[2]},"op":"matmul","args":[{"tensor":{"shape":[8,6]},"placements":["R"]},)j"
       R"j({"tensor":{"shape":[5,4]},"placements":["R"]}]})j",
       "standard input: /: "},
      {head + arg + R"j(,"attrs":{"k":2},"kwargs":{}})j",
       "standard input: /: unknown key \"kwargs\"; allowed: mesh, op, args, attrs, force"},
      {head + arg + R"j(,"attrs":{"k":2},"force":[{"row":"k","axis":"tp"}]})j",
       "standard input: /force/0/axis: \"tp\" is no axis of the mesh; it has "},
      {head + arg + R"j(,"attrs":{"k":2},"force":[{"axis":"tp"}]})j", "standard input: /force/0: "},
      {head + arg + R"j(,"attrs":{"k":2},"force":[{"row":"nope"}]})j",
       "standard input: /: topk: with these operands it has no row 'nope', which \"force\" asks "
       "for; "
       "its rows are: "},
  };
  for (const auto& [input, start] : cases) {
    CAPTURE(input);
    const Ran ran = audit({"propagate"}, input);
    CHECK(ran.exit_code == 3);
    CHECK(ran.out.empty());
    CHECK_THAT(ran.err, Catch::StartsWith("placement-audit: " + start));
    CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
  }
}

TEST_CASE("verify proves rows and counts them", "[tools][verify]") {
  const Json json = parsed(audit({"verify", "matmul", "softmax", "--mesh", "2,2x2"}));
  CHECK(text_of(json, "rows_failed") == "0");
  CHECK(text_of(json, "failures") == "[]");
  const Json::Array& ops = *json.find("ops")->if_array();
  REQUIRE(ops.size() == 2);
  std::int64_t proven = 0;
  for (const Json& op : ops) {
    CHECK(*op.find("rows_proven")->if_integer() > 0);
    proven += *op.find("rows_proven")->if_integer();
  }
  CHECK(*json.find("rows_proven")->if_integer() == proven);
}

TEST_CASE("verify refuses meshes that are none", "[tools][verify]") {
  for (const std::string mesh :
       {"0", "2x", "x2", "2x-1", "65", "8x9", "a", "99999999999999999999"}) {
    CAPTURE(mesh);
    const Ran ran = audit({"verify", "matmul", "--mesh=" + mesh});
    CHECK((ran.exit_code == 2 || ran.exit_code == 3));
    CHECK(ran.out.empty());
    CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
  }
}

}  // namespace
}  // namespace tessera
