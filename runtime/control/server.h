// runtime/control/server.h: the background thread of a control channel: it sleeps in poll(), takes
// in connections, carries what its rank says to the hub and the hub's word back, and answers other
// ranks' questions. Rank 0's is the hub. A connection is a stranger until it has proved that it
// knows the job's token.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/control/greeting.h"
#include "runtime/control/hub.h"
#include "runtime/control/state.h"

namespace tessera {

/// An open connection with what was received and not yet read.
struct ControlLink {
  Descriptor socket;
  FrameReader reader{control::kMaxFrameBytes};
  FrameWriter writer = {};
};

/// Thread-safety: made and destroyed by the rank's thread; all else runs on its own.
class ControlServer {
 public:
  /// `hub`: the welcomed link of a rank other than 0.
  static StatusOr<std::unique_ptr<ControlServer>> start(ControlState& state,
                                                        const ControlToken& token,
                                                        std::chrono::milliseconds stranger_limit,
                                                        Descriptor listener, ControlLink hub);
  /// Says what is still unsaid, waits a moment for the other ends to hear it, and joins.
  ~ControlServer();

 private:
  using Time = ControlHub::Time;
  enum class Role : std::uint8_t { kStranger, kVisitor, kMember };
  struct Connection {
    ControlLink link;
    Role role = Role::kStranger;
    std::int64_t rank = -1;  ///< of a stranger, what it says
    control::Purpose purpose = control::Purpose::kVisit;
    std::string unsent = {};
    std::optional<Time> until = std::nullopt;  ///< dropped then
    bool over = false;
  };

  ControlServer(ControlState& state, const ControlToken& token,
                std::chrono::milliseconds stranger_limit, Descriptor listener, ControlLink hub);
  void run();
  std::optional<Time> next_deadline() const;
  void wait_for_any();
  void carry_said();
  void accept_all();
  void limit_strangers();
  void read(Connection& connection);
  void take(Connection& from, const control::Message& message);
  void challenge(Connection& stranger, const control::Hello& hello);
  void greet(Connection& stranger);
  void attend(Connection& visitor, const control::Message& message);
  void hear(const control::Message& message);
  void deliver(const ControlHub::Letters& letters);
  void send(Connection& to, const control::Message& message);
  void drop_over();
  void part(Connection& member);
  void finish();

  ControlState& state_;
  const ControlToken token_;
  const std::chrono::milliseconds stranger_limit_;
  Descriptor listener_;
  std::optional<ControlHub> hub_;  ///< rank 0's
  std::list<Connection> connections_;
  std::vector<Connection*> members_;  ///< by rank; where null the rank is not connected
  std::vector<bool> has_joined_;      ///< once is enough
  std::optional<Time> accept_again_;  ///< descriptors are short
  std::vector<std::pair<Connection*, short>> ready_;
  bool listener_ready_ = false;
  Thread thread_;
};

}  // namespace tessera
