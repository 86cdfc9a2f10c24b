#include <dirent.h>

#include <stdexcept>
#include <thread>

#include "tests/runtime/ranks.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;
using testing::contains;
using testing::launch;
using testing::Outcome;
using testing::outcome_of;
using testing::runs_here;

void reduce(Communicator& group, std::int64_t size = 4, const CallInfo& info = {}) {
  const Array in = Array::zeros({size}, DType::kF32);
  group.all_reduce(in, in, ReduceOp::kSum, info);
}

/// Calls of this rank alone, until one ends with the job's failure; returns where there is none.
void stay_until_failed(World& world) {
  Communicator& alone = *value_or_throw(world.group(std::vector<std::int64_t>{world.rank()}));
  const auto until = std::chrono::steady_clock::now() + testing::kSoon;
  while (std::chrono::steady_clock::now() < until) {
    alone.barrier();
    std::this_thread::sleep_for(milliseconds(5));
  }
}

int entries_of(const char* path) {
  int count = 0;
  DIR* dir = opendir(path);
  if (dir == nullptr) return -1;
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count;
}

}  // namespace

TEST_CASE("a rank that throws ends the others' calls with its text", "[runtime][failure]") {
  const int ranks = GENERATE(2, 4, 8);
  const int thrower = GENERATE(0, 1);
  const std::int64_t size = GENERATE(4, 100'000);  // folded by all; by slices
  CAPTURE(ranks, thrower, size);
  const Outcome outcome = outcome_of(ranks, [&](World& world) {
    reduce(everyone(world), size);
    if (world.rank() == thrower) throw Error(invalid_argument("no such expert: 9"));
    reduce(everyone(world), size);
  });
  const std::string text = "rank " + std::to_string(thrower) + ": no such expert: 9";
  CHECK(outcome.seconds < testing::kSoonSeconds);
  CHECK(outcome.first == invalid_argument(text));
  for (int rank = 0; rank < ranks; ++rank) {
    const Status& status = outcome.ranks[static_cast<std::size_t>(rank)];
    if (rank != thrower) CHECK(status == unavailable(text));
  }
}

TEST_CASE("exceptions of other kinds are told apart", "[runtime][failure]") {
  if (!runs_here(2)) return;
  const auto first_of = [](const std::function<void()>& thrower) {
    return launch(2, {},
                  [&](World& world, std::string&) {
                    if (world.rank() == 1) thrower();
                    everyone(world).barrier();
                  })
        .first;
  };
  CHECK(first_of([] { throw std::runtime_error("disk on fire"); }) ==
        internal_error("rank 1: disk on fire"));
  CHECK(first_of([] { throw std::bad_alloc(); }) ==
        absl::ResourceExhaustedError("rank 1: out of memory"));
  CHECK(first_of([] { throw 7; }) == internal_error("rank 1: an exception of unknown type"));
}

TEST_CASE("after a failure every later call fails too, in every group", "[runtime][failure]") {
  const Outcome outcome = outcome_of(3, [](World& world) {
    Communicator* own = value_or_throw(world.group(std::vector<std::int64_t>{world.rank()}));
    own->barrier();
    if (world.rank() == 2) {
      world.poison(unavailable("lost its disk"));
      return;
    }
    try {
      everyone(world).barrier();
    } catch (const Error&) {
    }
    own->barrier();
  });
  CHECK(outcome.ranks[0] == unavailable("rank 2: lost its disk"));
  CHECK(outcome.ranks[1] == unavailable("rank 2: lost its disk"));
}

TEST_CASE("an error that all ranks have agreed on names one rank", "[runtime][failure]") {
  const Outcome outcome = outcome_of(4, [](World& world) {
    everyone(world).barrier();
    throw Error(invalid_argument("rank 2: no such file"));  // as agree() does
  });
  CHECK(outcome.first == invalid_argument("rank 2: no such file"));
  const Outcome other = outcome_of(2, [](World& world) {
    everyone(world).barrier();
    if (world.rank() == 1) throw Error(invalid_argument("rank of x must be 2: it is 3"));
    everyone(world).barrier();
  });
  CHECK(other.first == invalid_argument("rank 1: rank of x must be 2: it is 3"));
}

TEST_CASE("a rank that returns early is named to those that wait for it", "[runtime][failure]") {
  const int ranks = GENERATE(2, 4, 8);
  const Outcome outcome = outcome_of(ranks, [&](World& world) {
    everyone(world).barrier();
    if (world.rank() == 1) return;
    reduce(everyone(world), 4, {.tensor = "w"});
  });
  CHECK(outcome.seconds < testing::kSoonSeconds);
  CHECK(outcome.first.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(outcome.ranks[1].ok());
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == 1) continue;
    const Status& status = outcome.ranks[static_cast<std::size_t>(rank)];
    CAPTURE(status.ToString());
    CHECK(contains(status,
                   "rank 1 returned without joining all_reduce #1 of F32 [4] by sum, "
                   "tensor w (runtime/failure_test.cc:"));
  }
}

TEST_CASE("a rank that stays away ends the wait at the timeout, with who came and who did not",
          "[runtime][failure]") {
  const int ranks = GENERATE(2, 4, 8);
  const bool per_call = GENERATE(false, true);
  const WorldOptions options{.timeout = milliseconds(per_call ? 60'000 : 1000)};
  const CallInfo info{.timeout = milliseconds(per_call ? 1000 : 0)};
  const Outcome outcome = outcome_of(
      ranks,
      [&](World& world) {
        if (world.rank() == ranks - 1) stay_until_failed(world);
        everyone(world).barrier(info);
      },
      options);
  CHECK(outcome.seconds < testing::kSoonSeconds);
  CHECK(outcome.first.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK(contains(outcome.first, "timed out after 1000 ms in barrier #0 (runtime/failure_test.cc:"));
  CHECK(contains(outcome.first, "; not arrived: rank " + std::to_string(ranks - 1)));
  CHECK(contains(outcome.first, ranks == 2 ? "arrived: rank 0;" : "arrived: ranks 0, 1, "));
  for (const Status& status : outcome.ranks) {
    CAPTURE(status.ToString());
    CHECK((status.code() == absl::StatusCode::kDeadlineExceeded ||
           status.code() == absl::StatusCode::kUnavailable));
    CHECK(contains(status, "not arrived: rank " + std::to_string(ranks - 1)));
  }
}

TEST_CASE("a negative timeout waits for a late rank", "[runtime][failure]") {
  const Outcome outcome = outcome_of(2,
                                     [](World& world) {
                                       if (world.rank() == 1)
                                         std::this_thread::sleep_for(milliseconds(350));
                                       everyone(world).barrier({.timeout = milliseconds(-1)});
                                     },
                                     {.timeout = milliseconds(100)});
  CHECK(outcome.first.ok());
}

TEST_CASE("a thousand worlds leave no thread and no file behind", "[runtime][failure]") {
  const auto run = [](int round) {
    return launch(2, {},  // MPI's own calls spin where ranks outnumber cores
                  [&](World& world, std::string&) {
                    reduce(everyone(world), 5000);
                    if (round % 4 == 3 && world.rank() == 1) throw Error(not_found("stop"));
                    reduce(everyone(world), 5000);
                  })
        .first;
  };
  const Status warm = run(0);
  REQUIRE(warm.ok());  // what a process keeps from its first world on
  const int threads = entries_of("/proc/self/task");
  const int files = entries_of("/proc/self/fd");
  for (int round = 0; round < 1000; ++round) {
    REQUIRE(run(round).ok() == (round % 4 != 3));
  }
  CHECK(entries_of("/proc/self/task") == threads);
  CHECK(entries_of("/proc/self/fd") == files);
}

}  // namespace tessera
