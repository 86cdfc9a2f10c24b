#include "runtime/control/server.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>

namespace tessera {
namespace {

using Clock = RankClock;
constexpr std::size_t kMaxStrangers = 64;  ///< and one for each rank
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::milliseconds kPartingLimit{200};

/// The calling thread's signals are blocked meanwhile, so that a thread made then gets none.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

StatusOr<std::unique_ptr<ControlServer>> ControlServer::start(
    ControlState& state, const ControlToken& token, std::chrono::milliseconds stranger_limit,
    Descriptor listener, ControlLink hub) {
  std::unique_ptr<ControlServer> server(
      new ControlServer(state, token, stranger_limit, std::move(listener), std::move(hub)));
  try {
    const SignalsBlocked blocked;
    server->thread_ = Thread([raw = server.get()] { raw->run(); });
  } catch (const std::system_error& error) {
    return unavailable(std::string("cannot start the control thread: ") + error.what());
  }
  return server;
}

ControlServer::ControlServer(ControlState& state, const ControlToken& token,
                             std::chrono::milliseconds stranger_limit, Descriptor listener,
                             ControlLink hub)
    : state_(state),
      token_(token),
      stranger_limit_(stranger_limit),
      listener_(std::move(listener)),
      members_(static_cast<std::size_t>(state.place().size)),
      has_joined_(members_.size()) {
  if (state.place().rank == 0) {
    hub_.emplace(state.place().size);
    has_joined_[0] = true;
    return;
  }
  connections_.push_back({.link = std::move(hub), .role = Role::kMember, .rank = 0});
  members_[0] = &connections_.back();
}

ControlServer::~ControlServer() {
  state_.close();
  if (thread_.joinable()) thread_.join();
}

// ---- the loop

void ControlServer::run() {
  for (Connection& hub : connections_) ready_.emplace_back(&hub, POLLIN);  // read with the welcome
  while (true) {
    const bool closing = state_.is_closing();  // before the last word is taken
    for (const auto& [connection, events] : ready_) {
      if ((events & ~POLLOUT) != 0) read(*connection);
      if (!connection->over &&
          send_some(connection->link.socket, connection->unsent) == SocketState::kClosed) {
        connection->unsent.clear();  // reading tells whether it has ended
      }
    }
    carry_said();
    if (listener_ready_) accept_all();
    if (hub_) deliver(hub_->tick(Clock::now()));
    drop_over();
    if (closing) return finish();
    wait_for_any();
  }
}

std::optional<ControlServer::Time> ControlServer::next_deadline() const {
  std::optional<Time> first = accept_again_;
  const auto consider = [&](const std::optional<Time>& time) {
    if (time && (!first || *time < *first)) first = time;
  };
  if (hub_) consider(hub_->due());
  for (const Connection& connection : connections_) consider(connection.until);
  return first;
}

void ControlServer::wait_for_any() {
  if (accept_again_ && *accept_again_ <= Clock::now()) accept_again_.reset();
  const int listener = accept_again_ ? -1 : listener_.number();  // poll() skips negative ones
  std::vector<pollfd> entries{{state_.wake_up().descriptor().number(), POLLIN, 0},
                              {listener, POLLIN, 0}};
  for (const Connection& connection : connections_) {
    const short events = connection.unsent.empty() ? POLLIN : POLLIN | POLLOUT;
    entries.push_back({connection.link.socket.number(), events, 0});
  }
  poll_until(entries, next_deadline());
  if (entries[0].revents != 0) state_.wake_up().clear();
  listener_ready_ = entries[1].revents != 0;
  ready_.clear();
  auto entry = entries.begin() + 2;
  for (Connection& connection : connections_) {
    if (entry->revents != 0) ready_.emplace_back(&connection, entry->revents);
    ++entry;
  }
}

void ControlServer::carry_said() {
  for (const control::Message& message : state_.take_said()) {
    if (hub_) {
      deliver(hub_->receive(0, message, Clock::now()));
    } else if (members_[0] != nullptr) {
      send(*members_[0], message);
    }
  }
}

void ControlServer::drop_over() {
  const Time now = Clock::now();
  for (Connection& connection : connections_) {
    if (connection.until && *connection.until <= now) connection.over = true;
  }
  for (auto at = connections_.begin(); at != connections_.end();) {
    if (!at->over) {
      ++at;
      continue;
    }
    if (at->role == Role::kMember) part(*at);
    at = connections_.erase(at);
  }
  ready_.clear();
}

void ControlServer::part(Connection& member) {
  members_[static_cast<std::size_t>(member.rank)] = nullptr;
  if (!hub_) return state_.lose_hub();
  if (hub_->has_gone(member.rank)) return;
  const FrameReader& reader = member.link.reader;
  const std::string how = reader.lacks_frames() ? "was dropped: control frames of it are missing"
                          : reader.is_broken()  ? "was dropped: it sent what is no control frame"
                                                : state_.describe_death(member.rank);
  deliver(hub_->lost(member.rank, how, Clock::now()));
}

/// What was said last is sent, and the other ends are given a moment to hear it: closing at once
/// could reset a connection with words still on their way.
void ControlServer::finish() {
  listener_.close();
  connections_.remove_if([](const Connection& at) { return at.role != Role::kMember; });
  const Time until = Clock::now() + kPartingLimit;
  std::string ignored;
  while (!connections_.empty() && Clock::now() < until) {
    std::vector<pollfd> entries;
    for (Connection& member : connections_) {
      if (send_some(member.link.socket, member.unsent) == SocketState::kClosed)
        member.unsent.clear();
      if (member.unsent.empty()) end_sending(member.link.socket);
      const short events = member.unsent.empty() ? POLLIN : POLLIN | POLLOUT;
      entries.push_back({member.link.socket.number(), events, 0});
    }
    poll_until(entries, until);
    connections_.remove_if([&](const Connection& member) {
      ignored.clear();
      return receive_some(member.link.socket, ignored) == SocketState::kClosed;
    });
  }
}

// ---- connections

void ControlServer::accept_all() {
  listener_ready_ = false;
  for (std::size_t count = 0; count < kMaxStrangers; ++count) {
    std::optional<Descriptor> socket = accept_from(listener_);
    if (!socket) {
      const bool out_of_room =
          errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (out_of_room) accept_again_ = Clock::now() + kAcceptPause;
      return;
    }
    connections_.push_back({.link = {std::move(*socket), FrameReader(control::kMaxHelloBytes)},
                            .until = Clock::now() + stranger_limit_});
    limit_strangers();
  }
}

void ControlServer::limit_strangers() {
  std::size_t count = 0;
  for (auto at = connections_.rbegin(); at != connections_.rend(); ++at) {
    if (at->role != Role::kStranger || at->over) continue;
    if (++count > kMaxStrangers + members_.size()) at->over = true;  // the oldest go
  }
}

void ControlServer::read(Connection& connection) {
  std::string bytes;
  const SocketState flow = receive_some(connection.link.socket, bytes);
  FrameReader& reader = connection.link.reader;
  reader.append(bytes);
  while (!connection.over) {
    const std::optional<control::Message> message = reader.next();
    if (!message) break;
    take(connection, *message);
  }
  // A member's own frames still come between those that others put in.
  const bool is_forged = connection.role != Role::kMember && reader.num_dropped() > 0;
  if (flow == SocketState::kClosed || reader.is_broken() || is_forged) connection.over = true;
}

void ControlServer::take(Connection& from, const control::Message& message) {
  if (from.role == Role::kMember) {
    if (!hub_) return hear(message);
    return deliver(hub_->receive(from.rank, message, Clock::now()));
  }
  if (from.role == Role::kVisitor) return attend(from, message);
  const auto* hello = std::get_if<control::Hello>(&message);
  if (from.rank < 0 && hello != nullptr) return challenge(from, *hello);
  if (from.rank >= 0 && std::holds_alternative<control::Proof>(message)) return greet(from);
  from.over = true;
}

void ControlServer::challenge(Connection& stranger, const control::Hello& hello) {
  const ControlPlace& place = state_.place();
  const bool is_ours = hello.purpose == control::Purpose::kJoin ||  //
                       hello.purpose == control::Purpose::kVisit;
  if (!is_ours || hello.rank < 0 || hello.rank >= place.size || hello.to != place.rank) {
    stranger.over = true;
    return;
  }
  stranger.rank = hello.rank;
  stranger.purpose = hello.purpose;
  const control::Challenge challenge = new_challenge();
  send(stranger, challenge);
  const ControlKeys keys = keys_of(token_, hello, challenge);
  stranger.link.reader.open_with(keys.from_caller);
  stranger.link.writer.seal_with(keys.from_callee);
}

void ControlServer::greet(Connection& stranger) {
  const auto at = static_cast<std::size_t>(stranger.rank);
  if (stranger.purpose == control::Purpose::kVisit) {
    stranger.role = Role::kVisitor;
  } else if (hub_ && !has_joined_[at]) {
    stranger.role = Role::kMember;
    stranger.until.reset();
    members_[at] = &stranger;
    has_joined_[at] = true;
    send(stranger, control::Welcome{});
  } else {
    stranger.over = true;
    return;
  }
  stranger.link.reader.set_max_bytes(control::kMaxFrameBytes);
}

void ControlServer::attend(Connection& visitor, const control::Message& message) {
  if (const auto* query = std::get_if<control::Query>(&message)) {
    send(visitor, state_.answer(*query));
  } else if (const auto* poison = std::get_if<control::Poison>(&message)) {
    if (hub_) {
      deliver(hub_->receive(visitor.rank, *poison, Clock::now()));
    } else {
      state_.hear_directly(*poison);
    }
    send(visitor, control::Welcome{});
  } else if (const auto* leave = std::get_if<control::Leave>(&message);
             leave != nullptr && state_.failed()) {  // while all is well the hub tells who leaves
    if (hub_) deliver(hub_->receive(visitor.rank, *leave, Clock::now()));
    send(visitor, state_.hear_farewell(visitor.rank, *leave));
  } else {
    visitor.over = true;
  }
}

// ---- messages

void ControlServer::hear(const control::Message& message) {
  const auto* probe = std::get_if<control::Probe>(&message);
  if (probe == nullptr) return state_.hear(message);
  const control::ProbeReply reply = state_.answer(*probe);
  if (hub_) {
    deliver(hub_->receive(0, reply, Clock::now()));
  } else if (members_[0] != nullptr) {
    send(*members_[0], reply);
  }
}

void ControlServer::deliver(const ControlHub::Letters& letters) {
  for (const ControlHub::Letter& letter : letters) {
    const bool to_all = letter.to == ControlHub::kEveryone;
    for (std::size_t rank = 1; rank < members_.size(); ++rank) {
      const bool meant = to_all || letter.to == static_cast<std::int64_t>(rank);
      if (meant && members_[rank] != nullptr) send(*members_[rank], letter.message);
    }
    if (to_all || letter.to == 0) hear(letter.message);
  }
}

void ControlServer::send(Connection& to, const control::Message& message) {
  if (to.over) return;
  const std::optional<std::string> frame = to.link.writer.frame_of(message);
  if (!frame) return;
  to.unsent += *frame;
  if (send_some(to.link.socket, to.unsent) == SocketState::kClosed) to.unsent.clear();
}

}  // namespace tessera
