// What a rank knows of the others, as the hub or they themselves tell it. No sockets: messages are
// handed over as the background thread would.
#include <catch2/catch.hpp>
#include <stdexcept>

#include "runtime/control/state.h"
#include "tests/support/patience.h"

namespace tessera {
namespace {

using Ranks = std::vector<std::int64_t>;
using Kind = PartyState::Kind;
using testing::kSoon;

constexpr std::chrono::milliseconds kNow{0};
constexpr LaneKey kLane{.group = 3};
const ControlWait kSecondCall{kLane, 1, {0, 1, 2}, "all_gather #2"};

ControlState state_of(std::int64_t rank, std::int64_t size) {
  return {ControlPlace{rank, size}, value_or_throw(WakeUp::make())};
}
control::Gone gone(std::int64_t rank, control::End end, std::uint64_t calls) {
  return {rank, end, {{kLane, calls}}};
}

}  // namespace

TEST_CASE("a rank that has left is known by its last counts", "[runtime][control]") {
  ControlState state = state_of(1, 4);
  CHECK(state.those_still_here() == Ranks{0, 2, 3});
  state.hear(gone(2, control::End::kLeft, 1));
  state.hear(gone(3, control::End::kLeft, 2));
  CHECK(state.those_still_here() == Ranks{0});
  CHECK(state.state_of_left(2, kSecondCall)->kind == Kind::kNotArrived);
  CHECK(state.state_of_left(3, kSecondCall)->kind == Kind::kArrived);
  CHECK(state.state_of_left(3, kSecondCall)->doing == "has returned");
  CHECK_FALSE(state.state_of_left(0, kSecondCall).has_value());
  CHECK_FALSE(state.state_of_left(4, kSecondCall).has_value());
  CHECK(state.missing_for_good(kSecondCall) == 2);
  CHECK_FALSE(state.failed());
  CHECK_FALSE(state.wait_until_all_left(kNow));
}

TEST_CASE("a rank that has failed is here until it leaves, one that has died is not",
          "[runtime][control]") {
  ControlState state = state_of(1, 3);
  state.hear(gone(0, control::End::kFailed, 1));
  state.hear(gone(7, control::End::kDied, 1));
  CHECK(state.those_still_here() == Ranks{0, 2});
  state.hear(gone(2, control::End::kDied, 1));
  CHECK(state.those_still_here() == Ranks{0});
  CHECK_FALSE(state.state_of_left(2, kSecondCall).has_value());
  state.hear(gone(0, control::End::kLeft, 1));
  CHECK_FALSE(state.wait_until_all_ended(kNow));
  state.leave();
  CHECK(state.wait_until_all_ended(kSoon));
  CHECK(state.wait_until_all_left(kSoon));
}

TEST_CASE("the loss of the hub is rank 0's death, unless it has left", "[runtime][control]") {
  ControlState state = state_of(1, 3);
  CHECK_FALSE(state.is_hub_gone());
  SECTION("its death") {
    state.lose_hub();
    CHECK(state.failed());
    CHECK(state.first_failure() == absl::UnavailableError("rank 0 died"));
    CHECK(state.wait_for_verdict(kSoon));
    CHECK(state.wait_for_group(1, kSoon).status() == absl::UnavailableError("rank 0 died"));
  }
  SECTION("its death, where its record tells in what") {
    state.set_describe_dead([](std::int64_t rank) { return "call " + std::to_string(rank); });
    state.lose_hub();
    CHECK(state.first_failure() == absl::UnavailableError("rank 0 died in call 0"));
  }
  SECTION("its death, where its record cannot be read") {
    state.set_describe_dead([](std::int64_t) -> std::string { throw std::runtime_error("torn"); });
    state.lose_hub();
    CHECK(state.first_failure() == absl::UnavailableError("rank 0 died"));
  }
  SECTION("its leave") {
    state.hear(gone(0, control::End::kLeft, 1));
    state.lose_hub();
    CHECK_FALSE(state.failed());
    CHECK_FALSE(state.wait_for_verdict(kSoon));
    CHECK(state.wait_for_group(1, kSoon).status() == absl::UnavailableError("rank 0 has left"));
  }
  CHECK(state.is_hub_gone());
  CHECK(state.those_still_here() == Ranks{2});
  CHECK(state.wait_until_all_left(kSoon));  // nobody tells who leaves any more
  CHECK_FALSE(state.wait_until_all_ended(kNow));
}

TEST_CASE("the first failure stays, the hub's before a rank's own word", "[runtime][control]") {
  ControlState state = state_of(2, 3);
  SECTION("what this rank has failed with names it once") {
    const control::Poison said = state.fail(absl::InternalError("out of order"));
    CHECK(said.text == "rank 2: out of order");
    CHECK(said.code == static_cast<int>(absl::StatusCode::kInternal));
    CHECK(state.failed());
    CHECK(state.first_failure() == absl::InternalError("rank 2: out of order"));
    state.hear(control::Failure{14, "rank 1 died"});
    CHECK(state.first_failure() == absl::UnavailableError("rank 1 died"));
    state.hear(control::Failure{13, "rank 0: something else"});
    CHECK(state.first_failure() == absl::UnavailableError("rank 1 died"));
  }
  SECTION("what was heard before is what this rank passes on") {
    state.hear_directly({14, "rank 1 died"});
    state.hear_directly({13, "rank 0: something else"});
    CHECK(state.failed());
    CHECK(state.fail(absl::InternalError("cannot go on")).text == "rank 1 died");
    CHECK(state.first_failure() == absl::UnavailableError("rank 1 died"));
  }
}

TEST_CASE("a rank says where it stands, and what it waits in", "[runtime][control]") {
  ControlState state = state_of(1, 3);
  CHECK(state.answer(control::Query{kLane, 0}).doing == "runs");
  CHECK_FALSE(state.answer(control::Query{kLane, 0}).arrived);
  state.started(kLane) = 1;
  CHECK(state.answer(control::Query{kLane, 0}).arrived);
  CHECK_FALSE(state.answer(control::Query{kLane, 1}).arrived);
  CHECK(state.answer(control::Probe{5}).epoch == 5);
  CHECK(state.answer(control::Probe{5}).number == 0);
  CHECK(state.answer(control::Probe{5}).started == StartedCounts{{kLane, 1}});

  state.waits(kSecondCall);
  CHECK(state.answer(control::Query{kLane, 1}).doing == "all_gather #2");
  CHECK(state.answer(control::Probe{6}).number == 1);
  state.stops_waiting();
  state.stops_waiting();
  CHECK(state.answer(control::Probe{6}).number == 0);
  state.waits(kSecondCall);
  CHECK(state.answer(control::Probe{6}).number == 2);

  CHECK(std::holds_alternative<control::Welcome>(state.own_farewell()));
  state.leave();
  state.leave();
  CHECK(state.answer(control::Query{kLane, 0}).doing == "has returned");
  CHECK(state.answer(control::Query{kLane, 0}).arrived);
  const control::Message farewell = state.hear_farewell(2, {{{kLane, 4}}});
  REQUIRE(std::holds_alternative<control::Leave>(farewell));
  CHECK(std::get<control::Leave>(farewell).started == StartedCounts{{kLane, 1}});
  CHECK(state.those_still_here() == Ranks{0});

  // Each change was said once, in order.
  const std::vector<control::Message> said = state.take_said();
  REQUIRE(said.size() == 4);
  CHECK(std::get<control::Waiting>(said[0]).number == 1);
  CHECK(std::get<control::Waiting>(said[0]).wait.text == "all_gather #2");
  CHECK(std::holds_alternative<control::Running>(said[1]));
  CHECK(std::get<control::Waiting>(said[2]).number == 2);
  CHECK(std::get<control::Leave>(said[3]).started == StartedCounts{{kLane, 1}});
  CHECK(state.take_said().empty());
}

TEST_CASE("a group's number is taken once, by who asked for it", "[runtime][control]") {
  ControlState state = state_of(1, 2);
  CHECK(state.wait_for_group(7, kNow).status() == absl::UnavailableError("rank 0 does not answer"));
  state.hear(control::GroupNumber{8, 12});
  state.hear(control::GroupNumber{7, 11});
  CHECK(state.wait_for_group(7, kSoon).value() == 11);
  CHECK(state.wait_for_group(8, kSoon).value() == 12);
  CHECK_FALSE(state.wait_for_group(7, kNow).ok());
}

}  // namespace tessera
