// Every point at which a save can end: by a crash with any of the unsynced changes lost, or by an
// error of any call. What is loaded afterwards is the old state or the new one, whole.
#include <algorithm>
#include <cerrno>
#include <map>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "tests/checkpoint/fault_fs.h"
#include "tests/checkpoint/state.h"

namespace tessera::testing {
namespace {

const Placed kOne = {{}, {}};
const Placed kTwo = {{2}, {"S(0)"}};
const Placed kThree = {{3}, {"S(0)"}};

/// Fates of unsynced changes: all kept, all dropped, torn, or by a coin with this seed.
FaultFs::Judge judge_of(int policy) {
  using Fate = FaultFs::Fate;
  if (policy == 0) return [](std::size_t) { return Fate::kKept; };
  if (policy == 1) return [](std::size_t) { return Fate::kDropped; };
  if (policy == 2) return [](std::size_t) { return Fate::kTorn; };
  return [policy](std::size_t op) {
    std::mt19937 random(static_cast<unsigned>(policy * 1000 + static_cast<int>(op)));
    return static_cast<Fate>(random() % 3);
  };
}

/// Judges what crashes leave; the same files are loaded once.
class Crashes {
 public:
  /// Whether every crash leaves the old state or the new one, where one unsynced change fares
  /// otherwise than all others.
  bool are_all_whole(const FaultFs& files) {
    using Fate = FaultFs::Fate;
    for (std::size_t prefix = 0; prefix <= files.num_ops(); ++prefix) {
      std::vector<std::size_t> unsynced;
      const auto kept = files.after_crash(prefix, [&](std::size_t op) {
        unsynced.push_back(op);
        return Fate::kKept;
      });
      if (!is_whole(*kept)) return false;
      for (const std::size_t odd : unsynced) {
        for (const auto& [others, its] : {std::pair(Fate::kKept, Fate::kDropped),
                                          {Fate::kKept, Fate::kTorn},
                                          {Fate::kDropped, Fate::kKept}}) {
          const FaultFs::Judge judge = [odd, others = others, its = its](std::size_t op) {
            return op == odd ? its : others;
          };
          if (!is_whole(*files.after_crash(prefix, judge))) return false;
        }
      }
    }
    return true;
  }

 private:
  bool is_whole(FaultFs& files) {
    const auto [at, is_new] = known_.try_emplace({files.files(), files.folders()}, false);
    if (is_new) {
      const int version = loaded_version(files, kOne);
      at->second = version == 0 || version == 1;
    }
    return at->second;
  }

  std::map<std::pair<std::map<std::string, std::string>, std::vector<std::string>>, bool> known_;
};

/// Lets a rank create its shard only when the folder of the other's has been made durable.
void take_turns(FaultFs& files, int first_rank) {
  files.set_before_create([&files, first_rank](const std::string& name) {
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos || name.ends_with(shard_name(first_rank))) return;
    const auto is_durable = [&] {
      const std::vector<FaultFs::Sync> syncs = files.syncs();
      return std::any_of(syncs.begin(), syncs.end(), [&](const FaultFs::Sync& sync) {
        return sync.name == name.substr(0, slash);
      });
    };
    while (!is_durable()) std::this_thread::yield();
  });
}

std::size_t num_generations(const FaultFs& files) { return files.folders().size(); }

}  // namespace

TEST_CASE("a crash at any point of a save leaves the old state or the new one, whole",
          "[checkpoint][crash][R25]") {
  FaultFs files;
  REQUIRE(save_version(files, kTwo, 0).ok());
  files.settle();
  REQUIRE(save_version(files, kTwo, 1).ok());
  std::set<int> seen;
  int new_from = -1;
  for (std::size_t prefix = 0; prefix <= files.num_ops(); ++prefix) {
    for (int policy = 0; policy < 8; ++policy) {
      const auto crashed = files.after_crash(prefix, judge_of(policy));
      std::string error;
      const int version = loaded_version(*crashed, kOne, &error);
      CAPTURE(prefix, policy, error);
      REQUIRE((version == 0 || version == 1));
      seen.insert(version);
      if (version == 1 && new_from < 0) new_from = static_cast<int>(prefix);
      if (policy != 3) continue;
      // The next save clears away what the crash left.
      REQUIRE(save_version(*crashed, kTwo, 2).ok());
      REQUIRE(loaded_version(*crashed, kOne) == 2);
      REQUIRE(num_generations(*crashed) == 1);
      REQUIRE(crashed->files().size() == 3);  // two shards and the manifest
    }
  }
  CHECK(seen == std::set<int>{0, 1});
  CHECK(new_from > static_cast<int>(files.num_ops()) / 2);
}

TEST_CASE("a crash in the first save leaves nothing or all of it", "[checkpoint][crash][R25]") {
  FaultFs files;
  REQUIRE(save_version(files, kTwo, 0).ok());
  for (std::size_t prefix = 0; prefix <= files.num_ops(); ++prefix) {
    for (int policy = 0; policy < 5; ++policy) {
      const auto crashed = files.after_crash(prefix, judge_of(policy));
      std::string error;
      const int version = loaded_version(*crashed, kOne, &error);
      CAPTURE(prefix, policy, error);
      REQUIRE(
          (version == 0 || (version == -1 && error.find("holds no checkpoint") < error.size())));
    }
  }
}

TEST_CASE("a save without any one of its syncs could lose both states",
          "[checkpoint][crash][R25]") {
  const int first_rank = GENERATE(0, 1);
  FaultFs files;
  take_turns(files, first_rank);
  REQUIRE(save_version(files, kTwo, 0).ok());
  files.settle();
  REQUIRE(save_version(files, kTwo, 1).ok());
  const std::vector<FaultFs::Sync> syncs = files.syncs();
  const std::string first = "gen-2/" + shard_name(first_rank);
  const std::string second = "gen-2/" + shard_name(1 - first_rank);
  const std::vector<std::string> names = {first, "gen-2", second, "gen-2", "", ".manifest.json.tmp",
                                          ""};
  REQUIRE(syncs.size() == names.size());
  Crashes crashes;
  CHECK(crashes.are_all_whole(files));
  for (std::size_t i = 0; i < syncs.size(); ++i) {
    CAPTURE(first_rank, i, syncs[i].name);
    CHECK(syncs[i].name == names[i]);
    files.leave_out(syncs[i].op);
    // The folder's first sync is needed by a rank that comes last: in the other round.
    CHECK(crashes.are_all_whole(files) == (i == 1));
  }
}

TEST_CASE("an error of any call fails the save on all ranks and leaves the old state alone",
          "[checkpoint][crash][R26]") {
  const int error = GENERATE(EIO, ENOSPC, EDQUOT, EROFS);
  // A disk that is full stays full; a bad sector is one call.
  const bool persists = error == ENOSPC || error == EROFS;
  FaultFs before;
  REQUIRE(save_version(before, kTwo, 0).ok());
  before.settle();
  const auto fresh = [&] { return before.after_crash(0, judge_of(0)); };
  const auto clean = fresh();
  REQUIRE(save_version(*clean, kTwo, 1).ok());
  const std::int64_t num_calls = clean->num_calls();
  REQUIRE(num_calls > 40);
  const std::int64_t stride = error == EIO || error == ENOSPC ? 1 : 7;
  int failed = 0;
  for (std::int64_t k = 0; k < num_calls; k += stride) {
    const auto files = fresh();
    files->set_fault([&](std::int64_t number, Call call) {
      const bool takes_room = call == Call::kWrite || call == Call::kCreate ||
                              call == Call::kMakeFolder || call == Call::kSync;
      return number == k || (persists && number > k && takes_room) ? error : 0;
    });
    const Status status = save_version(*files, kTwo, 1);
    files->set_fault(nullptr);
    CAPTURE(k, std::string(message_of(status)));
    CHECK(files->num_open() == 0);
    const int version = loaded_version(*files, kOne);
    if (status.ok()) {
      CHECK(version == 1);  // the call was one of clearing away
    } else {
      ++failed;
      CHECK(status.code() == absl::StatusCode::kDataLoss);
      CHECK((version == 0 || version == 1));
      CHECK(files->files().count(".manifest.json.tmp") == 0);
    }
    REQUIRE(save_version(*files, kTwo, 2).ok());
    CHECK(loaded_version(*files, kOne) == 2);
    CHECK(num_generations(*files) == 1);
  }
  CHECK(failed > 20 / stride);
}

TEST_CASE("a failed save removes what it wrote", "[checkpoint][crash][R26]") {
  FaultFs files;
  REQUIRE(save_version(files, kTwo, 0).ok());
  const auto before = files.files();
  files.settle();
  files.set_fault([](std::int64_t, Call call) { return call == Call::kRename ? ENOSPC : 0; });
  const Status status = save_version(files, kThree, 1);
  CHECK(status.code() == absl::StatusCode::kDataLoss);
  CHECK_THAT(std::string(message_of(status)),
             Catch::Contains("rank 0: memory/manifest.json: cannot put in place: No space left"));
  CHECK(files.files() == before);
  CHECK(num_generations(files) == 1);

  files.set_fault([](std::int64_t, Call call) { return call == Call::kLock ? EROFS : 0; });
  CHECK_THAT(std::string(message_of(save_version(files, kTwo, 1))),
             Catch::Contains("memory: cannot lock the folder: Read-only file system"));
  CHECK(files.files() == before);
}

TEST_CASE("a job that ends once the manifest is in place has the new state, whole",
          "[checkpoint][crash][R25]") {
  FaultFs files;
  REQUIRE(save_version(files, kTwo, 0).ok());
  const Status status = run_ranks(2, {}, [&](World& world) {
    Runtime runtime(world);
    if (world.rank() == 0) {
      files.set_fault([&](std::int64_t, Call call) {
        if (call == Call::kRename) world.poison(unavailable("gone"));
        return 0;
      });
    }
    save_checkpoint(world, files, make_state(runtime, kTwo, 1), Json::object({{"version", 1}}));
  });
  CHECK(status == unavailable("rank 0: gone"));
  files.set_fault(nullptr);
  CHECK(loaded_version(files, kTwo) == 1);
}

TEST_CASE("interrupted calls and short writes are gone on with", "[checkpoint][crash][R26]") {
  FaultFs files;
  files.set_write_limit(3);
  std::map<Call, int> calls;
  files.set_fault([&](std::int64_t, Call call) {
    const bool may_repeat = call != Call::kClose;
    return may_repeat && calls[call]++ % 2 == 0 ? EINTR : 0;
  });
  REQUIRE(save_version(files, kTwo, 4).ok());
  CHECK(loaded_version(files, kThree) == 4);
}

}  // namespace tessera::testing
