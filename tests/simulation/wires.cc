#include "tests/simulation/wires.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>

namespace tessera::seeded {
namespace {

constexpr std::size_t kMostUnread = std::size_t{256} << 10;
constexpr int kFirstPort = 1000;

}  // namespace

Duration Delays::draw(Draw& draw) const {
  const Duration most = draw.once_in(times) ? seldom : usual;
  return Duration(draw.below(static_cast<std::uint64_t>(most.count()) + 1));
}

int Wires::add(Socket socket) {
  sockets_.push_back(std::move(socket));
  return static_cast<int>(sockets_.size()) - 1;
}

int Wires::listen(int process) {
  const int number = add({.kind = Kind::kListener, .process = process});
  at(number).port = kFirstPort + number;
  return number;
}

int Wires::make_event(int process) { return add({.kind = Kind::kEvent, .process = process}); }

int Wires::connect(int process, int port, Time now) {
  const int listener = port - kFirstPort;
  const int own = add({.process = process, .connected = now + delays_.draw(draw_)});
  const bool is_cut = static_cast<std::size_t>(process) < is_cut_.size() &&
                      is_cut_[static_cast<std::size_t>(process)];
  if (is_cut || listener < 0 || listener >= own || at(listener).kind != Kind::kListener ||
      at(listener).closed || at(listener).cut) {
    at(own).refused = true;
    at(own).cut = is_cut;
    return own;
  }
  const Time connected = at(own).connected;
  const int other = add({.process = at(listener).process, .peer = own, .connected = now});
  at(own).peer = other;
  at(listener).to_accept.push_back({connected, other});
  return own;
}

int Wires::accept(int listener, Time now) {
  auto& waiting = at(listener).to_accept;
  const auto first = std::find_if(waiting.begin(), waiting.end(),
                                  [&](const Waiting& one) { return one.at <= now; });
  if (at(listener).cut || first == waiting.end()) return -EAGAIN;
  const int socket = first->socket;
  waiting.erase(first);
  return socket;
}

Wires::Time Wires::arrival(Socket& to, Time now) {
  to.last = std::max(to.last, now + delays_.draw(draw_));
  return to.last;
}

std::int64_t Wires::send(int socket, std::string_view bytes, Time now) {
  Socket& own = at(socket);
  if (own.cut || own.refused) return -EPIPE;
  if (now < own.connected) return -EAGAIN;
  Socket& peer = at(own.peer);
  if (peer.end) return -EPIPE;
  if (peer.closed || peer.cut) {
    // The other end says so once it has seen that something came.
    if (own.end && *own.end <= now) return -EPIPE;
    return static_cast<std::int64_t>(bytes.size());
  }
  std::size_t unread = 0;
  for (const Piece& piece : peer.inbox) unread += piece.bytes.size();
  if (unread >= kMostUnread) return -EAGAIN;
  std::size_t size = bytes.size();
  if (size > 1 && draw_.once_in(8)) size = 1 + draw_.below(size);
  peer.inbox.push_back({arrival(peer, now), std::string(bytes.substr(0, size))});
  return static_cast<std::int64_t>(size);
}

std::int64_t Wires::receive(int socket, std::span<char> into, Time now) {
  Socket& own = at(socket);
  if (own.cut || own.refused) return -ECONNRESET;
  if (!own.inbox.empty() && own.inbox.front().at <= now) {
    std::string& bytes = own.inbox.front().bytes;
    std::size_t size = std::min(bytes.size(), into.size());
    if (size > 1 && draw_.once_in(4)) size = 1 + draw_.below(size);
    std::copy_n(bytes.begin(), size, into.begin());
    bytes.erase(0, size);
    if (bytes.empty()) own.inbox.pop_front();
    return static_cast<std::int64_t>(size);
  }
  if (own.end && *own.end <= now) return own.reset ? -ECONNRESET : 0;
  return -EAGAIN;
}

void Wires::end(int number, Time now) {
  Socket& own = at(number);
  if (own.kind != Kind::kStream || own.peer < 0) return;
  Socket& peer = at(own.peer);
  if (!peer.end) peer.end = arrival(peer, now);
}

void Wires::end_sending(int socket, Time now) {
  if (!at(socket).cut) end(socket, now);
}

void Wires::close(int number, Time now) {
  Socket& own = at(number);
  own.closed = true;
  if (own.cut) return;
  for (const Waiting& waiting : own.to_accept) close(waiting.socket, now);
  own.to_accept.clear();
  if (own.kind == Kind::kStream && own.peer >= 0 && !own.inbox.empty()) at(own.peer).reset = true;
  end(number, now);
}

short Wires::ready(int number, short events, Time now) const {
  const Socket& own = at(number);
  int seen = 0;
  if (own.kind == Kind::kEvent) {
    seen = own.is_set ? POLLIN : 0;
  } else if (own.kind == Kind::kListener) {
    const bool any = std::any_of(own.to_accept.begin(), own.to_accept.end(),
                                 [&](const Waiting& one) { return one.at <= now; });
    seen = any && !own.cut ? POLLIN : 0;
  } else if (own.cut) {
    return static_cast<short>((events & (POLLIN | POLLOUT)) | POLLHUP);
  } else if (own.connected <= now) {
    if (own.refused) return static_cast<short>((events & (POLLIN | POLLOUT)) | POLLERR);
    const bool has_bytes = !own.inbox.empty() && own.inbox.front().at <= now;
    const bool has_ended = own.inbox.empty() && own.end && *own.end <= now;
    seen = POLLOUT | (has_bytes || has_ended ? POLLIN : 0);
  }
  return static_cast<short>(seen & events);
}

std::optional<Wires::Time> Wires::changes_at(int number, Time now) const {
  const Socket& own = at(number);
  std::optional<Time> first;
  const auto consider = [&](const std::optional<Time>& time) {
    if (time && *time > now && (!first || *time < *first)) first = time;
  };
  if (own.kind == Kind::kStream) consider(own.connected);
  if (!own.inbox.empty()) consider(own.inbox.front().at);
  for (const Waiting& waiting : own.to_accept) consider(waiting.at);
  consider(own.end);
  return first;
}

void Wires::cut(int process, Time now) {
  is_cut_.resize(std::max(is_cut_.size(), static_cast<std::size_t>(process) + 1));
  is_cut_[static_cast<std::size_t>(process)] = true;
  for (std::size_t i = 0; i < sockets_.size(); ++i) {
    Socket& own = sockets_[i];
    if (own.process != process || own.cut) continue;
    const int number = static_cast<int>(i);
    if (!own.closed) {
      for (const Waiting& waiting : own.to_accept) end(waiting.socket, now);
      end(number, now);
    }
    own.cut = true;
  }
}

int Wires::num_open() const {
  return static_cast<int>(std::count_if(sockets_.begin(), sockets_.end(), [](const Socket& socket) {
    return !socket.closed && !(socket.kind == Kind::kStream && socket.cut);
  }));
}

}  // namespace tessera::seeded
