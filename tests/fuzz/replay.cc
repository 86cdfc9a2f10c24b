// Runs every kept input of every fuzz target once, with whatever compiler this is.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "placement/status.h"

#define TSR_TARGET(name) extern "C" int fuzz_##name(const std::uint8_t* data, std::size_t size);
TSR_FUZZ_TARGETS
#undef TSR_TARGET

namespace {

struct Target {
  const char* name;
  int (*run)(const std::uint8_t*, std::size_t);
};
constexpr Target kTargets[] = {
#define TSR_TARGET(name) {#name, fuzz_##name},
    TSR_FUZZ_TARGETS
#undef TSR_TARGET
};

/// Number of inputs.
std::size_t replay(const Target& target, const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
    std::printf("%s %s\n", target.name, file.filename().c_str());
    std::fflush(stdout);
    target.run(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  return files.size();
}

}  // namespace

int main() {
  for (const Target& target : kTargets) {
    if (replay(target, std::filesystem::path(TSR_FUZZ_CORPUS) / target.name) == 0) {
      std::fprintf(stderr, "no kept inputs for %s\n", target.name);
      return 1;
    }
  }
  return 0;
}
