#include <dirent.h>
#include <sys/socket.h>

#include <atomic>
#include <numeric>
#include <stdexcept>

#include "runtime/control/host_identity.h"
#include "runtime/control/socket.h"
#include "runtime/control/state.h"
#include "testing/program.h"
#include "tests/runtime/control_ranks.h"

namespace tessera {
namespace {

using testing::becomes_true;
using testing::complaints_of_channels;
using testing::milliseconds;
using testing::open_on_all;
using testing::Rendezvous;
using testing::Seat;
using testing::seconds_since;
using Clock = std::chrono::steady_clock;
using Texts = std::vector<std::string>;
using Kind = PartyState::Kind;

constexpr LaneKey kLane{.group = 7};
constexpr LaneKey kOther{.group = 8};

std::vector<std::int64_t> ranks_below(std::int64_t size) {
  std::vector<std::int64_t> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}
/// The first call of a lane, among two ranks.
ControlWait call_of(const LaneKey& lane, std::int64_t one, std::int64_t other) {
  return {lane, 0, {one, other}, "call of lane " + std::to_string(lane.group)};
}

int entries_of(const char* path) {
  int count = 0;
  DIR* dir = opendir(path);
  if (dir == nullptr) return -1;
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count;
}

/// The channels of a job, by rank, all in this thread's hands.
std::vector<std::unique_ptr<ControlChannel>> open_channels(Rendezvous& rendezvous, int size) {
  std::vector<std::unique_ptr<ControlChannel>> channels(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      channels[static_cast<std::size_t>(rank)] =
          *ControlChannel::open({rank, size}, {}, rendezvous.for_rank(rank));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return channels;
}

}  // namespace

// ---- failure

TEST_CASE("poison reaches every rank with its code and text", "[runtime][control]") {
  const int size = GENERATE(1, 2, 4, 8);
  const int poisoner = GENERATE(0, 1, 7);
  if (poisoner >= size) return;
  CAPTURE(size, poisoner);
  const std::string name = "rank " + std::to_string(poisoner);
  CHECK(complaints_of_channels(size, [&](const Seat& seat) {
          seat.expect(!seat.channel.failed(), "healthy");
          seat.expect(seat.channel.first_failure(), absl::OkStatus());
          seat.sync();
          const auto start = Clock::now();
          if (seat.rank == poisoner) seat.channel.poison(out_of_range("no such expert: 9"));
          seat.expect(becomes_true([&] { return seat.channel.failed(); }), "failed");
          seat.expect(seconds_since(start) < testing::kSoonSeconds, "soon");
          seat.expect(seat.channel.first_failure(), out_of_range(name + ": no such expert: 9"));
          seat.sync();
          seat.channel.poison(internal_error("a consequence"));
          seat.expect(seat.channel.first_failure(), out_of_range(name + ": no such expert: 9"));
        }) == Texts{});
}

TEST_CASE("of failures on all ranks at once, all keep the same one", "[runtime][control]") {
  constexpr int kSize = 6;
  std::vector<Status> kept(kSize);
  CHECK(complaints_of_channels(kSize, [&](const Seat& seat) {
          seat.sync();
          seat.channel.poison(invalid_argument("mine"));
          kept[static_cast<std::size_t>(seat.rank)] = seat.channel.first_failure();
        }) == Texts{});
  for (const Status& status : kept) {
    CHECK(status == kept.front());
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("news of a failure ends a sleep at once, even news from before it",
          "[runtime][control]") {
  CHECK(complaints_of_channels(3, [](const Seat& seat) {
          const auto start = Clock::now();
          seat.sync();
          if (seat.rank == 2) {
            std::this_thread::sleep_for(milliseconds(30));
            seat.channel.poison(internal_error("late"));
          }
          while (!seat.channel.failed()) seat.channel.sleep(std::chrono::seconds(20));
          seat.expect(seconds_since(start) < testing::kSoonSeconds, "woken");
          seat.sync();
          const auto sleeps_through = [&] {
            const auto quiet = Clock::now();
            seat.channel.sleep(milliseconds(40));
            return seconds_since(quiet) >= 0.04;
          };
          seat.expect(becomes_true(sleeps_through), "asleep once nothing is heard any more");
        }) == Texts{});
}

// ---- leaving

TEST_CASE("a rank that has left is missed by the calls that it has not started",
          "[runtime][control]") {
  CHECK(complaints_of_channels(3, [](const Seat& seat) {
          ControlWait wait{kLane, 1, {0, 1, 2}, "all_reduce #1"};
          seat.channel.started(kLane) = 1;  // call 0, of which all are part
          seat.expect(!seat.channel.missing_for_good(wait), "missing before anyone has left");
          seat.sync();
          if (seat.rank == 1) return seat.channel.leave();
          seat.expect(becomes_true([&] { return seat.channel.missing_for_good(wait) == 1; }),
                      "missing rank 1");
          wait.sequence = 0;
          seat.expect(!seat.channel.missing_for_good(wait), "missing from what it has started");
          wait = {kLane, 1, {0, 2}, "of others"};
          seat.expect(!seat.channel.missing_for_good(wait), "missing where it is no party");
          seat.expect(!seat.channel.failed(), "healthy");
        }) == Texts{});
}

TEST_CASE("what a rank has left behind is no failure, though its channel is gone",
          "[runtime][control]") {
  Rendezvous rendezvous(3);
  std::vector<std::unique_ptr<ControlChannel>> channels = open_channels(rendezvous, 3);
  channels[2].reset();  // destroying is leaving
  CHECK(becomes_true([&] {
    return channels[0]->missing_for_good(ControlWait{kLane, 0, {0, 2}, ""}) == 2 &&
           channels[1]->missing_for_good(ControlWait{kLane, 0, {1, 2}, ""}) == 2;
  }));
  CHECK_FALSE(channels[1]->wait_until_all_left(milliseconds(20)));
  channels[0]->leave();
  CHECK_FALSE(channels[0]->wait_until_all_left(milliseconds(20)));  // rank 1 has not
  channels[1]->leave();
  CHECK(channels[1]->wait_until_all_left(milliseconds(2000)));
  CHECK(channels[0]->wait_until_all_left(milliseconds(2000)));
  channels[0].reset();
  CHECK_FALSE(channels[1]->failed());
  CHECK(channels[1]->first_failure() == absl::OkStatus());
}

TEST_CASE("when rank 0 has left and gone, the others are told so instead of waiting",
          "[runtime][control]") {
  Rendezvous rendezvous(2);
  std::vector<std::unique_ptr<ControlChannel>> channels = open_channels(rendezvous, 2);
  channels[0].reset();
  ControlChannel* const other = channels[1].get();
  const ControlWait wait{kLane, 0, {0, 1}, ""};
  CHECK(becomes_true([&] { return other->missing_for_good(wait) == 0; }));
  const std::vector<std::int64_t> both{0, 1};
  CHECK(other->group_id(both).status() == unavailable("rank 0 has left"));
  CHECK_FALSE(other->failed());
  CHECK(other->ask(wait, milliseconds(500)).front().doing == "has returned");
}

TEST_CASE("with rank 0's end nobody waits for others to leave", "[runtime][control]") {
  Rendezvous rendezvous(3);
  std::vector<std::unique_ptr<ControlChannel>> channels = open_channels(rendezvous, 3);
  channels[0].reset();  // it leaves, and is killed before the others have left
  channels[1]->leave();
  CHECK(becomes_true([&] { return channels[1]->wait_until_all_left(milliseconds(1)); }));
  CHECK_FALSE(channels[1]->failed());
}

TEST_CASE("a failure that a rank passes on keeps its own code", "[runtime][control]") {
  ControlState state({1, 3}, *WakeUp::make());
  state.hear_directly(
      {static_cast<std::int32_t>(absl::StatusCode::kDeadlineExceeded), "rank 2: timed out"});
  const control::Poison told = state.fail(unavailable("rank 2: timed out"));  // as its call ends
  CHECK(told.code == static_cast<std::int32_t>(absl::StatusCode::kDeadlineExceeded));
  CHECK(told.text == "rank 2: timed out");
}

// ---- groups

TEST_CASE("group numbers are equal for equal lists, and else differ", "[runtime][control]") {
  constexpr int kSize = 4;
  const std::vector<std::vector<std::int64_t>> lists{{0},    {0, 1}, {1, 0}, {0, 1, 2, 3},
                                                     {2, 3}, {3},    {},     ranks_below(2000)};
  std::vector<std::vector<std::uint32_t>> ids(kSize, std::vector<std::uint32_t>(lists.size()));
  CHECK(complaints_of_channels(kSize, [&](const Seat& seat) {
          for (std::size_t at = 0; at < lists.size(); ++at) {  // each rank in another order
            const std::size_t list = (at + static_cast<std::size_t>(seat.rank) * 3) % lists.size();
            const auto id = seat.channel.group_id(lists[list]);
            seat.expect(id.ok() && *id == *seat.channel.group_id(lists[list]), "numbered twice");
            if (id.ok()) ids[static_cast<std::size_t>(seat.rank)][list] = *id;
          }
          const auto huge = seat.channel.group_id(ranks_below(200'000));
          seat.expect(huge.status().code() == absl::StatusCode::kInvalidArgument, "refused");
        }) == Texts{});
  for (const auto& of_rank : ids) CHECK(of_rank == ids.front());
  std::vector<std::uint32_t> distinct = ids.front();
  std::sort(distinct.begin(), distinct.end());
  CHECK(std::adjacent_find(distinct.begin(), distinct.end()) == distinct.end());
}

TEST_CASE("a group asked for after a failure is refused with that failure", "[runtime][control]") {
  CHECK(complaints_of_channels(2, [](const Seat& seat) {
          if (seat.rank == 1) seat.channel.poison(io_error("disk full"));
          seat.sync();
          becomes_true([&] { return seat.channel.failed(); });
          const std::vector<std::int64_t> both{0, 1};
          seat.expect(seat.channel.group_id(both).status(), io_error("rank 1: disk full"));
        }) == Texts{});
}

// ---- who waits for whom

TEST_CASE("ranks that wait crosswise are told that none can go on", "[runtime][control]") {
  const int size = GENERATE(2, 4);
  CAPTURE(size);
  std::vector<double> seconds(static_cast<std::size_t>(size));
  CHECK(complaints_of_channels(size, [&](const Seat& seat) {
          // Pairs of ranks: the even one starts lane 7 first, the odd one lane 8.
          const std::int64_t even = seat.rank - seat.rank % 2;
          const LaneKey& first = seat.rank % 2 == 0 ? kLane : kOther;
          ++seat.channel.started(first);
          seat.sync();
          const auto start = Clock::now();
          seat.channel.waits(call_of(first, even, even + 1));
          while (!seat.channel.failed() && seconds_since(start) < testing::kSoonSeconds) {
            seat.channel.sleep(milliseconds(100));
          }
          seconds[static_cast<std::size_t>(seat.rank)] = seconds_since(start);
          std::string text =
              "no rank can go on: rank 0 waits in call of lane 7; rank 1 waits in "
              "call of lane 8";
          if (size == 4) {
            text += "; rank 2 waits in call of lane 7; rank 3 waits in call of lane 8";
          }
          seat.expect(seat.channel.first_failure(), failed_precondition(text));
        }) == Texts{});
  for (const double time : seconds) CHECK(time < testing::kSoonSeconds);
}

TEST_CASE("a rank that has returned is part of a deadlock's text", "[runtime][control]") {
  CHECK(complaints_of_channels(3, [](const Seat& seat) {
          if (seat.rank == 1) return seat.channel.leave();
          const LaneKey& own = seat.rank == 0 ? kLane : kOther;
          ++seat.channel.started(own);
          seat.channel.waits(call_of(own, 0, 2));
          seat.expect(becomes_true([&] { return seat.channel.failed(); }), "found");
          seat.expect(seat.channel.first_failure(),
                      failed_precondition("no rank can go on: rank 0 waits in call of lane 7; "
                                          "rank 1 has returned; rank 2 waits in call of lane 8"));
        }) == Texts{});
}

TEST_CASE("no deadlock is seen where some rank can go on", "[runtime][control]") {
  enum class Case { kOneComputes, kAllHaveStarted, kOnePairGoesOn, kWaitsAnew };
  const Case which =
      GENERATE(Case::kOneComputes, Case::kAllHaveStarted, Case::kOnePairGoesOn, Case::kWaitsAnew);
  CAPTURE(static_cast<int>(which));
  CHECK(complaints_of_channels(4, [&](const Seat& seat) {
          ControlChannel& channel = seat.channel;
          const auto start = Clock::now();
          const bool crosses = which != Case::kAllHaveStarted && seat.rank == 1;
          const bool goes_on = which == Case::kOnePairGoesOn && seat.rank >= 2;
          const LaneKey lane = goes_on ? LaneKey{9} : crosses ? kOther : kLane;
          ++channel.started(lane);
          seat.sync();
          const ControlWait wait =
              goes_on ? call_of(lane, 2, 3) : ControlWait{lane, 0, {0, 1, 2, 3}, "a call"};
          if (which == Case::kOneComputes && seat.rank == 3) {
            std::this_thread::sleep_for(milliseconds(500));
          } else if (which == Case::kWaitsAnew && seat.rank == 3) {
            while (seconds_since(start) < 0.5) {  // it runs now and then, and may start a call
              channel.waits(wait);
              std::this_thread::sleep_for(milliseconds(20));
              channel.stops_waiting();
            }
          } else {
            channel.waits(wait);
            std::this_thread::sleep_for(milliseconds(500));
          }
          seat.sync();
          seat.expect(!channel.failed(),
                      "without failure, but " + channel.first_failure().ToString());
        }) == Texts{});
}

TEST_CASE("who is asked says whether it has come to a call, and what it does",
          "[runtime][control]") {
  CHECK(complaints_of_channels(4, [](const Seat& seat) {
          ControlChannel& channel = seat.channel;
          const ControlWait wait{kLane, 4, {0, 1, 2, 3}, "all_gather #4"};
          channel.started(kLane) = seat.rank == 2 ? 4 : 5;
          if (seat.rank == 1) channel.waits(wait);
          if (seat.rank == 3) channel.leave();
          seat.sync();
          becomes_true([&] { return channel.ask(wait, milliseconds(500))[3].doing != "runs"; });
          const auto start = Clock::now();
          const std::vector<PartyState> parties = channel.ask(wait, std::chrono::minutes(1));
          seat.expect(seconds_since(start) < testing::kSoonSeconds, "answered, not waited for");
          const Kind kinds[] = {Kind::kArrived, Kind::kArrived, Kind::kNotArrived, Kind::kArrived};
          const std::string doing[] = {"runs", "all_gather #4", "runs", "has returned"};
          for (std::size_t at = 0; at < 4; ++at) {
            const std::string name = "as told of rank " + std::to_string(at);
            seat.expect(parties[at].rank == static_cast<std::int64_t>(at), name);
            seat.expect(parties[at].kind == kinds[at], name + " come or not");
            seat.expect(parties[at].doing == doing[at], name + ": " + parties[at].doing);
          }
        }) == Texts{});
}

// ---- opening

TEST_CASE("a port already taken is the same error on every rank", "[runtime][control]") {
  const auto taken = listen_on("127.0.0.1", 0);
  REQUIRE(taken.ok());
  Rendezvous rendezvous(4);
  ControlOptions options;
  options.port = taken->endpoint.port;
  const Status wanted =
      unavailable("rank 0 cannot listen on 127.0.0.1:" + std::to_string(options.port) +
                  ": Address already in use");
  CHECK(open_on_all(4, rendezvous, options) == std::vector<Status>(4, wanted));
}

TEST_CASE("an address that is none is the same error on every rank", "[runtime][control]") {
  Rendezvous rendezvous(3);
  const std::vector<Status> seen = open_on_all(3, rendezvous, {.host = "203.0.113.7"});
  CHECK(seen == std::vector<Status>(3, unavailable("rank 0 cannot listen on 203.0.113.7:0: Cannot "
                                                   "assign requested address")));
}

TEST_CASE(
    "ranks meet at the loopback, at a host asked for, or where their networks differ at another "
    "address than the loopback",
    "[runtime][control]") {
  const auto address_of_1 = [](const Rendezvous& rendezvous) {
    const std::string& text = rendezvous.rounds().at(1).at(1);
    return text.substr(0, text.rfind(' '));
  };
  const std::vector<Status> fine(3);
  Rendezvous at_home(3);
  CHECK(open_on_all(3, at_home) == fine);
  CHECK(address_of_1(at_home) == "listens 127.0.0.1");
  CHECK(at_home.rounds().at(0) == Texts(3, network_id()));
  CHECK(network_id().find(host_name()) == std::string::npos);
  Rendezvous asked(3);
  CHECK(open_on_all(3, asked, {.host = "127.0.0.2"}) == fine);
  CHECK(address_of_1(asked) == "listens 127.0.0.2");
  Rendezvous named(3);
  CHECK(open_on_all(3, named, {.host = "localhost"}) == fine);
  if (address_for_others() == host_name()) {
    return testing::skip("this machine has nothing but the loopback");
  }
  Rendezvous apart(3);
  apart.tamper = [](int round, Texts& texts) {
    if (round == 0) texts = {"one", "two", "three"};
  };
  CHECK(open_on_all(3, apart) == fine);
  CHECK(address_of_1(apart) == "listens " + address_for_others());
  CHECK_FALSE(address_of_1(apart).starts_with("listens 127."));
}

TEST_CASE("a hub that cannot be reached is the same error on every rank", "[runtime][control]") {
  const auto listener = listen_on("127.0.0.1", 0);  // never accepts
  REQUIRE(listener.ok());
  const bool refuses = GENERATE(true, false);
  if (refuses) shutdown(listener->socket.number(), SHUT_RD);  // keeps the port, listens no more
  const int port = listener->endpoint.port;
  const std::string why = refuses ? "Connection refused" : "no answer within 150 ms";
  CAPTURE(why);
  Rendezvous rendezvous(3);
  rendezvous.tamper = [&](int round, Texts& texts) {
    if (round != 1) return;
    const auto token = texts[0].substr(texts[0].rfind(' '));
    texts[0] = "listens 127.0.0.1 " + std::to_string(port) + token;
  };
  ControlOptions options;
  options.connect_timeout = milliseconds(150);
  const auto start = Clock::now();
  const Status wanted =
      unavailable("rank 1 cannot reach rank 0 at 127.0.0.1:" + std::to_string(port) + ": " + why);
  CHECK(open_on_all(3, rendezvous, options) == std::vector<Status>(3, wanted));
  CHECK(seconds_since(start) < testing::kSoonSeconds);  // not the system's minutes
  CHECK(rendezvous.rounds().size() == 3);
}

TEST_CASE("a token that is not the hub's is turned away", "[runtime][control]") {
  Rendezvous rendezvous(2);
  rendezvous.tamper = [](int round, Texts& texts) {
    if (round == 1) texts[0].back() = texts[0].back() == '0' ? '1' : '0';
  };
  // Rank 0 reads the token that it published, so that its own copy is taken out of the tampering.
  std::vector<Status> seen(2);
  std::string own_text;
  std::thread other([&] {
    seen[1] = ControlChannel::open({1, 2}, {}, rendezvous.for_rank(1)).status();
  });
  const ExchangeTexts honest = [&](const std::string& own) {
    Texts texts = rendezvous.exchange(0, own);
    if (own.starts_with("listens")) texts[0] = own;
    return texts;
  };
  seen[0] = ControlChannel::open({0, 2}, {}, honest).status();
  other.join();
  for (const Status& status : seen) {
    CHECK(status.code() == absl::StatusCode::kUnavailable);
    CHECK(std::string(message_of(status)).ends_with(": it does not take this rank in"));
  }
}

TEST_CASE("a rendezvous that fails or lies is an error on every rank", "[runtime][control]") {
  const auto all_of = [](const std::function<void(int, Texts&)>& tamper) {
    Rendezvous rendezvous(2);
    rendezvous.tamper = tamper;
    return open_on_all(2, rendezvous);
  };
  const auto both = [](const std::string& text) {
    return std::vector<Status>(2, unavailable(text));
  };
  CHECK(all_of([](int round, Texts& texts) {
          if (round == 1) texts[1] = "listens nowhere";
        }) == both("rank 1 published no address for the control channel"));
  CHECK(all_of([](int round, Texts& texts) {
          if (round == 1) texts[0] += "0";  // a token one digit too long
        }) == both("rank 0 published no address for the control channel"));
  CHECK(all_of([](int round, Texts& texts) {
          if (round == 1) texts[1] = "fails cannot listen: out of descriptors";
        }) == both("rank 1 cannot listen: out of descriptors"));
  const ExchangeTexts dead = [](const std::string&) -> Texts {
    throw std::runtime_error("no route");
  };
  CHECK(ControlChannel::open({0, 2}, {}, dead).status() ==
        unavailable("the ranks' rendezvous failed: no route"));
  const ExchangeTexts lone = [](const std::string& own) { return Texts{own}; };
  CHECK(ControlChannel::open({0, 2}, {}, lone).status() ==
        unavailable("the ranks' rendezvous gave 1 of 2 texts"));
  CHECK(ControlChannel::open({2, 2}, {}, lone).status() == invalid_argument("rank 2 of 2 is none"));
  CHECK(ControlChannel::open({0, 1}, {}, nullptr).status().code() ==
        absl::StatusCode::kInvalidArgument);
}

TEST_CASE("channels leave no descriptor and no thread behind", "[runtime][control]") {
  const auto cycle = [](bool fails) {
    return complaints_of_channels(2, [&](const Seat& seat) {
      const std::vector<std::int64_t> both{0, 1};
      seat.expect(seat.channel.group_id(both).ok(), "numbered");
      seat.sync();
      if (fails && seat.rank == 1) seat.channel.poison(internal_error("as planned"));
    });
  };
  CHECK(cycle(false) == Texts{});
  const int descriptors = entries_of("/proc/self/fd");
  const int threads = entries_of("/proc/self/task");
  const auto start = Clock::now();
  for (int at = 0; at < 300; ++at) REQUIRE(cycle(at % 3 == 0) == Texts{});
  INFO("seconds: " << seconds_since(start));
  CHECK(entries_of("/proc/self/fd") == descriptors);
  CHECK(becomes_true([&] { return entries_of("/proc/self/task") == threads; }));
}

}  // namespace tessera
