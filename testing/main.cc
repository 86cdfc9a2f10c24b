#define CATCH_CONFIG_RUNNER
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "testing/program.h"

namespace tessera::testing {
namespace {

/// Flight records of worlds that fail go with the program.
class RecordsFolder {
 public:
  RecordsFolder() {
    std::string path = std::filesystem::temp_directory_path() / "tessera_tests_XXXXXX";
    if (::getenv("TESSERA_RECORDER_DIR") != nullptr || ::mkdtemp(path.data()) == nullptr) return;
    path_ = path;
    ::setenv("TESSERA_RECORDER_DIR", path_.c_str(), 1);
  }
  RecordsFolder(const RecordsFolder&) = delete;
  RecordsFolder& operator=(const RecordsFolder&) = delete;
  ~RecordsFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

 private:
  std::string path_;
};

std::vector<std::string>& skipped() {
  static std::vector<std::string> lines;
  return lines;
}

/// The parts of "[a],name\, with a comma,[b]".
std::vector<std::string> alternatives(const std::string& filter) {
  std::vector<std::string> parts(1);
  for (std::size_t at = 0; at < filter.size(); ++at) {
    if (filter[at] == ',') {
      parts.emplace_back();
      continue;
    }
    parts.back() += filter[at];
    if (filter[at] == '\\' && at + 1 < filter.size()) parts.back() += filter[++at];
  }
  return parts;
}

bool matches_any_case(const std::string& filter) {
  Catch::ConfigData data;
  data.testsOrTags = {filter};
  const Catch::Config config(data);
  return !Catch::filterTests(Catch::getAllTestCasesSorted(config), config.testSpec(), config)
              .empty();
}

}  // namespace

void end_case() { throw Catch::TestFailureException{}; }

void skip(const std::string& why) {
  skipped().push_back(Catch::getResultCapture().getCurrentTestName() + ": " + why);
}

int run_tests(int argc, char** argv) {
  const RecordsFolder records;
  Catch::Session session;
  if (const int refused = session.applyCommandLine(argc, argv); refused != 0) return refused;
  for (const std::string& filter : session.configData().testsOrTags) {
    for (const std::string& part : alternatives(filter)) {
      if (matches_any_case(part)) continue;
      std::fprintf(stderr, "no test case matches \"%s\"\n", part.c_str());
      return 2;
    }
  }
  const int failed = session.run();
  for (const std::string& line : skipped()) std::printf("skipped: %s\n", line.c_str());
  return failed;
}

}  // namespace tessera::testing
