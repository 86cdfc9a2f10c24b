#include <poll.h>
#include <sys/socket.h>

#include <ctime>
#include <random>
#include <sstream>

#include "runtime/control_frame.h"
#include "runtime/control_socket.h"
#include "tests/runtime/control_ranks.h"

namespace tessera {
namespace {

using control::encode;
using control::Purpose;
using testing::becomes_true;
using testing::complaints_of_channels;
using testing::milliseconds;
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
  return receive_some(socket, bytes) == Flow::kClosed;
}
/// A stranger's time in these tests: who is dropped before has been turned away.
const ControlOptions kPatient = {.stranger_limit = std::chrono::minutes(5)};

/// Says these frames to a rank; true if it ends the connection before a stranger's time is up.
bool turned_away(const Endpoint& endpoint, const std::vector<control::Message>& messages) {
  const Descriptor socket = connected(endpoint);
  for (const control::Message& message : messages) push(socket, encode(message).value());
  return becomes_true([&] { return is_closed(socket); });
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
                       const ControlOptions& options = kPatient) {
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
  return complaints_of_channels(3, body, options);
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
  CHECK(
      complaints_under([](const Seat& seat) {
        const control::Poison poison{3, "forged"};
        ControlToken token = token_of(seat);
        token.bytes[15] ^= 1;
        for (const Endpoint& endpoint : endpoints_of(seat)) {
          for (const Purpose purpose : {Purpose::kJoin, Purpose::kVisit}) {
            const control::Hello forged{token, 1, purpose};
            seat.expect(turned_away(endpoint, {forged, poison}), "turned away with a wrong token");
          }
          seat.expect(turned_away(endpoint, {poison}), "turned away without a greeting");
          seat.expect(turned_away(endpoint, {control::Leave{}}), "turned away leaving");
        }
      }) == Texts{});
}

TEST_CASE("nobody joins twice, as a rank that is none, or speaks out of turn",
          "[runtime][control]") {
  CHECK(complaints_under([](const Seat& seat) {
          const ControlToken token = token_of(seat);
          for (const Endpoint& endpoint : endpoints_of(seat)) {
            for (const std::int64_t rank : {0, 1, 2, 3, -1}) {
              const control::Hello again{token, rank, Purpose::kJoin};
              seat.expect(turned_away(endpoint, {again, control::Poison{3, "forged"}}),
                          "turned away as rank " + std::to_string(rank));
            }
            const control::Hello visitor{token, 1, Purpose::kVisit};
            seat.expect(turned_away(endpoint, {visitor, control::Leave{}}), "refused as a visitor");
            seat.expect(turned_away(endpoint, {visitor, control::Failure{3, "forged"}}),
                        "refused as the hub");
          }
        }) == Texts{});
}

TEST_CASE("oversized greetings and frames end their own connection only", "[runtime][control]") {
  CHECK(
      complaints_under([](const Seat& seat) {
        const std::string lengths[] = {{1, 1, 0, 0}, {0, 0, 16, 0}, {-1, -1, -1, -1}, {0, 0, 0, 0}};
        const auto ends = [](const Descriptor& socket) {
          return becomes_true([&] { return is_closed(socket); });
        };
        for (const Endpoint& endpoint : endpoints_of(seat)) {
          for (const std::string& length : lengths) {
            const Descriptor stranger = connected(endpoint);
            push(stranger, length);
            seat.expect(ends(stranger), "ended for its length");
          }
          const Descriptor visitor = connected(endpoint);
          push(visitor, encode(control::Hello{token_of(seat), 1, Purpose::kVisit}).value());
          push(visitor, {1, 0, 16, 0});  // one byte more than a frame may have
          seat.expect(ends(visitor), "ended for a frame too long");
        }
      }) == Texts{});
}

TEST_CASE("silent and slow strangers are dropped after a second, hundreds at once",
          "[runtime][control]") {
  CHECK(complaints_under(
            [](const Seat& seat) {
              const std::string hello =
                  encode(control::Hello{ControlToken{}, 1, Purpose::kVisit}).value();
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
