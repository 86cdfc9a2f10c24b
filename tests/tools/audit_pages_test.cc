// The reference pages in docs/ops/ are those that the op table gives now.
#include <filesystem>

#include "tests/support/paths.h"
#include "tests/tools/program.h"

namespace tessera {
namespace {

using testing::read_whole_file;
using testing::run_program;
using testing::ScratchFolder;

const std::filesystem::path kPages = testing::test_data("/../../docs/ops");

std::vector<std::string> pages_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST_CASE("the op pages are up to date (else run scripts/op_pages)", "[tools][pages]") {
  const ScratchFolder scratch;
  const std::string made = scratch / "pages";
  const auto ran = run_program("placement-audit", {"ops", "--format", "md", "--output", made});
  INFO(ran.err);
  REQUIRE(ran.exit_code == 0);
  CHECK(ran.out.empty());
  std::vector<std::string> kept = pages_in(kPages);
  std::erase(kept, "verification.md");  // what verify gave, which takes its time
  const std::vector<std::string> names = pages_in(made);
  CHECK(names == kept);
  CHECK(names.size() > 10);
  for (const std::string& name : names) {
    INFO(name);
    CHECK((read_whole_file(made + "/" + name) == read_whole_file(kPages / name)));
  }
}

TEST_CASE("a page has the rule, its rows and the reasons of an op", "[tools][pages]") {
  const auto ran = run_program("placement-audit", {"ops", "matmul", "--format", "md"});
  REQUIRE(ran.exit_code == 0);
  for (const char* part :
       {"## matmul", "`matmul(self, other)` · gradient", "Rule `...mk, ...kn -> ...mn | k:sum",
        "S(0), R -> S(0)", "R, S(1) -> S(1)", "S(1), S(0) -> P(sum)", "P(avg), R -> P(avg)"}) {
    CHECK_THAT(ran.out, Catch::Contains(part));
  }
  CHECK(run_program("placement-audit", {"ops", "matmul", "--format", "md"}).out == ran.out);
}

TEST_CASE("an op whose rows no rule expresses has them spelled out, too", "[tools][pages]") {
  const auto ran = run_program("placement-audit", {"ops", "permute", "--format", "md"});
  REQUIRE(ran.exit_code == 0);
  CHECK_THAT(ran.out, Catch::Contains("Rows by a function of its own.") &&
                          Catch::Contains("P(sum) -> P(sum)"));
}

TEST_CASE("md is for ops and verify", "[tools][pages]") {
  const auto ran = run_program("placement-audit", {"layout", "--format", "md"}, "{}");
  CHECK(ran.exit_code == 2);
  CHECK(ran.out.empty());
}

}  // namespace
}  // namespace tessera
