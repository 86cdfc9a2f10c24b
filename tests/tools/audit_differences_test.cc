// Programs whose answers once differed from another system's: each gives the right answer now, or
// the refusal that was decided, on every number of ranks that its operands can be cut over.
#include <algorithm>
#include <fstream>

#include "io/json.h"
#include "tests/support/paths.h"
#include "tests/tools/program.h"

namespace tessera {
namespace {

struct Program {
  std::string cause;
  std::string refusal;            ///< "" where every number of ranks gives the right answer
  std::int64_t refused_from = 0;  ///< so many ranks
  std::vector<std::int64_t> ranks;
  Json expect, document;

  bool refused_on(std::int64_t size) const { return !refusal.empty() && size >= refused_from; }
  std::string on(std::int64_t size) const {
    Json cut = document;
    cut.set("mesh", Json::object({{"shape", Json(Json::Array{Json(size)})}}));
    if (!refused_on(size)) cut.set("expect", expect);
    return cut.to_string();
  }
};

Program program_of(const std::string& line) {
  const JsonDocument json = *JsonDocument::parse(line, "differences.jsonl");
  const JsonView view = json.root();
  Program program{.cause = *view.find("cause")->text(),
                  .ranks = *view.find("ranks")->integers(),
                  .document = view.find("document")->to_json()};
  if (const auto refusal = view.find("refusal")) {
    program.refusal = *refusal->text();
    program.refused_from = *view.find("refused_from")->integer();
  }
  if (const auto expect = view.find("expect")) program.expect = expect->to_json();
  return program;
}

std::vector<Program> all_programs() {
  std::ifstream file(testing::test_data("/differences.jsonl"));
  std::vector<Program> programs;
  for (std::string line; std::getline(file, line);) programs.push_back(program_of(line));
  return programs;
}

TEST_CASE("programs that another system answered otherwise give the right answer or a refusal",
          "[tools][run][differences]") {
  const std::vector<Program> programs = all_programs();
  CHECK(programs.size() >= 51);
  for (const Program& program : programs) {
    for (const std::int64_t size : program.ranks) {
      const std::string document = program.on(size);
      CAPTURE(program.cause, document);
      const testing::Ran ran = testing::run_program("placement-audit", {"run"}, document);
      if (!program.refused_on(size)) {
        CHECK(ran.err == "");
        CHECK(ran.out.find(R"("failures":[])") != std::string::npos);
        CHECK(ran.exit_code == 0);
        continue;
      }
      CHECK(ran.exit_code == 3);
      CHECK(ran.err.find(program.refusal) != std::string::npos);
      CHECK(std::count(ran.err.begin(), ran.err.end(), '\n') == 1);
    }
  }
}

}  // namespace
}  // namespace tessera
