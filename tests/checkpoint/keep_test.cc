// Generations that stay beside the last one, and saves that are read back before they count.
#include <atomic>
#include <cerrno>

#include "checkpoint/stored_tensors.h"
#include "tests/checkpoint/fault_fs.h"
#include "tests/checkpoint/state.h"

namespace tessera::testing {
namespace {

const Placed kOne = {{}, {}};
const Placed kTwo = {{2}, {"S(0)"}};

using Generations = std::vector<std::int64_t>;

Status save(FileSystem& files, int version, std::int64_t keep) {
  return save_version(files, kTwo, version, {.chunk_bytes = 64, .keep = keep});
}
Generations stored(FileSystem& files) { return value_or_throw(stored_generations(files)); }
int version_of(FileSystem& files, std::int64_t generation, std::string* error = nullptr) {
  return loaded_version(files, kOne, error, {.generation = generation});
}
std::vector<std::string> names_of(const FaultFs& files) {
  std::vector<std::string> names;
  for (const auto& [name, bytes] : files.files()) names.push_back(name);
  return names;
}

/// A disk on which a file has lost a bit when it is first read.
class RottingDisk final : public FaultFs {
 public:
  explicit RottingDisk(std::string name) : rotten_(std::move(name)) {}
  int open(const std::string& name) override {
    if (name == rotten_ && !has_rotted_.exchange(true)) {
      std::string bytes = file(name);
      bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
      put_file(name, bytes);
    }
    return FaultFs::open(name);
  }

 private:
  std::string rotten_;
  std::atomic<bool> has_rotted_{false};
};

}  // namespace

TEST_CASE("the last generations that were asked for stay, each whole", "[checkpoint][keep]") {
  FaultFs files;
  for (int version = 0; version < 5; ++version) REQUIRE(save(files, version, 3).ok());
  CHECK(stored(files) == Generations{5, 4, 3});
  CHECK(names_of(files) ==
        std::vector<std::string>{"gen-3/shard-0.safetensors", "gen-3/shard-1.safetensors",
                                 "gen-4/shard-0.safetensors", "gen-4/shard-1.safetensors",
                                 "gen-5/shard-0.safetensors", "gen-5/shard-1.safetensors",
                                 "manifest-3.json", "manifest-4.json", "manifest.json"});
  CHECK(loaded_version(files, kOne) == 4);
  for (const std::int64_t generation : {3, 4, 5}) {
    CHECK(version_of(files, generation) == generation - 1);
    CHECK(value_or_throw(verify_checkpoint(files, generation)).empty());
  }
  std::string error;
  CHECK(version_of(files, 2, &error) == -1);
  CHECK_THAT(error, Catch::Contains("memory: generation 2 is not kept; there are 5, 4, 3"));

  REQUIRE(save(files, 5, 2).ok());
  CHECK(stored(files) == Generations{6, 5});
  CHECK(files.folders() == std::vector<std::string>{"gen-5", "gen-6"});
  REQUIRE(save(files, 6, 1).ok());
  CHECK(stored(files) == Generations{7});
  CHECK(names_of(files) == std::vector<std::string>{"gen-7/shard-0.safetensors",
                                                    "gen-7/shard-1.safetensors", "manifest.json"});
  // One that was saved alone is kept, too.
  REQUIRE(save(files, 7, 2).ok());
  CHECK(version_of(files, 7) == 6);
  CHECK_THAT(std::string(message_of(save(files, 8, 0))), Catch::Contains("at least 1 is allowed"));
}

TEST_CASE("damage of a kept generation is its own, and another one's manifest is found out",
          "[checkpoint][keep]") {
  FaultFs files;
  for (int version = 0; version < 3; ++version) REQUIRE(save(files, version, 3).ok());
  files.remove_file("gen-2/shard-1.safetensors");
  std::string error;
  CHECK(version_of(files, 2, &error) == -1);
  CHECK_THAT(error, Catch::Contains("gen-2/shard-1.safetensors: is missing"));
  CHECK(version_of(files, 1) == 0);
  CHECK(version_of(files, 3) == 2);
  files.put_file("manifest-2.json", files.file("manifest-1.json"));
  CHECK(version_of(files, 2, &error) == -1);
  CHECK_THAT(error,
             Catch::Contains("memory/manifest-2.json: is of generation 1; generations are mixed"));
  CHECK(loaded_version(files, kOne) == 2);
}

TEST_CASE("generations whose folder has lost its manifest are not cleared away",
          "[checkpoint][keep]") {
  FaultFs files;
  for (int version = 0; version < 3; ++version) REQUIRE(save(files, version, 3).ok());
  files.remove_file("manifest.json");
  const auto before = files.files();
  const Status status = save(files, 3, 3);
  CHECK_THAT(std::string(message_of(status)),
             Catch::Contains("memory/manifest-1.json: is there without a manifest.json"));
  CHECK(files.files() == before);
  files.put_file("manifest.json", files.file("manifest-2.json"));
  CHECK(loaded_version(files, kOne) == 1);
  REQUIRE(save(files, 3, 3).ok());
  CHECK(stored(files) == Generations{4, 2, 1});
}

TEST_CASE("a crash at any point leaves every generation that is listed whole",
          "[checkpoint][keep][crash][R25]") {
  FaultFs files;
  REQUIRE(save(files, 0, 2).ok());
  REQUIRE(save(files, 1, 2).ok());
  files.settle();
  REQUIRE(save(files, 2, 2).ok());
  bool old_seen = false, new_seen = false;
  for (std::size_t prefix = 0; prefix <= files.num_ops(); ++prefix) {
    for (const FaultFs::Fate fate :
         {FaultFs::Fate::kKept, FaultFs::Fate::kDropped, FaultFs::Fate::kTorn}) {
      // All alike, or every second one.
      for (const std::size_t stride : {1, 2}) {
        const auto crashed = files.after_crash(
            prefix, [&](std::size_t op) { return op % stride == 0 ? fate : FaultFs::Fate::kKept; });
        const Generations listed = stored(*crashed);
        CAPTURE(prefix, static_cast<int>(fate), stride, listed);
        REQUIRE(listed.size() >= 2);
        for (const std::int64_t generation : listed) {
          REQUIRE(version_of(*crashed, generation) == generation - 1);
        }
        (listed[0] == 3 ? new_seen : old_seen) = true;
        if (stride == 2 || fate != FaultFs::Fate::kDropped) continue;
        REQUIRE(save(*crashed, listed[0] == 3 ? 3 : 2, 2).ok());
        REQUIRE(stored(*crashed).size() == 2);
        REQUIRE(stored(*crashed)[1] == listed[0]);
        REQUIRE(version_of(*crashed, listed[0]) == listed[0] - 1);
        REQUIRE(crashed->files().size() == 6);  // two of two shards, two manifests
      }
    }
  }
  CHECK(old_seen);
  CHECK(new_seen);
}

TEST_CASE("a save that keeps others and fails removes what it wrote", "[checkpoint][keep][R26]") {
  FaultFs files;
  REQUIRE(save(files, 0, 2).ok());
  REQUIRE(save(files, 1, 2).ok());
  const auto before = files.files();
  for (const Call failing : {Call::kRename, Call::kSyncFolder, Call::kWrite}) {
    files.set_fault([&](std::int64_t, Call call) { return call == failing ? ENOSPC : 0; });
    CHECK_FALSE(save(files, 2, 2).ok());
    files.set_fault(nullptr);
    CHECK(files.files() == before);
  }
}

TEST_CASE("a save that is read back and differs fails, and the old state stays",
          "[checkpoint][read_back]") {
  const std::string rotten =
      GENERATE("gen-2/shard-0.safetensors", "gen-2/shard-1.safetensors", ".manifest.json.tmp");
  CAPTURE(rotten);
  const SaveOptions read_back = {.chunk_bytes = 64, .read_back = ReadBack::kOn};
  RottingDisk files(rotten);
  REQUIRE(save_version(files, kTwo, 0).ok());
  const auto before = files.files();
  const Status status = save_version(files, kTwo, 1, read_back);
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  CHECK_THAT(std::string(message_of(status)), Catch::Contains("read back after it was written") &&
                                                  Catch::Contains("memory/" + rotten));
  CHECK(files.files() == before);
  CHECK(loaded_version(files, kOne) == 0);
  REQUIRE(save_version(files, kTwo, 2, read_back).ok());
  CHECK(loaded_version(files, kOne) == 2);
}

TEST_CASE("a save that nobody reads back takes the place of the last whole state",
          "[checkpoint][read_back]") {
  RottingDisk files("gen-2/shard-1.safetensors");
  REQUIRE(save(files, 0, 2).ok());
  REQUIRE(save(files, 1, 2).ok());
  CHECK(loaded_version(files, kOne) == -1);
  CHECK(version_of(files, 1) == 0);  // what --keep is for
}

}  // namespace tessera::testing
