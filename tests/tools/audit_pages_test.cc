// The reference pages in docs/ops/ and the typed functions in dtensor/front/ are those that the op
// table gives now.
#include <filesystem>

#include "tests/support/paths.h"
#include "tests/tools/program.h"

namespace tessera {
namespace {

using testing::read_whole_file;
using testing::run_program;
using testing::ScratchFolder;

const std::filesystem::path kRoot = testing::test_data("/../..");

std::vector<std::string> files_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// What `ops` writes in a format is what `folder` of the project keeps, but for `other`.
void check_kept(const std::string& format, const std::filesystem::path& folder,
                const std::string& other) {
  const ScratchFolder scratch;
  const std::string made = scratch / "made";
  const auto ran = run_program("placement-audit", {"ops", "--format", format, "--output", made});
  INFO(ran.err);
  REQUIRE(ran.exit_code == 0);
  CHECK(ran.out.empty());
  std::vector<std::string> kept = files_in(folder);
  std::erase(kept, other);
  const std::vector<std::string> names = files_in(made);
  CHECK(names == kept);
  CHECK(names.size() > 10);
  for (const std::string& name : names) {
    INFO(name);
    CHECK((read_whole_file(made + "/" + name) == read_whole_file(folder / name)));
  }
}

TEST_CASE("the op pages are up to date (else run scripts/op_pages)", "[tools][pages]") {
  check_kept("md", kRoot / "docs/ops",
             "verification.md");  // what verify gave, which takes its time
}

TEST_CASE("the typed functions are up to date (else run scripts/op_pages)", "[tools][pages]") {
  check_kept("cpp", kRoot / "dtensor/front", "");
}

TEST_CASE("a typed function has its op's doc, demands, rule and defaults", "[tools][pages]") {
  const auto ran = run_program(
      "placement-audit", {"ops", "topk", "gather", "add_scalar_", "conv2d", "--format", "cpp"});
  REQUIRE(ran.exit_code == 0);
  for (const char* part : {"/// The k largest",
                           "std::pair<DTensor, DTensor> topk(const DTensor& self, std::int64_t k,",
                           "std::int64_t dim = -1,",
                           "DTensor gather(const DTensor& self, std::int64_t dim, const "
                           "DTensor& index,",
                           "DTensor& add_(DTensor& self, double value,", "struct Conv2dOptions {",
                           "  Shape stride = {};", "known_op(\"add_scalar_\")"}) {
    CHECK_THAT(ran.out, Catch::Contains(part));
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

TEST_CASE("cpp is for ops", "[tools][pages]") {
  const auto ran = run_program("placement-audit", {"verify", "relu", "--format", "cpp"});
  CHECK(ran.exit_code == 2);
  CHECK(ran.out.empty());
}

TEST_CASE("md is for ops and verify", "[tools][pages]") {
  const auto ran = run_program("placement-audit", {"layout", "--format", "md"}, "{}");
  CHECK(ran.exit_code == 2);
  CHECK(ran.out.empty());
}

}  // namespace
}  // namespace tessera
