// Saves onto a disk that has no room for them, and of files larger than the process may write: all
// ranks hear of it, and the checkpoint before is as it was.
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <set>

#include "io/exit_code.h"
#include "testing/program.h"
#include "tests/checkpoint/state.h"
#include "tests/support/small_disk.h"

namespace tessera::testing {
namespace {

constexpr int kRanks = 3;
constexpr std::int64_t kElements = 80'000;  // 640 kB in F64: one state fits into 1 MB, two do not

std::vector<StateTensor> large_state(Runtime& runtime, double value) {
  const Mesh mesh = value_or_throw(Mesh::make({{kRanks}}));
  const Spec spec =
      value_or_throw(Spec::make(mesh, {kElements}, DType::kF64, Placements{Shard{0}}));
  return {{"large", full(runtime, spec, value)}};
}

/// What each rank was told by a save of a state of `value`s.
std::vector<std::string> save_large(FileSystem& files, double value) {
  std::mutex mutex;
  std::vector<std::string> told;
  throw_if_error(run_ranks(kRanks, {}, [&](World& world) {
    Runtime runtime(world);
    std::string text = "saved";
    try {
      save_checkpoint(world, files, large_state(runtime, value), Json::object({}));
    } catch (const Error& error) {
      const bool is_io = exit_code_for(error.status()) == ExitCode::kInputOutput;
      text = (is_io ? "exit code 4: " : "another exit code: ") + std::string(error.what());
    }
    const std::lock_guard lock(mutex);
    told.push_back(text);
  }));
  return told;
}

/// The values that every rank loads.
std::set<double> load_large(FileSystem& files) {
  std::mutex mutex;
  std::set<double> values;
  throw_if_error(run_ranks(kRanks, {}, [&](World& world) {
    Runtime runtime(world);
    const std::vector<StateTensor> state = large_state(runtime, -1.0);
    load_checkpoint(world, files, state);
    const std::vector<double> local = state[0].tensor.local().to_vector();
    const std::lock_guard lock(mutex);
    values.insert(local.begin(), local.end());
  }));
  return values;
}

std::set<std::string> names_in(const std::string& path) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    names.insert(entry.path().lexically_relative(path).string());
  }
  return names;
}

const std::set<std::string> kOneState = {".lock",
                                         "manifest.json",
                                         "gen-1",
                                         "gen-1/shard-0.safetensors",
                                         "gen-1/shard-1.safetensors",
                                         "gen-1/shard-2.safetensors"};

/// All ranks were told the same, which ends in `reason`; what is there is the first state alone.
void check_refused(const std::vector<std::string>& told, const std::string& reason,
                   const std::string& path) {
  REQUIRE(told.size() == kRanks);
  CHECK(std::set<std::string>(told.begin(), told.end()).size() == 1);
  CHECK_THAT(told[0], Catch::StartsWith("exit code 4: rank ") && Catch::Contains("/gen-2/shard-") &&
                          Catch::EndsWith(".safetensors: cannot write: " + reason));
  CHECK(names_in(path) == kOneState);
}

/// The process may write files of at most so many bytes, and lives to hear of it.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit lowered = {bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &lowered);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_ = {};
  void (*handler_)(int);
};

}  // namespace

TEST_CASE("a save onto a full disk fails on all ranks and leaves the old state alone",
          "[checkpoint][R26]") {
  const SmallDisk disk;
  if (!disk.why_not().empty()) {
    skip("the limit of a file's size shows the same: " + disk.why_not());
    return;
  }
  const std::string path = disk / "ckpt";
  const auto files = value_or_throw(open_folder(path, MissingFolder::kMake));
  CHECK(save_large(*files, 1.0) == std::vector<std::string>(kRanks, "saved"));
  const std::size_t free_bytes = disk.free_bytes();
  REQUIRE(free_bytes < sizeof(double) * kElements);
  for (int attempt = 0; attempt < 2; ++attempt) {
    check_refused(save_large(*files, 2.0), "No space left on device", path);
    CHECK(disk.free_bytes() == free_bytes);
    CHECK(load_large(*files) == std::set<double>{1.0});
  }
  // With room again the same save goes through.
  std::filesystem::remove_all(path);
  const auto empty = value_or_throw(open_folder(path, MissingFolder::kMake));
  CHECK(save_large(*empty, 2.0) == std::vector<std::string>(kRanks, "saved"));
  CHECK(load_large(*empty) == std::set<double>{2.0});
}

TEST_CASE("a shard beyond the process's file size fails on all ranks likewise",
          "[checkpoint][R26]") {
  char pattern[] = "/tmp/tessera_limit_XXXXXX";
  const std::string folder = ::mkdtemp(pattern);
  const std::string path = folder + "/ckpt";
  const auto files = value_or_throw(open_folder(path, MissingFolder::kMake));
  CHECK(save_large(*files, 1.0) == std::vector<std::string>(kRanks, "saved"));
  std::vector<std::string> told;
  {
    const FileLimit limit(100'000);
    told = save_large(*files, 2.0);
  }
  check_refused(told, "File too large", path);
  CHECK(load_large(*files) == std::set<double>{1.0});
  CHECK(save_large(*files, 2.0) == std::vector<std::string>(kRanks, "saved"));
  CHECK(load_large(*files) == std::set<double>{2.0});
  std::filesystem::remove_all(folder);
}

}  // namespace tessera::testing
