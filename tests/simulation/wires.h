// tests/simulation/wires.h: sockets in memory: streams whose bytes arrive late and in pieces, and
// end when their process dies.
#pragma once

#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/environment.h"
#include "tests/simulation/draw.h"

namespace tessera::seeded {

/// How long what is sent is on its way.
struct Delays {
  Duration usual{};   ///< at most
  Duration seldom{};  ///< at most, once in `times`
  std::uint64_t times = 1;
  Duration draw(Draw& draw) const;
};

/// Thread-safety: none. Results are those of Environment's functions.
class Wires {
 public:
  using Time = Environment::Time;
  Wires(Draw& draw, const Delays& delays) : draw_(draw), delays_(delays) {}

  int listen(int process);
  int port_of(int listener) const { return at(listener).port; }
  int accept(int listener, Time now);
  int connect(int process, int port, Time now);
  int outcome_of_connecting(int socket) const { return at(socket).refused ? ECONNREFUSED : 0; }
  std::int64_t send(int socket, std::string_view bytes, Time now);
  std::int64_t receive(int socket, std::span<char> into, Time now);
  void end_sending(int socket, Time now);
  int make_event(int process);
  void set_event(int event, bool is_set) { at(event).is_set = is_set; }
  void close(int number, Time now);

  /// What poll() says of it.
  short ready(int number, short events, Time now) const;
  /// When that may change by itself, after `now`.
  std::optional<Time> changes_at(int number, Time now) const;
  /// The process is gone: its ends are closed, and it reaches nobody any more.
  void cut(int process, Time now);
  /// Ends that nobody has closed.
  int num_open() const;

 private:
  enum class Kind : std::uint8_t { kListener, kStream, kEvent };
  struct Piece {
    Time at;
    std::string bytes;
  };
  struct Waiting {
    Time at;
    int socket = -1;
  };
  struct Socket {
    Kind kind = Kind::kStream;
    int process = 0;
    int port = 0;
    int peer = -1;
    Time connected{};
    bool refused = false;
    std::deque<Waiting> to_accept = {};  ///< kListener
    std::deque<Piece> inbox = {};
    Time last{};                             ///< nothing arrives before what was sent earlier
    std::optional<Time> end = std::nullopt;  ///< nothing comes after
    bool reset = false;                      ///< the end is an error
    bool is_set = false;                     ///< kEvent
    bool cut = false;
    bool closed = false;
  };
  Socket& at(int number) { return sockets_[static_cast<std::size_t>(number)]; }
  const Socket& at(int number) const { return sockets_[static_cast<std::size_t>(number)]; }
  int add(Socket socket);
  /// When what is sent to `to` now arrives.
  Time arrival(Socket& to, Time now);
  void end(int number, Time now);

  Draw& draw_;
  Delays delays_;
  std::vector<bool> is_cut_;  ///< by process
  std::deque<Socket> sockets_;
};

}  // namespace tessera::seeded
