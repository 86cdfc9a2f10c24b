#define CATCH_CONFIG_RUNNER
#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "tests/support/program.h"

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

}  // namespace

int run_tests(int argc, char** argv) {
  const RecordsFolder records;
  return Catch::Session().run(argc, argv);
}

}  // namespace tessera::testing
