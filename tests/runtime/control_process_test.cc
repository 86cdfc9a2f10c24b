#include <sys/resource.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <thread>

#include "tests/runtime/control_processes.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;
using testing::ProcessJob;
using testing::ProcessSeat;
using Clock = std::chrono::steady_clock;

constexpr LaneKey kLane{.group = 3};
constexpr LaneKey kOther{.group = 4};

/// Told by a rank once it has heard of a failure: when (on the clock that all processes share), and
/// of what.
void tell_failure(const ProcessSeat& seat) {
  const auto until = Clock::now() + testing::kSoon;
  while (!seat.channel.failed() && Clock::now() < until) seat.channel.sleep(milliseconds(1000));
  const auto heard = Clock::now().time_since_epoch().count();
  seat.parent.say(std::to_string(heard) + " " + seat.channel.first_failure().ToString());
}

struct Heard {
  double after_ms = 0;
  std::string what;
};
Heard heard_by(const ProcessJob& job, int rank, Clock::time_point since) {
  const std::string text = job.line(rank).hear();
  const std::size_t space = text.find(' ');
  if (space == std::string::npos) return {1e9, text};
  const Clock::duration at(std::stoll(text.substr(0, space)));
  return {std::chrono::duration<double, std::milli>(at - since.time_since_epoch()).count(),
          text.substr(space + 1)};
}

std::string to_text(const std::vector<PartyState>& parties) {
  std::string text;
  for (const PartyState& party : parties) {
    const char* const kinds[] = {" arrived; ", " not arrived; ", " silent; "};
    text += std::to_string(party.rank) + kinds[static_cast<std::size_t>(party.kind)];
  }
  return text;
}

void stay(const ProcessSeat& seat) { seat.parent.hear(std::chrono::minutes(1)); }

}  // namespace

TEST_CASE("a killed rank is named on every other rank", "[runtime][control]") {
  const int size = GENERATE(2, 4, 8);
  const int victim = GENERATE(0, 1, 3, 7);
  if (victim >= size) return;
  const ProcessJob job(size, [](ProcessSeat& seat) {
    seat.channel.describe_dead([](std::int64_t rank) {
      return rank == 1 ? std::string() : "all_to_all #812 of rank " + std::to_string(rank);
    });
    seat.parent.say("ready");
    tell_failure(seat);
    stay(seat);
  });
  for (int rank = 0; rank < size; ++rank) REQUIRE(job.line(rank).hear() == "ready");
  const auto killed = Clock::now();
  job.signal(victim, SIGKILL);
  const std::string name = "rank " + std::to_string(victim);
  const std::string doing = victim == 1 ? "" : " in all_to_all #812 of " + name;
  for (int rank = 0; rank < size; ++rank) {
    if (rank == victim) continue;
    const Heard heard = heard_by(job, rank, killed);
    CAPTURE(size, victim, rank, heard.after_ms);
    CHECK(heard.what == "UNAVAILABLE: " + name + " died" + doing);
    CHECK(heard.after_ms < testing::kSoonMs);
  }
}

TEST_CASE("ranks that talk to rank 0 while it is killed survive it", "[runtime][control]") {
  const ProcessJob job(3, [](ProcessSeat& seat) {
    ControlChannel& channel = seat.channel;
    seat.parent.say("ready");
    if (seat.rank == 0) return stay(seat);
    const ControlWait wait{kLane, 0, {0, 1, 2}, "a call"};
    for (std::int64_t count = 0; !channel.failed(); ++count) {
      channel.waits(wait);
      channel.stops_waiting();
      channel.group_id(std::vector<std::int64_t>{count}).IgnoreError();
    }
    channel.poison(internal_error("a consequence"));
    channel.leave();
    const bool is_over = channel.wait_until_all_left(milliseconds(5000));
    seat.parent.say((is_over ? "over: " : "waits: ") + channel.first_failure().ToString());
    stay(seat);
  });
  for (int rank = 0; rank < 3; ++rank) REQUIRE(job.line(rank).hear() == "ready");
  std::this_thread::sleep_for(milliseconds(20));
  job.signal(0, SIGKILL);
  CHECK(job.line(1).hear() == "over: UNAVAILABLE: rank 0 died");
  CHECK(job.line(2).hear() == "over: UNAVAILABLE: rank 0 died");
}

TEST_CASE("after rank 0's death the others wait for one another, not for those that are silent",
          "[runtime][control]") {
  const bool stopped = GENERATE(false, true);
  const ProcessJob job(5, [](ProcessSeat& seat) {
    seat.parent.say("ready");
    if (seat.rank == 0 || seat.rank == 4) return stay(seat);
    while (!seat.channel.failed()) seat.channel.sleep(milliseconds(3000));
    std::this_thread::sleep_for(milliseconds(400 * seat.rank));
    seat.channel.leave();
    const auto left = Clock::now().time_since_epoch().count();
    seat.channel.farewell(std::chrono::seconds(20));
    seat.parent.say(std::to_string(left) + " " +
                    std::to_string(Clock::now().time_since_epoch().count()));
    // and then its process ends: what it knows may be asked no more
  });
  for (int rank = 0; rank < 5; ++rank) REQUIRE(job.line(rank).hear() == "ready");
  job.signal(4, stopped ? SIGSTOP : SIGKILL);
  job.signal(0, SIGKILL);
  std::int64_t last_left = 0, first_over = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_over = 0;
  for (int rank = 1; rank < 4; ++rank) {
    std::istringstream words(job.line(rank).hear());
    std::int64_t left = 0, over = 0;
    REQUIRE(words >> left >> over);
    last_left = std::max(last_left, left);
    first_over = std::min(first_over, over);
    last_over = std::max(last_over, over);
  }
  CHECK(first_over >= last_left);
  CHECK(std::chrono::nanoseconds(last_over - last_left) < std::chrono::seconds(10));
}

TEST_CASE("signals are left to the rank's own thread", "[runtime][control]") {
  const ProcessJob job(1, [](ProcessSeat& seat) {
    std::string masks;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream status(task.path() / "status");
      for (std::string line; std::getline(status, line);) {
        if (!line.starts_with("SigBlk:")) continue;
        const std::uint64_t blocked = std::stoull(line.substr(7), nullptr, 16);
        const bool is_deaf = (blocked >> (SIGTERM - 1) & blocked >> (SIGUSR1 - 1) & 1) != 0;
        masks += is_deaf ? "deaf " : "hears ";
      }
    }
    seat.parent.say(masks);
    stay(seat);
  });
  CHECK(job.line(0).hear() == "hears deaf ");
}

TEST_CASE("a rank that ends without leaving has died, one that left has not",
          "[runtime][control]") {
  const bool leaves = GENERATE(false, true);
  const ProcessJob job(3, [&](ProcessSeat& seat) {
    if (seat.rank == 2) {
      if (leaves) {
        seat.channel.leave();
        seat.channel.wait_until_all_left(milliseconds(500));  // it is said, and heard
      }
      ::_exit(0);
    }
    seat.channel.sleep(testing::kSoon);  // woken by either
    std::this_thread::sleep_for(milliseconds(leaves ? 700 : 0));
    seat.parent.say(seat.channel.first_failure().ToString());
    stay(seat);
  });
  const std::string wanted = leaves ? "OK" : "UNAVAILABLE: rank 2 died";
  CHECK(job.line(0).hear() == wanted);
  CHECK(job.line(1).hear() == wanted);
}

TEST_CASE("a rank's last words are heard although it ends at once", "[runtime][control]") {
  const int speaker = GENERATE(0, 2);
  const ProcessJob job(4, [&](ProcessSeat& seat) {
    if (seat.rank == speaker) {
      seat.channel.poison(invalid_argument("row 7 has no label"));
      ::_exit(1);
    }
    tell_failure(seat);
    stay(seat);
  });
  for (int rank = 0; rank < 4; ++rank) {
    if (rank == speaker) continue;
    CHECK(heard_by(job, rank, {}).what ==
          "INVALID_ARGUMENT: rank " + std::to_string(speaker) + ": row 7 has no label");
  }
}

TEST_CASE("a stopped rank is silent while the others answer, and is no failure",
          "[runtime][control]") {
  const int stopped = GENERATE(0, 2);
  const ProcessJob job(4, [](ProcessSeat& seat) {
    const ControlWait wait{kLane, 0, {0, 1, 2, 3}, "all_gather #0"};
    if (seat.rank != 3) ++seat.channel.started(kLane);
    seat.parent.say("ready");
    if (seat.rank != 1) return stay(seat);
    for (int round = 0; round < 2; ++round) {
      seat.parent.hear();
      const auto start = Clock::now();
      const std::string states = to_text(seat.channel.ask(wait, milliseconds(3000)));
      const bool is_prompt = Clock::now() - start < testing::kSoon;
      seat.parent.say(states + (is_prompt ? "" : "late ") +
                      seat.channel.first_failure().ToString());
    }
    stay(seat);
  });
  for (int rank = 0; rank < 4; ++rank) REQUIRE(job.line(rank).hear() == "ready");
  job.signal(stopped, SIGSTOP);
  job.line(1).say("ask");
  const std::string wanted = stopped == 0 ? "0 silent; 1 arrived; 2 arrived; 3 not arrived; OK"
                                          : "0 arrived; 1 arrived; 2 silent; 3 not arrived; OK";
  CHECK(job.line(1).hear() == wanted);
  job.signal(stopped, SIGCONT);
  job.line(1).say("ask");
  CHECK(job.line(1).hear() == "0 arrived; 1 arrived; 2 arrived; 3 not arrived; OK");
}

TEST_CASE("a failure is heard by all although rank 0 is stopped, and by rank 0 once it goes on",
          "[runtime][control]") {
  const ProcessJob job(4, [](ProcessSeat& seat) {
    seat.parent.say("ready");
    if (seat.rank == 1) {
      seat.parent.hear();
      seat.channel.poison(unavailable("waited 3 s for rank 0"));
    }
    if (seat.rank == 0) {
      seat.parent.hear();
      while (!seat.channel.failed()) seat.channel.sleep(milliseconds(100));
    }
    tell_failure(seat);
    stay(seat);
  });
  for (int rank = 0; rank < 4; ++rank) REQUIRE(job.line(rank).hear() == "ready");
  job.signal(0, SIGSTOP);
  const auto start = Clock::now();
  job.line(1).say("fail");
  const std::string wanted = "UNAVAILABLE: rank 1: waited 3 s for rank 0";
  for (const int rank : {1, 2, 3}) {
    const Heard heard = heard_by(job, rank, start);
    CHECK(heard.what == wanted);
    CHECK(heard.after_ms < testing::kSoonMs);
  }
  job.signal(0, SIGCONT);
  job.line(0).say("go on");
  CHECK(heard_by(job, 0, start).what == wanted);
}

TEST_CASE("while a waiting rank is stopped no deadlock is judged, and it is once it goes on",
          "[runtime][control]") {
  const ProcessJob job(2, [](ProcessSeat& seat) {
    const LaneKey& own = seat.rank == 0 ? kLane : kOther;
    ++seat.channel.started(own);
    if (seat.rank == 0) seat.parent.hear();
    seat.channel.waits({own, 0, {0, 1}, seat.rank == 0 ? "A" : "B"});
    if (seat.rank == 1) {
      std::this_thread::sleep_for(milliseconds(50));  // until rank 0 has been told
      seat.parent.say("waits");
      return tell_failure(seat), stay(seat);
    }
    std::this_thread::sleep_for(milliseconds(400));
    seat.parent.say(seat.channel.first_failure().ToString());
    tell_failure(seat);
    stay(seat);
  });
  REQUIRE(job.line(1).hear() == "waits");
  job.signal(1, SIGSTOP);
  job.line(0).say("wait");
  CHECK(job.line(0).hear() == "OK");
  job.signal(1, SIGCONT);
  const std::string wanted =
      "FAILED_PRECONDITION: no rank can go on: rank 0 waits in A; rank 1 waits in B";
  CHECK(heard_by(job, 0, {}).what == wanted);
  CHECK(heard_by(job, 1, {}).what == wanted);
}

TEST_CASE("a rank short of descriptors is silent, does not spin, and answers once it has some",
          "[runtime][control]") {
  const ProcessJob job(2, [](ProcessSeat& seat) {
    const ControlWait wait{kLane, 0, {0, 1}, ""};
    if (seat.rank == 1) {
      seat.parent.hear();
      seat.parent.say(to_text(seat.channel.ask(wait, milliseconds(800))));
      seat.parent.hear();
      return seat.parent.say(to_text(seat.channel.ask(wait, testing::kSoon))), stay(seat);
    }
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    const rlimit none{.rlim_cur = 3, .rlim_max = limit.rlim_max};  // those open stay open
    ::setrlimit(RLIMIT_NOFILE, &none);
    const std::clock_t before = std::clock();
    seat.parent.say("short");
    seat.parent.hear();
    const double cpu_ms = 1e3 * static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    seat.parent.say(cpu_ms < 40 ? "calm" : "spun for " + std::to_string(cpu_ms) + " ms");
    stay(seat);
  });
  REQUIRE(job.line(0).hear() == "short");
  job.line(1).say("ask");
  CHECK(job.line(1).hear() == "0 silent; 1 not arrived; ");
  job.line(0).say("recover");
  CHECK(job.line(0).hear() == "calm");
  job.line(1).say("ask");
  CHECK(job.line(1).hear() == "0 not arrived; 1 not arrived; ");
}

}  // namespace tessera
