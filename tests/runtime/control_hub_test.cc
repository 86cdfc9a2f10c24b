#include "runtime/control/hub.h"

namespace tessera {
namespace {

using control::Message;
using Letters = ControlHub::Letters;
using Time = ControlHub::Time;

constexpr LaneKey kLane{.group = 1};
constexpr LaneKey kOther{.group = 2};
const Time kStart{};
const Time kLater = kStart + ControlHub::kGrace;

control::Waiting waiting(std::uint64_t number, const LaneKey& lane, const std::string& text) {
  return {number, {lane, 0, {0, 1}, text}, {{lane, 1}}};
}

template <class Kind>
std::vector<Kind> all_of(const Letters& letters) {
  std::vector<Kind> found;
  for (const ControlHub::Letter& letter : letters) {
    if (const auto* kind = std::get_if<Kind>(&letter.message)) found.push_back(*kind);
  }
  return found;
}
std::string failure_in(const Letters& letters) {
  const auto failures = all_of<control::Failure>(letters);
  return failures.empty() ? "none" : failures.front().text;
}

/// Two ranks that wait for one another, asked whether they do.
struct Crossed {
  ControlHub hub{2};
  std::uint64_t epoch = 0;
  Crossed() {
    hub.receive(0, waiting(1, kLane, "A"), kStart);
    hub.receive(1, waiting(4, kOther, "B"), kStart);
    epoch = all_of<control::Probe>(hub.tick(kLater)).at(0).epoch;
  }
  std::string reply(std::int64_t rank, std::uint64_t number, const LaneKey& started,
                    std::uint64_t of_epoch) {
    return failure_in(
        hub.receive(rank, control::ProbeReply{of_epoch, number, {{started, 1}}}, kLater));
  }
};

const char* const kVerdict = "no rank can go on: rank 0 waits in A; rank 1 waits in B";

}  // namespace

TEST_CASE("a deadlock is judged once all have confirmed that they still wait",
          "[runtime][control]") {
  Crossed crossed;
  CHECK(crossed.reply(0, 1, kLane, crossed.epoch) == "none");
  CHECK(crossed.reply(0, 1, kLane, crossed.epoch) == "none");  // the same rank again
  CHECK(crossed.reply(1, 4, kOther, crossed.epoch) == kVerdict);
}

TEST_CASE("groups are numbered from 1, one number for the same ranks in the same order",
          "[runtime][control]") {
  ControlHub hub(4);
  const auto number_of = [&](std::int64_t from, const std::vector<std::int64_t>& ranks) {
    const Letters letters = hub.receive(from, control::GroupAsked{7, ranks}, kStart);
    const auto numbers = all_of<control::GroupNumber>(letters);
    return numbers.size() == 1 && numbers[0].request == 7 && letters[0].to == from ? numbers[0].id
                                                                                   : 0;
  };
  CHECK(number_of(0, {0, 1}) == 1);
  CHECK(number_of(2, {2, 3}) == 2);
  CHECK(number_of(1, {1, 0}) == 3);
  CHECK(number_of(1, {0, 1}) == 1);
}

TEST_CASE("ranks that all wait are given a moment before they are asked", "[runtime][control]") {
  ControlHub hub(2);
  CHECK_FALSE(hub.due().has_value());
  hub.receive(0, waiting(1, kLane, "A"), kStart);
  CHECK_FALSE(hub.due().has_value());
  hub.receive(1, waiting(1, kOther, "B"), kStart);
  REQUIRE(hub.due().has_value());
  CHECK(*hub.due() == kLater);
  CHECK(hub.tick(kLater - std::chrono::nanoseconds(1)).empty());
  CHECK(all_of<control::Probe>(hub.tick(kLater)).size() == 2);
  CHECK_FALSE(hub.due().has_value());  // nothing runs while the answers are out
  CHECK(hub.tick(kLater + ControlHub::kGrace).empty());
}

TEST_CASE("ranks are not asked once one of them goes on", "[runtime][control]") {
  ControlHub hub(2);
  hub.receive(0, waiting(1, kLane, "A"), kStart);
  hub.receive(1, waiting(1, kOther, "B"), kStart);
  REQUIRE(hub.due().has_value());
  hub.receive(1, control::Running{}, kStart);
  CHECK_FALSE(hub.due().has_value());
  CHECK(hub.tick(kLater).empty());
}

TEST_CASE("no deadlock is judged by stale or changed answers", "[runtime][control]") {
  Crossed crossed;
  SECTION("of an earlier question") {
    CHECK(crossed.reply(0, 1, kLane, crossed.epoch - 1) == "none");
    CHECK(crossed.reply(1, 4, kOther, crossed.epoch) == "none");
  }
  SECTION("of a rank that runs") {
    CHECK(crossed.reply(0, 0, kLane, crossed.epoch) == "none");
    CHECK(crossed.reply(1, 4, kOther, crossed.epoch) == "none");
  }
  SECTION("of a rank that waits for something else by now") {
    CHECK(crossed.reply(0, 2, kLane, crossed.epoch) == "none");
    CHECK(crossed.reply(1, 4, kOther, crossed.epoch) == "none");
  }
  SECTION("of a rank that has started what is waited for") {
    CHECK(crossed.reply(0, 1, kOther, crossed.epoch) == "none");
    CHECK(crossed.reply(1, 4, kOther, crossed.epoch) == "none");
  }
  SECTION("after a rank has said that it goes on") {
    crossed.hub.receive(0, control::Running{}, kLater);
    CHECK(crossed.reply(0, 1, kLane, crossed.epoch) == "none");
    CHECK(crossed.reply(1, 4, kOther, crossed.epoch) == "none");
    CHECK_FALSE(crossed.hub.due().has_value());
    // It waits again: a new question, which old answers do not answer.
    crossed.hub.receive(0, waiting(2, kLane, "A"), kLater);
    CHECK(all_of<control::Probe>(crossed.hub.tick(kLater + ControlHub::kGrace)).size() == 2);
    CHECK(crossed.reply(1, 4, kOther, crossed.epoch) == "none");
    CHECK(crossed.reply(0, 2, kLane, crossed.epoch + 1) == "none");
    CHECK(crossed.reply(1, 4, kOther, crossed.epoch + 1) == kVerdict);
  }
  SECTION("after another failure") {
    CHECK(failure_in(crossed.hub.receive(1, control::Poison{3, "rank 1: x"}, kLater)) ==
          "rank 1: x");
    crossed.reply(0, 1, kLane, crossed.epoch);
    CHECK(crossed.reply(1, 4, kOther, crossed.epoch) == "none");
  }
}

TEST_CASE("a death is the failure, unless the rank has left or another came first",
          "[runtime][control]") {
  ControlHub hub(4);
  hub.receive(1, control::Leave{}, kStart);
  CHECK(hub.lost(1, "died", kStart).empty());
  const Letters letters = hub.lost(2, "died in all_to_all #812", kStart);
  CHECK(failure_in(letters) == "rank 2 died in all_to_all #812");
  CHECK(all_of<control::Gone>(letters).at(0).end == control::End::kDied);
  CHECK(hub.lost(2, "died", kStart).empty());
  const Letters second = hub.lost(3, "died", kStart);
  CHECK(failure_in(second) == "none");
  CHECK(all_of<control::Gone>(second).size() == 1);  // who waits for all to end hears of each
}

TEST_CASE("a hub leaves alone what no rank says to it, and ranks that are none",
          "[runtime][control]") {
  ControlHub hub(2);
  const Message strange[] = {control::Hello{},       control::Welcome{}, control::Failure{2, "x"},
                             control::GroupNumber{}, control::Probe{},   control::ProbeReply{},
                             control::Gone{},        control::Query{},   control::Answer{}};
  for (const Message& message : strange) CHECK(hub.receive(1, message, kStart).empty());
  CHECK(hub.receive(2, control::Poison{2, "x"}, kStart).empty());
  CHECK(hub.receive(-1, control::Leave{}, kStart).empty());
  CHECK(hub.lost(7, "died", kStart).empty());
  // Parties that do not exist keep nobody waiting for good.
  hub.receive(0, control::Waiting{1, {kLane, 0, {0, 99, -5}, "A"}, {{kLane, 1}}}, kStart);
  hub.receive(1, control::Leave{}, kStart);
  CHECK_FALSE(hub.due().has_value());
}

TEST_CASE("a rank that has left says nothing more that counts", "[runtime][control]") {
  ControlHub hub(2);
  CHECK(all_of<control::Gone>(hub.receive(0, control::Leave{{{kLane, 3}}}, kStart)).size() == 1);
  CHECK(hub.receive(0, control::Leave{}, kStart).empty());
  hub.receive(0, waiting(1, kOther, "A"), kStart);
  hub.receive(0, control::Running{}, kStart);
  hub.receive(1, waiting(1, kOther, "B"), kStart);
  CHECK(hub.due().has_value());  // rank 0 has returned, and rank 1 waits for it
}

}  // namespace tessera
