// tests/runtime/recorder_files.h: flight records made for a test, and read back.
#pragma once

#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/recorder/recorder.h"
#include "tests/runtime/ranks.h"

namespace tessera::testing {

using Ranks = std::vector<std::int64_t>;

/// A folder that goes with the test.
class Folder {
 public:
  Folder() {
    path_ = std::filesystem::temp_directory_path() / "tessera_recorder_XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no scratch folder");
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  std::size_t num_entries() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_),
                                                  std::filesystem::directory_iterator{}));
  }

 private:
  std::string path_;
};

inline Signature call_number(std::uint64_t sequence) {
  Signature call;
  call.kind = CollectiveCall::Kind::kAllReduce;
  call.sequence = sequence;
  call.shape = {8, 4};
  call.fold = true;
  call.tensor = "w";
  call.site = CallSite("/somewhere/far/moe/dispatch.cc", 12);
  return call;
}

inline std::unique_ptr<FlightRecorder> open_in(const std::string& dir, std::int64_t rank = 0) {
  return value_or_throw(FlightRecorder::open({.dir = dir, .rank = rank, .world_size = 4}));
}

inline std::vector<RankRecords> read_ranks(const std::string& dir, const Ranks& ranks) {
  std::vector<RankRecords> records;
  for (const std::int64_t rank : ranks) {
    records.push_back(value_or_throw(read_records(dir + "/" + flight::file_name_of(rank))));
  }
  return records;
}

inline Ranks first_ranks(std::int64_t count) {
  Ranks ranks(static_cast<std::size_t>(count));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

inline Status run_recorded(int num_ranks, const Folder& folder,
                           const std::function<void(World&)>& body) {
  return run_ranks(num_ranks, {.recorder_dir = folder.path()}, body);
}

}  // namespace tessera::testing
