#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <random>
#include <sstream>

#include "runtime/control/greeting.h"
#include "runtime/control/socket.h"
#include "runtime/control/visit.h"
#include "tests/runtime/control_ranks.h"
#include "tests/runtime/control_relay.h"

namespace tessera {
namespace {

using control::encode;
using control::Purpose;
using testing::becomes_true;
using testing::complaints_of_channels;
using testing::milliseconds;
using testing::Relay;
using testing::RelayedFrame;
using testing::Seat;
using testing::seconds_since;
using Clock = std::chrono::steady_clock;
using Texts = std::vector<std::string>;

constexpr LaneKey kLane{.group = 5};

/// Where the job's ranks listen, as its rendezvous has told them.
std::vector<Endpoint> endpoints_of(const Seat& seat) {
  std::vector<Endpoint> endpoints;
  for (const std::string& text : seat.met.rounds().at(1)) {
    std::istringstream words(text);
    std::string verb;
    Endpoint at;
    words >> verb >> at.address >> at.port;
    endpoints.push_back(at);
  }
  return endpoints;
}
ControlToken token_of(const Seat& seat) {
  const std::string& text = seat.met.rounds().at(1).at(0);
  const std::string digits = text.substr(text.rfind(' ') + 1);
  ControlToken token;
  for (std::size_t at = 0; at < token.bytes.size(); ++at) {
    token.bytes[at] = static_cast<std::uint8_t>(std::stoi(digits.substr(2 * at, 2), nullptr, 16));
  }
  return token;
}

Descriptor connected(const Endpoint& endpoint) {
  StatusOr<Descriptor> socket = begin_connecting(endpoint);
  if (!socket.ok()) return {};
  std::vector<pollfd> entries{{socket->number(), POLLOUT, 0}};
  poll_until(entries, Clock::now() + milliseconds(1000));
  return *std::move(socket);
}
void push(const Descriptor& socket, std::string bytes) { send_some(socket, bytes); }
bool is_closed(const Descriptor& socket) {
  std::string bytes;
  return receive_some(socket, bytes) == SocketState::kClosed;
}
/// A stranger's time in these tests: who is dropped before has been turned away.
const ControlOptions kPatient = {.stranger_limit = std::chrono::minutes(5)};

/// True if this end of a connection is ended before a stranger's time is up.
bool is_ended(const Descriptor& socket) {
  return becomes_true([&] { return is_closed(socket); });
}

/// Who calls, and with what it takes for the job's token.
struct Claim {
  ControlToken token;
  std::int64_t rank = 1;
  std::int64_t to = 0;
  Purpose purpose = Purpose::kVisit;
};

/// A connection that has greeted as a rank would.
struct Caller {
  Caller(const Endpoint& endpoint, const Claim& claim) : socket(connected(endpoint)) {
    const control::Hello hello = new_hello(claim.rank, claim.to, claim.purpose);
    say(hello);
    FrameReader reader(control::kMaxFrameBytes);
    std::optional<control::Message> answer;
    becomes_true([&] {
      std::string bytes;
      const SocketState flow = receive_some(socket, bytes);
      reader.append(bytes);
      answer = reader.next();
      return answer || flow == SocketState::kClosed;
    });
    const auto* challenge = answer ? std::get_if<control::Challenge>(&*answer) : nullptr;
    if (challenge == nullptr) return;
    writer.seal_with(keys_of(claim.token, hello, *challenge).from_caller);
    say(control::Proof{});
  }
  void say(const control::Message& message) { push(socket, writer.frame_of(message).value()); }

  Descriptor socket;
  FrameWriter writer;
};

/// Greets a rank with a claim and says more; true if it ends the connection.
bool turned_away(const Endpoint& endpoint, const Claim& claim,
                 const std::vector<control::Message>& messages) {
  Caller caller(endpoint, claim);
  for (const control::Message& message : messages) caller.say(message);
  return is_ended(caller.socket);
}
/// Says these frames to a rank, unsealed; true if it ends the connection.
bool turned_away(const Endpoint& endpoint, const std::vector<control::Message>& messages) {
  const Descriptor socket = connected(endpoint);
  for (const control::Message& message : messages) push(socket, encode(message).value());
  return is_ended(socket);
}

/// What a healthy job does, while it is attacked.
void live(const Seat& seat, const std::function<bool()>& goes_on) {
  for (std::int64_t round = 0; goes_on(); ++round) {
    ControlWait wait{kLane, static_cast<std::uint64_t>(round), {0, 1, 2}, "a call"};
    ++seat.channel.started(kLane);
    const std::vector<std::int64_t> list{seat.rank, round};
    const auto start = Clock::now();
    const auto id = seat.channel.group_id(list);
    seat.expect(id.ok(), "numbered, but " + id.status().ToString());
    for (const PartyState& party : seat.channel.ask(wait, testing::kSoon)) {
      seat.expect(party.kind != PartyState::Kind::kSilent,
                  "answered by rank " + std::to_string(party.rank));
    }
    seat.expect(seconds_since(start) < testing::kSoonSeconds, "served soon");
    std::this_thread::sleep_for(milliseconds(2));
  }
}

/// Runs `attack` beside a job of 3 ranks; then the job must be well and still hear a failure.
Texts complaints_under(const std::function<void(const Seat&)>& attack,
                       const ControlOptions& options = kPatient,
                       const testing::Rendezvous::Tamper& tamper = {}) {
  std::atomic<bool> attacked{false};
  const auto body = [&](const Seat& seat) {
    std::thread attacker;
    if (seat.rank == 2) {
      attacker = std::thread([&] {
        attack(seat);
        attacked = true;
      });
    }
    live(seat, [&] { return !attacked; });
    if (attacker.joinable()) attacker.join();
    seat.expect(seat.channel.first_failure(), absl::OkStatus());
    const ControlWait next{kLane, ~std::uint64_t{0} - 1, {0, 1, 2}, ""};
    seat.expect(!seat.channel.missing_for_good(next), "missed");
    seat.sync();
    if (seat.rank == 1) seat.channel.poison(out_of_range("the real one"));
    becomes_true([&] { return seat.channel.failed(); });
    seat.expect(seat.channel.first_failure(), out_of_range("rank 1: the real one"));
  };
  return complaints_of_channels(3, body, options, tamper);
}

std::string random_bytes(std::mt19937_64& random, std::size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

}  // namespace

TEST_CASE("200 blasts of random bytes on every port disturb no job", "[runtime][control]") {
  CHECK(complaints_under([](const Seat& seat) {
          std::mt19937_64 random(77);
          for (const Endpoint& endpoint : endpoints_of(seat)) {
            for (int blast = 0; blast < 200; ++blast) {
              std::string bytes = random_bytes(random, 1 + random() % 600);
              if (blast % 2 == 0) {  // a length that may be, and the kind of a greeting
                bytes.insert(0, std::string{static_cast<char>(random() % 60), 0, 0, 0, 0});
              }
              push(connected(endpoint), bytes);
            }
          }
        }) == Texts{});
}

TEST_CASE("who does not know the token is turned away unheard", "[runtime][control]") {
  CHECK(complaints_under([](const Seat& seat) {
          const control::Poison poison{3, "forged"};
          Claim claim{.token = token_of(seat)};
          claim.token.bytes[15] ^= 1;
          for (const Endpoint& endpoint : endpoints_of(seat)) {
            for (const Purpose purpose : {Purpose::kJoin, Purpose::kVisit}) {
              claim.purpose = purpose;
              seat.expect(turned_away(endpoint, claim, {poison}), "turned away, a wrong token");
              const control::Hello hello = new_hello(1, claim.to, purpose);
              seat.expect(turned_away(endpoint, {hello, poison}), "turned away without a proof");
              const std::vector<control::Message> unsealed = {hello, control::Proof{}, poison};
              seat.expect(turned_away(endpoint, unsealed), "turned away without a seal");
              seat.expect(turned_away(endpoint, {hello, hello}), "turned away for two greetings");
            }
            seat.expect(turned_away(endpoint, {poison}), "turned away without a greeting");
            seat.expect(turned_away(endpoint, {control::Proof{}}), "turned away at once");
            seat.expect(turned_away(endpoint, {control::Leave{}}), "turned away leaving");
            ++claim.to;
          }
        }) == Texts{});
}

TEST_CASE("nobody joins twice, as a rank that is none, or speaks out of turn",
          "[runtime][control]") {
  CHECK(complaints_under([](const Seat& seat) {
          Claim claim{.token = token_of(seat)};
          const control::Poison poison{3, "forged"};
          for (const Endpoint& endpoint : endpoints_of(seat)) {
            claim.purpose = Purpose::kJoin;
            for (const std::int64_t rank : {0, 1, 2, 3, -1}) {
              claim.rank = rank;
              seat.expect(turned_away(endpoint, claim, {poison}),
                          "turned away as rank " + std::to_string(rank));
            }
            claim.rank = 1;
            claim.purpose = Purpose::kVisit;
            seat.expect(turned_away(endpoint, claim, {control::Leave{}}), "refused as a visitor");
            seat.expect(turned_away(endpoint, claim, {control::Failure{3, "forged"}}),
                        "refused as the hub");
            Claim elsewhere = claim;
            elsewhere.to = (claim.to + 1) % 3;
            seat.expect(turned_away(endpoint, elsewhere, {poison}), "refused, meant for another");
            ++claim.to;
          }
        }) == Texts{});
}

// ---- who sees and meddles with what the ranks say

TEST_CASE("a recorded session played again at any port is heard by nobody", "[runtime][control]") {
  Relay relay;
  std::size_t num_played = 0;
  const auto attack = [&](const Seat& seat) {
    // Of sessions that went beyond the greeting, what the caller said.
    const auto sessions_of = [](const std::vector<RelayedFrame>& frames, bool visits) {
      std::map<std::size_t, std::string> sessions;
      std::map<std::size_t, std::size_t> num_frames;
      for (const RelayedFrame& frame : frames) {
        if (!frame.from_caller || frame.is_visit != visits) continue;
        sessions[frame.connection] += frame.bytes;
        ++num_frames[frame.connection];
      }
      std::erase_if(sessions, [&](const auto& each) { return num_frames[each.first] < 3; });
      return sessions;
    };
    const auto has_both = [&] {
      const auto frames = relay.seen();
      return sessions_of(frames, false).size() == 2 && sessions_of(frames, true).size() >= 3;
    };
    seat.expect(becomes_true(has_both), "seen joins and visits");
    const auto frames = relay.seen();
    auto sessions = sessions_of(frames, true);
    while (sessions.size() > 3) sessions.erase(std::prev(sessions.end()));
    sessions.merge(sessions_of(frames, false));
    std::vector<Endpoint> ports = endpoints_of(seat);
    ports.push_back(relay.hub());
    for (const auto& [connection, bytes] : sessions) {
      for (const Endpoint& port : ports) {
        const Descriptor socket = connected(port);
        push(socket, bytes);
        seat.expect(is_ended(socket), "turned away, session " + std::to_string(connection));
        ++num_played;
      }
    }
  };
  CHECK(complaints_under(attack, kPatient, relay.tamper()) == Texts{});
  CHECK(num_played == 20);
}

TEST_CASE("doubled, forged and misplaced frames are passed over, and the job goes on",
          "[runtime][control]") {
  std::map<std::size_t, std::string> last;  // by connection and direction
  std::size_t num_put_in = 0;
  Relay relay([&](const RelayedFrame& frame) -> std::vector<std::string> {
    const bool greets = frame.number < (frame.from_caller ? 2 : 1);
    if (frame.is_visit || greets) return {frame.bytes};
    std::string forged = frame.bytes;
    forged[forged.size() - 17] = static_cast<char>(forged[forged.size() - 17] ^ 1);
    std::vector<std::string> all = {forged, frame.bytes, frame.bytes};
    for (const auto& [direction, bytes] : last) all.push_back(bytes);
    last[2 * frame.connection + (frame.from_caller ? 1 : 0)] = frame.bytes;
    num_put_in += all.size() - 1;
    return all;
  });
  const auto attack = [&](const Seat& seat) {
    const auto goes_on = [&] { return relay.seen().size() > 500; };
    seat.expect(becomes_true(goes_on), "many frames");
  };
  CHECK(complaints_under(attack, kPatient, relay.tamper()) == Texts{});
  CHECK(num_put_in > 100);
}

TEST_CASE("a frame that is kept back ends its rank's connection, and all hear of it",
          "[runtime][control]") {
  std::atomic<bool> keeps_back{false};
  Relay relay([&](const RelayedFrame& frame) -> std::vector<std::string> {
    // The frame after rank 1's proof: a wait.
    if (keeps_back && frame.from_caller && !frame.is_visit && frame.number == 2) return {};
    return {frame.bytes};
  });
  const auto body = [&](const Seat& seat) {
    if (seat.rank == 0) keeps_back = true;
    seat.sync();
    if (seat.rank == 1) {
      seat.channel.waits({kLane, 0, {0, 1, 2}, "a call"});
      seat.channel.stops_waiting();
    }
    seat.expect(becomes_true([&] { return seat.channel.failed(); }), "heard");
    if (seat.rank == 1) return;  // it is told that the hub has gone from it
    seat.expect(seat.channel.first_failure(),
                unavailable("rank 1 was dropped: control frames of it are missing"));
  };
  CHECK(complaints_of_channels(3, body, kPatient, relay.tamper()) == Texts{});
}

TEST_CASE("a visit calls once, and is over with the answer", "[runtime][control]") {
  Relay relay;
  const auto attack = [&](const Seat& seat) {
    if (seat.rank == 1) {
      const std::vector<ControlHost> hub{{0, endpoints_of(seat)[0]}};
      const ControlVisitor visitor{token_of(seat), 1};
      const auto asked = visit(hub, visitor, control::Query{kLane, 0}, testing::kSoon);
      const auto* answer = asked[0] ? std::get_if<control::Answer>(&*asked[0]) : nullptr;
      seat.expect(answer != nullptr && answer->doing == "runs", "answered");
      const auto told = visit(hub, visitor, control::Poison{14, "rank 1: x"}, testing::kSoon);
      seat.expect(told[0] && std::holds_alternative<control::Welcome>(*told[0]), "taken note of");
    }
    seat.sync();
  };
  CHECK(complaints_of_channels(2, attack, kPatient, relay.tamper()) == Texts{});
  std::map<std::size_t, int> visits;
  for (const RelayedFrame& frame : relay.seen()) {
    if (frame.is_visit && frame.from_caller) ++visits[frame.connection];
  }
  CHECK(visits.size() == 2);
}

TEST_CASE("the token goes over no control connection", "[runtime][control]") {
  Relay relay;
  std::string said;
  ControlToken token;
  const auto body = [&](const Seat& seat) {
    const auto poison = seat.rank == 1 ? out_of_range("told") : absl::OkStatus();
    seat.channel.poison(poison);
    becomes_true([&] { return seat.channel.failed(); });
    if (seat.rank == 0) token = token_of(seat);
  };
  CHECK(complaints_of_channels(3, body, kPatient, relay.tamper()) == Texts{});
  for (const RelayedFrame& frame : relay.seen()) said += frame.bytes;
  CHECK_THAT(said, Catch::Contains("rank 1: told"));  // what it says is no secret
  const std::string bytes(token.bytes.begin(), token.bytes.end());
  CHECK(said.find(bytes) == std::string::npos);
  CHECK(said.find(bytes.substr(0, 8)) == std::string::npos);
}

TEST_CASE("oversized greetings and frames end their own connection only", "[runtime][control]") {
  CHECK(
      complaints_under([](const Seat& seat) {
        const std::string lengths[] = {{1, 1, 0, 0}, {0, 0, 16, 0}, {-1, -1, -1, -1}, {0, 0, 0, 0}};
        std::int64_t rank = 0;
        for (const Endpoint& endpoint : endpoints_of(seat)) {
          for (const std::string& length : lengths) {
            const Descriptor stranger = connected(endpoint);
            push(stranger, length);
            seat.expect(is_ended(stranger), "ended for its length");
          }
          const Caller visitor(endpoint, {.token = token_of(seat), .to = rank++});
          push(visitor.socket, {25, 0, 16, 0});  // one byte more than a sealed frame may have
          seat.expect(is_ended(visitor.socket), "ended for a frame too long");
        }
      }) == Texts{});
}

TEST_CASE("silent and slow strangers are dropped after a second, hundreds at once",
          "[runtime][control]") {
  CHECK(complaints_under(
            [](const Seat& seat) {
              const std::string hello = encode(control::Hello{{}, 1, 0, Purpose::kVisit}).value();
              std::vector<Descriptor> silent, slow;
              for (const Endpoint& endpoint : endpoints_of(seat)) {
                for (int count = 0; count < 100; ++count) silent.push_back(connected(endpoint));
                slow.push_back(connected(endpoint));
              }
              const auto start = Clock::now();
              for (std::size_t at = 0; seconds_since(start) < 0.8; ++at) {
                for (const Descriptor& socket : slow) push(socket, hello.substr(at, 1));
                std::this_thread::sleep_for(milliseconds(80));
              }
              for (const auto* sockets : {&silent, &slow}) {
                for (const Descriptor& socket : *sockets) {
                  seat.expect(becomes_true([&] { return is_closed(socket); }), "dropped");
                }
              }
              seat.expect(seconds_since(start) < testing::kSoonSeconds, "dropped soon");
            },
            {}) == Texts{});
}

TEST_CASE("a channel at rest uses no processor time, whoever is connected", "[runtime][control]") {
  double cpu_ms = 0;
  CHECK(complaints_of_channels(3, [&](const Seat& seat) {
          const Descriptor stranger = connected(endpoints_of(seat).front());
          if (seat.rank == 1) seat.channel.waits({kLane, 0, {0, 1, 2}, "a call"});
          seat.sync();
          const std::clock_t before = std::clock();
          std::this_thread::sleep_for(milliseconds(400));
          if (seat.rank != 0) return;
          cpu_ms = 1e3 * static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
        }) == Texts{});
  CHECK(cpu_ms < 100);
}

}  // namespace tessera
