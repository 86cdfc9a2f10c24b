// The sockets under a control channel at their limits: full buffers, ends that are gone, and codes
// of statuses that a peer may say.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>

#include "runtime/control/socket.h"
#include "runtime/control/state.h"

namespace tessera::testing {
namespace {

struct Pair {
  Descriptor near, far;
};

/// Both ends of a connection over the loopback.
Pair connected() {
  const Listener listener = value_or_throw(listen_on("127.0.0.1", 0));
  Pair pair;
  pair.near = value_or_throw(begin_connecting(listener.endpoint));
  std::vector<pollfd> entries = {{.fd = listener.socket.number(), .events = POLLIN, .revents = 0}};
  poll_until(entries, std::nullopt);
  pair.far = accept_from(listener.socket).value();
  entries = {{.fd = pair.near.number(), .events = POLLOUT, .revents = 0}};
  poll_until(entries, std::nullopt);
  throw_if_error(outcome_of_connecting(pair.near));
  return pair;
}

/// Reads until the socket has nothing more for now, at most `bytes`.
std::size_t drain(const Descriptor& socket, std::size_t bytes) {
  std::size_t read = 0;
  while (read < bytes) {
    std::vector<pollfd> entries = {{.fd = socket.number(), .events = POLLIN, .revents = 0}};
    poll_until(entries, std::nullopt);
    std::string part;
    if (receive_some(socket, part) == SocketState::kClosed) break;
    read += part.size();
  }
  return read;
}

int option_of(const Descriptor& socket, int level, int option) {
  int value = -1;
  socklen_t size = sizeof value;
  getsockopt(socket.number(), level, option, &value, &size);
  return value;
}

}  // namespace

TEST_CASE("a host that vanishes without a word is missed within ten seconds",
          "[runtime][control][socket]") {
  const Pair pair = connected();
  for (const Descriptor* end : {&pair.near, &pair.far}) {
    CHECK(option_of(*end, SOL_SOCKET, SO_KEEPALIVE) == 1);
    CHECK(option_of(*end, IPPROTO_TCP, TCP_NODELAY) == 1);
    const int idle = option_of(*end, IPPROTO_TCP, TCP_KEEPIDLE);
    const int probes = option_of(*end, IPPROTO_TCP, TCP_KEEPCNT);
    CHECK(probes >= 3);  // one may be lost
    CHECK(idle + probes * option_of(*end, IPPROTO_TCP, TCP_KEEPINTVL) <= 10);
  }
}

TEST_CASE("an endpoint's name is never looked up", "[runtime][control][socket]") {
  CHECK_FALSE(begin_connecting({"localhost", 4711}).ok());
  CHECK(begin_connecting({"127.0.0.1", 4711}).ok());
}

TEST_CASE("a socket that takes no more stays open, and takes the rest once it was read",
          "[runtime][control][socket]") {
  const Pair pair = connected();
  const std::size_t size = std::size_t{64} << 20;  // more than a connection holds unread
  std::string bytes(size, 'x');
  CHECK(send_some(pair.near, bytes) == SocketState::kOpen);
  REQUIRE(!bytes.empty());
  std::size_t read = drain(pair.far, size - bytes.size());
  CHECK(read == size - bytes.size());
  while (!bytes.empty()) {
    const std::size_t before = bytes.size();
    REQUIRE(send_some(pair.near, bytes) == SocketState::kOpen);
    read += drain(pair.far, before - bytes.size());
  }
  CHECK(read == size);
  std::string nothing;
  CHECK(receive_some(pair.far, nothing) == SocketState::kOpen);
  CHECK(nothing.empty());
}

TEST_CASE("an end that is gone closes the other, whether it sends or reads",
          "[runtime][control][socket]") {
  Pair pair = connected();
  pair.far.close();
  CHECK(!pair.far.is_open());
  std::string bytes;
  while (receive_some(pair.near, bytes) == SocketState::kOpen) {
  }
  CHECK(bytes.empty());
  // The first bytes are taken, and answered by a reset; what follows is refused.
  SocketState flow = SocketState::kOpen;
  for (int i = 0; i < 1000 && flow == SocketState::kOpen; ++i) {
    bytes = "word";
    flow = send_some(pair.near, bytes);
    std::vector<pollfd> entries = {{.fd = pair.near.number(), .events = POLLIN, .revents = 0}};
    poll_until(entries, std::chrono::steady_clock::now() + std::chrono::milliseconds(5));
  }
  CHECK(flow == SocketState::kClosed);
}

TEST_CASE("what was sent before an end is read before it", "[runtime][control][socket]") {
  const Pair pair = connected();
  std::string bytes = "last words";
  REQUIRE(send_some(pair.near, bytes) == SocketState::kOpen);
  CHECK(bytes.empty());
  end_sending(pair.near);
  std::string read;
  while (receive_some(pair.far, read) == SocketState::kOpen) {
  }
  CHECK(read == "last words");
}

TEST_CASE("a code that is none of a failure is an unknown one", "[runtime][control]") {
  for (const int code : {-1, 0, 17, 4711}) {
    CAPTURE(code);
    CHECK(status_of(code, "text") == absl::UnknownError("text"));
  }
  CHECK(status_of(1, "text") == absl::CancelledError("text"));
  CHECK(status_of(14, "text") == absl::UnavailableError("text"));
  CHECK(status_of(16, "text") == absl::UnauthenticatedError("text"));
}

}  // namespace tessera::testing
