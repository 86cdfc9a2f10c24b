#include <atomic>
#include <chrono>
#include <thread>

#include "runtime/recorder/verdict.h"
#include "tests/runtime/recorder_files.h"

namespace tessera {
namespace {

using testing::call_number;
using testing::Folder;
using testing::open_in;
using testing::Ranks;
using testing::read_ranks;
using testing::run_recorded;
using Body = std::function<void(Communicator&)>;
using Kind = RecordsFinding::Kind;

Array ones(const Shape& shape, DType dtype = DType::kF32) { return Array::zeros(shape, dtype); }

void reduce(Communicator& group, const Shape& shape, DType dtype, ReduceOp op) {
  const Array in = ones(shape, dtype);
  group.all_reduce(in, in, op, {.tensor = "w"});
}

}  // namespace

TEST_CASE("the records of a mismatch name the odd rank, and any part of them what it can",
          "[runtime][recorder]") {
  struct Difference {
    std::string field;
    Body usual, odd;
  };
  const Body usual = [](Communicator& g) { reduce(g, {4, 2}, DType::kF32, ReduceOp::kSum); };
  const std::vector<Difference> differences = {
      {"kind", usual, [](Communicator& g) { g.barrier(); }},
      {"dtype", usual,
       [](Communicator& g) {
         reduce(g, {4, 2}, DType::kF64, ReduceOp::kSum);
       }},
      {"shape", usual,
       [](Communicator& g) {
         reduce(g, {3, 2}, DType::kF32, ReduceOp::kSum);
       }},
      {"reduce op", usual,
       [](Communicator& g) {
         reduce(g, {4, 2}, DType::kF32, ReduceOp::kMax);
       }},
      {"root", [](Communicator& g) { g.broadcast(ones({4}), 0); },
       [](Communicator& g) { g.broadcast(ones({4}), 1); }},
      {"kind",  // the same calls in another order
       [&](Communicator& g) {
         usual(g);
         g.barrier();
       },
       [&](Communicator& g) {
         g.barrier();
         usual(g);
       }},
  };
  const int odd = GENERATE(0, 2);
  for (const Difference& difference : differences) {
    const Folder folder;
    const Status status = run_recorded(4, folder, [&](World& world) {
      everyone(world).barrier();
      (world.rank() == odd ? difference.odd : difference.usual)(everyone(world));
    });
    REQUIRE_FALSE(status.ok());
    for (unsigned subset = 1; subset < 16; ++subset) {
      Ranks present, absent;
      for (int rank = 0; rank < 4; ++rank) {
        ((subset >> rank & 1) != 0 ? present : absent).push_back(rank);
      }
      CAPTURE(difference.field, odd, present);
      const RecordsVerdict verdict = judge(read_ranks(folder.path(), present));
      CHECK(verdict.missing == absent);
      REQUIRE(verdict.findings.size() == 1);
      const RecordsFinding& finding = verdict.findings[0];
      CAPTURE(finding.text);
      CHECK(finding.sequence == 1);
      CHECK(finding.unknown == absent);
      CHECK(finding.missing.empty());
      const bool seen = (subset >> odd & 1) != 0 && present.size() > 1;
      CHECK(finding.kind == (seen ? Kind::kMismatch : Kind::kUnfinished));
      CHECK(finding.field == (seen ? difference.field : ""));
      CHECK(finding.odd ==
            (seen && present.size() > 2 ? std::optional<std::int64_t>(odd) : std::nullopt));
    }
  }
}

TEST_CASE("the records of unequal splits name sender and receiver", "[runtime][recorder]") {
  const Folder folder;
  const Status status = run_recorded(4, folder, [](World& world) {
    Communicator& group = everyone(world);
    const Ranks send(4, 2);
    Ranks recv = send;
    if (world.rank() == 3) recv[1] = 5;
    group.all_to_all(ones({8}), ones({world.rank() == 3 ? 11 : 8}), send, recv);
  });
  REQUIRE_FALSE(status.ok());
  const auto text = [&](const Ranks& ranks) {
    return judge(read_ranks(folder.path(), ranks)).findings.at(0).text;
  };
  const std::string expected =
      "collective mismatch (splits: group rank 1 sends 2 rows to group rank 3, which expects 5): "
      "rank 1 calls all_to_all #0 of F32 rows [], send_splits [2, 2, 2, 2], recv_splits [2, 2, 2, "
      "2] "
      "(runtime/recorder_verdict_test.cc:";
  CHECK_THAT(text({0, 1, 2, 3}), Catch::StartsWith(expected));
  CHECK_THAT(text({1, 3}), Catch::StartsWith(expected));
  CHECK_THAT(text({1, 3}), Catch::EndsWith("; no record of ranks 0, 2: cannot tell"));
  CHECK_THAT(text({0, 3}),
             Catch::Contains("did not finish on ranks 0, 3; no record of ranks 1, 2"));
}

TEST_CASE("the records of a rank that stayed away tell where it was", "[runtime][recorder]") {
  const Folder folder;
  const bool throws = GENERATE(false, true);
  std::atomic<unsigned> lines[2] = {};
  std::atomic<int> started{0};
  const Status status = run_recorded(4, folder, [&](World& world) {
    lines[0] = __LINE__ + 1;
    everyone(world).barrier();
    if (world.rank() == 2) {
      while (started != 3) std::this_thread::yield();
      if (throws) throw Error(invalid_argument("no such expert: 9"));
      return;
    }
    lines[1] = __LINE__ + 1;
    const auto work = everyone(world).broadcast_async(ones({8}), 0, {.tensor = "w"});
    ++started;
    work->wait();
  });
  REQUIRE_FALSE(status.ok());
  const std::string place = "(runtime/recorder_verdict_test.cc:";
  const std::string call = "broadcast #1 of F32 [8] from group rank 0, tensor w " + place +
                           std::to_string(lines[1].load()) + ")";
  const RecordsVerdict verdict = judge(read_ranks(folder.path(), {0, 1, 2, 3}));
  REQUIRE(verdict.findings.size() == 1);
  CHECK(verdict.findings[0].kind == Kind::kNeverCalled);
  CHECK(verdict.findings[0].missing == Ranks{2});
  CHECK(verdict.findings[0].calls.size() == 3);
  CHECK(verdict.findings[0].text ==
        "rank 2 never called " + call + ", of group [0, 1, 2, 3], which ranks 0, 1, 3 called; it " +
            (throws ? "failed: no such expert: 9"
                    : "ended cleanly after barrier #0 " + place + std::to_string(lines[0].load()) +
                          ") of group [0, 1, 2, 3]"));
  const RecordsVerdict weaker = judge(read_ranks(folder.path(), {0, 3}));
  REQUIRE(weaker.findings.size() == 1);
  CHECK(weaker.findings[0].kind == Kind::kUnfinished);
  CHECK(weaker.findings[0].text == call +
                                       ", of group [0, 1, 2, 3], did not finish on ranks 0, 3; "
                                       "no record of ranks 1, 2: cannot tell");
  const RecordsVerdict own = judge(read_ranks(folder.path(), {2}));
  CHECK(own.findings.empty());
  CHECK(own.failures.size() == (throws ? 1 : 0));
}

TEST_CASE("a rank that another's failure kept from a call is not blamed", "[runtime][recorder]") {
  const Folder folder;
  std::atomic<int> started{0};
  const Status status = run_recorded(3, folder, [&](World& world) {
    Communicator& group = everyone(world);
    if (world.rank() == 0) {
      const Array in = ones({4});
      const auto work = group.all_reduce_async(in, in, ReduceOp::kSum);
      ++started;
      work->wait();
    }
    while (started == 0) std::this_thread::yield();
    if (world.rank() == 1) throw Error(invalid_argument("no such expert: 9"));
    Communicator& own = *value_or_throw(world.group(Ranks{world.rank()}));
    // Until it hears of the failure; paced, for its record holds 4096 calls and must still hold its
    // first when a busy machine lets rank 1 throw seconds later.
    for (;; std::this_thread::sleep_for(std::chrono::milliseconds(10))) own.barrier();
  });
  REQUIRE_FALSE(status.ok());
  const RecordsVerdict verdict = judge(read_ranks(folder.path(), {0, 1, 2}));
  REQUIRE(verdict.findings.size() == 1);
  CHECK(verdict.findings[0].missing == Ranks{1});
  CHECK(verdict.findings[0].unknown == Ranks{2});
  CHECK_THAT(verdict.findings[0].text,
             Catch::EndsWith("which rank 0 called; it failed: no such expert: 9; the job "
                             "had failed before rank 2 came to it"));
}

TEST_CASE("a cause stands before what follows from it", "[runtime][recorder]") {
  const Folder folder;
  std::atomic<int> started{0};
  const Status status = run_recorded(4, folder, [&](World& world) {
    if (world.rank() == 3) return;  // stays away from {2, 3}: rank 2 hangs, then ranks 0 and 1
    if (world.rank() == 2) {
      while (started != 2) std::this_thread::yield();
      value_or_throw(world.group(Ranks{2, 3}))->barrier();
    }
    const Array in = ones({4});
    const auto work =
        value_or_throw(world.group(Ranks{0, 1, 2}))->all_reduce_async(in, in, ReduceOp::kSum);
    ++started;
    work->wait();
  });
  REQUIRE_FALSE(status.ok());
  const RecordsVerdict verdict = judge(read_ranks(folder.path(), {0, 1, 2, 3}));
  REQUIRE(verdict.findings.size() == 2);
  CHECK(verdict.findings[0].missing == Ranks{3});
  CHECK_THAT(verdict.findings[0].text, Catch::EndsWith("; it ended cleanly before any call"));
  CHECK(verdict.findings[1].missing == Ranks{2});
  CHECK_THAT(verdict.findings[1].text,
             Catch::Contains("; it failed in barrier #0 (runtime/recorder_verdict_test.cc:"));
  CHECK_THAT(verdict.findings[1].text,
             Catch::Contains(" of group [2, 3]: rank 3 returned without"));
}

TEST_CASE("messages are judged by pair, also those of a rank to itself", "[runtime][recorder]") {
  const Folder folder;
  CHECK(run_recorded(2, folder, [](World& world) {
          const int own = static_cast<int>(world.rank());
          auto sent = everyone(world).send_async(ones({3}), own);
          everyone(world).recv(ones({3}), own);
          sent->wait();
        }).ok());
  CHECK(judge(read_ranks(folder.path(), {0, 1})).clean());
  CHECK_FALSE(run_recorded(2, folder, [](World& world) {
                if (world.rank() == 0) everyone(world).send(ones({3}), 1);
                if (world.rank() == 1) everyone(world).recv(ones({4}), 0);
              }).ok());
  CHECK(judge(read_ranks(folder.path(), {0, 1})).findings.at(0).field == "shape");
  CHECK_FALSE(run_recorded(2, folder, [](World& world) {
                everyone(world).barrier();
                if (world.rank() == 0) everyone(world).send(ones({100'000}), 1);
              }).ok());
  CHECK_THAT(judge(read_ranks(folder.path(), {0, 1})).findings.at(0).text,
             Catch::StartsWith("rank 1 never joined send #0 to group rank 1 of F32 [100000] ("));
}

TEST_CASE("calls older than a ring are unknown, not missing", "[runtime][recorder]") {
  const Folder folder;
  for (const std::int64_t rank : {0, 1}) {
    auto recorder = open_in(folder.path(), rank);
    const std::uint32_t pair = recorder->add_group(Ranks{0, 1});
    const std::uint32_t own = recorder->add_group(Ranks{rank});
    // Rank 1 took part in the pair's only call long ago; rank 0 waits in it still.
    const std::uint64_t first = recorder->started(call_number(0), pair);
    if (rank == 1) recorder->finished(first);
    for (std::uint64_t i = 0; rank == 1 && i < 5000; ++i) {
      recorder->finished(recorder->started(call_number(i), own));
    }
    recorder->close(FlightRecorder::Leave::kKeep);
  }
  const RecordsVerdict verdict = judge(read_ranks(folder.path(), {0, 1}));
  REQUIRE(verdict.findings.size() == 1);
  CHECK(verdict.findings[0].kind == Kind::kUnfinished);
  CHECK(verdict.findings[0].unknown == Ranks{1});
  CHECK_THAT(verdict.findings[0].text,
             Catch::EndsWith("the record of rank 1 does not go back so far: cannot tell"));
}

}  // namespace tessera
