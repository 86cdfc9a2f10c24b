#include "runtime/recorder/recorder.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/recorder/verdict.h"
#include "tests/runtime/recorder_files.h"
#include "tests/support/variable.h"

namespace tessera {
namespace {

using testing::call_number;
using testing::first_ranks;
using testing::Folder;
using testing::open_in;
using testing::Ranks;
using testing::read_ranks;
using testing::run_recorded;
using testing::Variable;
using State = RecordedCall::State;

/// What a child process's exit code was; 128 + the signal where one ended it.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

// ---- one file

TEST_CASE("a record keeps all that ranks compare, and where the call stands",
          "[runtime][recorder]") {
  const Folder folder;
  auto recorder = open_in(folder.path(), 2);
  const std::uint32_t group = recorder->add_group(Ranks{3, 2, 0});
  Signature call;
  call.kind = CollectiveCall::Kind::kAllToAll;
  call.sequence = 812;
  call.dtype = DType::kBF16;
  call.shape = {4};
  call.extra = 77;
  call.send_splits = {1, 2, 3};
  call.recv_splits = {0, 2, 5};
  call.tensor = "moe.dispatch";
  call.axes = "ep";
  call.site = CallSite("/somewhere/far/moe/dispatch.cc", 12);
  recorder->finished(recorder->started(call_number(0), group));
  const std::uint64_t ticket = recorder->started(call, group);
  recorder->started(call_number(1), group);
  recorder->matched(ticket);
  recorder->note_failure("disk on fire");
  recorder->note_failure("and what came of it");
  recorder->close(FlightRecorder::Leave::kKeep);

  const RankRecords records = read_ranks(folder.path(), {2})[0];
  CHECK(records.rank == 2);
  CHECK(records.world_size == 4);
  CHECK(records.pid == ::getpid());
  CHECK(records.end == flight::End::kFailed);
  CHECK(records.failure == "disk on fire");
  CHECK(records.groups == std::vector<Ranks>{{3, 2, 0}});
  CHECK_FALSE(records.wrapped);
  REQUIRE(records.calls.size() == 3);
  CHECK(records.calls[0].state == State::kFinished);
  CHECK(records.calls[0].end_ns >= records.calls[0].start_ns);
  const RecordedCall& read = records.calls[1];
  CHECK(read.state == State::kMatched);
  CHECK(read.signature.send_splits == call.send_splits);
  CHECK(read.signature.recv_splits == call.recv_splits);
  CHECK(read.signature.extra == 77);
  CHECK(to_string(read) ==
        "all_to_all #812 of BF16 rows [4], send_splits [1, 2, 3], recv_splits [0, 2, 5], tensor "
        "moe.dispatch, axes ep (moe/dispatch.cc:12)");
  // Cut to what is used.
  const auto groups = std::filesystem::file_size(folder.path() + "/rank_00002.tsrrec") -
                      flight::kPageBytes - 3 * sizeof(flight::Slot);
  CHECK(groups % flight::kPageBytes == 0);
}

TEST_CASE("long names, shapes and splits are cut and still tell calls apart",
          "[runtime][recorder]") {
  const Folder folder;
  const auto record = [&](std::int64_t rank, const std::function<void(Signature&)>& change) {
    Signature call = call_number(0);
    call.kind = CollectiveCall::Kind::kAllGather;
    call.fold = false;
    call.tensor = std::string(300, 't');
    call.axes = std::string(300, 'a');
    call.shape = {2, 2, 2, 2, 2, 2, 3, 2};
    call.recv_splits.assign(20, 7);
    change(call);
    auto recorder = open_in(folder.path(), rank);
    recorder->finished(recorder->started(call, recorder->add_group(Ranks{0, 1})));
    recorder->close(FlightRecorder::Leave::kKeep);
  };
  record(0, [](Signature&) {});
  CHECK(last_call_in(folder.path(), 0) == "all_gather #0 of F32 rows [2, 2, 2, 2, 2, 2], tensor " +
                                              std::string(56, 't') + "..., axes " +
                                              std::string(24, 'a') + "... (moe/dispatch.cc:12)");
  record(1, [](Signature&) {});
  CHECK(judge(read_ranks(folder.path(), {0, 1})).clean());
  const auto field = [&](const std::function<void(Signature&)>& change) {
    record(1, change);
    const RecordsVerdict verdict = judge(read_ranks(folder.path(), {0, 1}));
    return verdict.findings.empty() ? "none" : verdict.findings[0].field;
  };
  CHECK(field([](Signature& call) { call.shape[6] = 4; }) == "shape");
  CHECK(field([](Signature& call) { call.recv_splits[19] = 8; }) == "rows");
  CHECK(field([](Signature& call) {
          std::swap(call.recv_splits[3] = 8, call.recv_splits[4] = 6);
        }) == "rows");
}

TEST_CASE("row counts of a large all_to_all are held against what the peers expect",
          "[runtime][recorder]") {
  const std::int64_t size = 20;
  const std::int64_t wrong = GENERATE(-1, 0, 13);
  const Folder folder;
  for (std::int64_t rank = 0; rank < size; ++rank) {
    Signature call = call_number(0);
    call.kind = CollectiveCall::Kind::kAllToAll;
    call.fold = false;
    for (std::int64_t peer = 0; peer < size; ++peer) {
      call.send_splits.push_back(3 * rank + peer);
      call.recv_splits.push_back(3 * peer + rank);
    }
    if (rank == wrong) std::swap(call.recv_splits[4], call.recv_splits[5]);
    auto recorder = value_or_throw(
        FlightRecorder::open({.dir = folder.path(), .rank = rank, .world_size = size}));
    recorder->finished(recorder->started(call, recorder->add_group(first_ranks(size))));
    recorder->close(FlightRecorder::Leave::kKeep);
  }
  const RecordsVerdict verdict = judge(read_ranks(folder.path(), first_ranks(size)));
  if (wrong < 0) {
    CHECK(verdict.clean());
  } else {
    REQUIRE(verdict.findings.size() == 1);
    CHECK(verdict.findings[0].field == "splits");
  }
  // One record less, and nobody can tell.
  CHECK(judge(read_ranks(folder.path(), first_ranks(size - 1))).findings.empty());
}

TEST_CASE("the ring keeps the last 4096 calls", "[runtime][recorder]") {
  const std::uint64_t count = GENERATE(0, 1, 255, 256, 257, 4095, 4096, 4097, 10'000);
  CAPTURE(count);
  const Folder folder;
  auto recorder = open_in(folder.path());
  const std::uint32_t group = recorder->add_group(Ranks{0, 1});
  std::uint64_t first_ticket = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t ticket = recorder->started(call_number(i), group);
    if (i == 0) first_ticket = ticket;
    if (i != 0) recorder->finished(ticket);
  }
  recorder->finished(first_ticket);  // its slot may be another's by now
  recorder->close(FlightRecorder::Leave::kKeep);
  const RankRecords records = read_ranks(folder.path(), {0})[0];
  CHECK(records.calls.size() == std::min<std::uint64_t>(count, 4096));
  CHECK(records.wrapped == (count > 4096));
  for (std::size_t i = 0; i < records.calls.size(); ++i) {
    REQUIRE(records.calls[i].signature.sequence == count - records.calls.size() + i);
    REQUIRE(records.calls[i].state == State::kFinished);
  }
}

TEST_CASE("what a SIGKILLed process was last doing is in its file", "[runtime][recorder]") {
  const Folder folder;
  SECTION("it kills itself in a call") {
    const std::uint64_t last = GENERATE(0, 255, 256, 5000);
    CHECK(in_child([&] {
            auto recorder = open_in(folder.path(), 3);
            const std::uint32_t group = recorder->add_group(Ranks{2, 3});
            for (std::uint64_t i = 0; i <= last; ++i) {
              const std::uint64_t ticket = recorder->started(call_number(i), group);
              if (i == last) ::raise(SIGKILL);
              recorder->finished(ticket);
            }
            return 0;
          }) == 128 + SIGKILL);
    CHECK(last_call_in(folder.path(), 3) == "all_reduce #" + std::to_string(last) +
                                                " of F32 [8, 4] by sum, tensor w "
                                                "(moe/dispatch.cc:12)");
    CHECK(read_ranks(folder.path(), {3})[0].end == flight::End::kOpen);
  }
  SECTION("it is killed anywhere in a burst") {
    for (int round = 0; round < 20; ++round) {
      const pid_t child = ::fork();
      if (child == 0) {
        auto recorder = open_in(folder.path(), 3);
        const std::uint32_t group = recorder->add_group(Ranks{2, 3});
        for (std::uint64_t i = 0;; ++i)
          recorder->finished(recorder->started(call_number(i), group));
      }
      const std::string path = folder.path() + "/rank_00003.tsrrec";
      while (last_call_in(folder.path(), 3).empty()) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::microseconds(300 * round));
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      const auto records = read_records(path);
      REQUIRE(records.ok());
      const auto& calls = records->calls;
      for (std::size_t i = 0; i < calls.size(); ++i) {
        REQUIRE(calls[i].signature.sequence == calls[i].ticket);
        REQUIRE(calls[i].ticket == calls[0].ticket + i);
        REQUIRE((calls[i].state == State::kFinished || i + 1 == calls.size()));
      }
      std::filesystem::remove(path);
    }
  }
}

TEST_CASE("where no file can be made the reason is told, or memory serves", "[runtime][recorder]") {
  const Folder folder;
  const std::string blocked = folder.path() + "/file";
  std::ofstream(blocked) << "x";
  const auto refused = FlightRecorder::open({.dir = blocked + "/below", .world_size = 2});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.status() ==
        io_error(blocked + "/below/rank_00000.tsrrec: cannot replace the flight record: Not a "
                           "directory"));
  auto recorder = value_or_throw(FlightRecorder::open(
      {.dir = blocked + "/below", .file = RecorderFile::kIfPossible, .world_size = 2}));
  CHECK(recorder->path().empty());
  const std::uint32_t group = recorder->add_group(Ranks{0, 1});
  for (std::uint64_t i = 0; i < 5000; ++i)
    recorder->finished(recorder->started(call_number(i), group));
  recorder->close(FlightRecorder::Leave::kRemove);
  recorder->finished(recorder->started(call_number(0), group));  // nothing: it is closed

  // Not asked for by option, so a job runs without; asked for, it does not.
  const Variable variable("TESSERA_RECORDER_DIR", blocked + "/below");
  std::string dir = "?";
  CHECK(run_ranks(2, {}, [&](World& world) {
          everyone(world).barrier();
          if (world.rank() == 0) dir = world.recorder_dir();
        }).ok());
  CHECK(dir.empty());
  const Status status = run_ranks(2, {.recorder_dir = blocked + "/below"}, [](World&) {});
  CHECK(status == io_error(blocked + "/below: cannot make the folder: Not a directory"));
}

TEST_CASE("a disk that is full at the start or later ends no process", "[runtime][recorder]") {
  const Folder folder;
  const auto limit_files_to = [](rlim_t bytes) {
    const struct rlimit limit = {bytes, bytes};
    return ::setrlimit(RLIMIT_FSIZE, &limit) == 0;
  };
  SECTION("at the start") {
    CHECK(in_child([&] {
            if (!limit_files_to(8192)) return 2;
            const auto recorder = FlightRecorder::open({.dir = folder.path()});
            return !recorder.ok() && testing::contains(recorder.status(), "File too large") ? 0 : 1;
          }) == 0);
    CHECK(folder.num_entries() == 0);
  }
  SECTION("later: the ring stays as large as it is") {
    CHECK(in_child([&] {
            if (!limit_files_to(400'000)) return 2;
            auto recorder = open_in(folder.path());
            const std::uint32_t group = recorder->add_group(Ranks{0, 1});
            for (std::uint64_t i = 0; i < 5000; ++i) {
              recorder->finished(recorder->started(call_number(i), group));
            }
            return 0;
          }) == 0);
    const RankRecords records = read_ranks(folder.path(), {0})[0];
    CHECK(records.calls.size() == 1024);
    CHECK(records.wrapped);
    CHECK(records.calls.front().signature.sequence == 5000 - 1024);
  }
}

// ---- files of a job

TEST_CASE("a thousand clean worlds leave no record; a failed one leaves all of its own",
          "[runtime][recorder]") {
  const Folder folder;
  const Variable variable("TESSERA_RECORDER_DIR", folder.path());
  for (int round = 0; round < 1000; ++round) {
    REQUIRE(run_ranks(2, {}, [](World& world) { everyone(world).barrier(); }).ok());
  }
  // Nor does one that fails before its first call.
  CHECK_FALSE(run_ranks(2, {}, [](World&) { throw Error(invalid_argument("no data")); }).ok());
  CHECK(folder.num_entries() == 0);
  std::string dir;
  CHECK_FALSE(run_ranks(3, {}, [&](World& world) {
                if (world.rank() == 0) dir = world.recorder_dir();
                everyone(world).barrier();
                if (world.rank() == 2) throw Error(invalid_argument("no such expert: 9"));
                everyone(world).barrier();
              }).ok());
  REQUIRE(folder.num_entries() == 1);
  CHECK(std::filesystem::path(dir).parent_path() == folder.path());
  const RecordsVerdict verdict = judge(read_ranks(dir, {0, 1, 2}));
  REQUIRE(verdict.failures.size() == 3);
  CHECK(verdict.failures[0].rank == 2);
  CHECK(verdict.failures[0].text == "no such expert: 9");
  CHECK(verdict.failures[1].text == "rank 2: no such expert: 9");
}

TEST_CASE("a folder that was asked for is kept, and used again", "[runtime][recorder]") {
  const Folder folder;
  for (const int ranks : {4, 2}) {
    CHECK(run_recorded(ranks, folder, [](World& world) { everyone(world).barrier(); }).ok());
  }
  CHECK(folder.num_entries() == 4);
  const auto records = read_ranks(folder.path(), {0, 1, 2});
  CHECK(records[0].job == records[1].job);
  CHECK(records[0].job != records[2].job);
  CHECK(records[2].world_size == 4);
  CHECK(judge({records.data(), 2}).clean());
}

}  // namespace tessera
