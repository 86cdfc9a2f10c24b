#include "sockets.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace {

/// What precedes a frame's bytes.
struct Header {
  CallNumber call;
  std::uint64_t signature_bytes = 0;
  std::uint64_t message_bytes = 0;
};

template <class T>
void append(std::string& bytes, const T& value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void write_all(int end, const std::string& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t sent = ::send(end, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) return;
    if (sent > 0) at += static_cast<std::size_t>(sent);
  }
}

std::string read_all(int end, std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t at = 0; at < size;) {
    const ssize_t got = ::recv(end, bytes.data() + at, size - at, 0);
    if (got == 0 || (got < 0 && errno != EINTR)) break;
    if (got > 0) at += static_cast<std::size_t>(got);
  }
  return bytes;
}

}  // namespace

Sockets::Sockets(int rank, std::vector<int> ends) : rank_(rank), peers_(ends.size()) {
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (static_cast<int>(i) != rank) peers_[i].end = ends[i];
  }
}

Sockets::~Sockets() {
  for (const Peer& peer : peers_) {
    if (peer.end >= 0) ::close(peer.end);
  }
}

std::vector<std::string> Sockets::exchange(const std::string& own) {
  std::string framed;
  append(framed, std::uint64_t{own.size()});
  framed += own;
  for (const Peer& peer : peers_) {
    if (peer.end >= 0) write_all(peer.end, framed);
  }
  std::vector<std::string> texts;
  for (const Peer& peer : peers_) {
    if (peer.end < 0) {
      texts.push_back(own);
      continue;
    }
    std::uint64_t size = 0;
    std::memcpy(&size, read_all(peer.end, sizeof size).data(), sizeof size);
    texts.push_back(read_all(peer.end, size));
  }
  return texts;
}

void Sockets::send(int rank, const CallNumber& call, const Frame& frame) {
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (rank == rank_) {
    peer.arrived[call] = frame;
    return;
  }
  append(peer.out, Header{call, frame.signature.size(), frame.message.size()});
  peer.out += frame.signature;
  peer.out += frame.message;
  write_some(peer);
}

void Sockets::write_some(Peer& peer) {
  while (!peer.gone && peer.sent < peer.out.size()) {
    const ssize_t sent = ::send(peer.end, peer.out.data() + peer.sent, peer.out.size() - peer.sent,
                                MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    if (sent < 0) peer.gone = true;  // the control channel says why
    if (sent > 0) peer.sent += static_cast<std::size_t>(sent);
  }
  peer.out.clear();
  peer.sent = 0;
}

void Sockets::read_some(Peer& peer) {
  char bytes[1 << 16];
  for (;;) {
    const ssize_t got = ::recv(peer.end, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) peer.gone = true;
    if (got <= 0) break;
    peer.in.append(bytes, static_cast<std::size_t>(got));
  }
  std::size_t at = 0;
  while (peer.in.size() - at >= sizeof(Header)) {
    Header header;
    std::memcpy(&header, peer.in.data() + at, sizeof header);
    if (peer.in.size() - at < sizeof header + header.signature_bytes + header.message_bytes) break;
    at += sizeof header;
    Frame& frame = peer.arrived[header.call];
    frame.signature = peer.in.substr(at, header.signature_bytes);
    frame.message = peer.in.substr(at + header.signature_bytes, header.message_bytes);
    at += header.signature_bytes + header.message_bytes;
  }
  peer.in.erase(0, at);
}

void Sockets::pump() {
  for (Peer& peer : peers_) {
    if (peer.end < 0 || peer.gone) continue;
    write_some(peer);
    read_some(peer);
  }
}

std::optional<Frame> Sockets::take(int rank, const CallNumber& call) {
  auto& arrived = peers_[static_cast<std::size_t>(rank)].arrived;
  const auto found = arrived.find(call);
  if (found == arrived.end()) return std::nullopt;
  Frame frame = std::move(found->second);
  arrived.erase(found);
  return frame;
}

void Sockets::flush() {
  for (;;) {
    std::vector<pollfd> waiting;
    for (const Peer& peer : peers_) {
      if (!peer.gone && peer.sent < peer.out.size()) {
        waiting.push_back({peer.end, POLLIN | POLLOUT, 0});
      }
    }
    if (waiting.empty()) return;
    ::poll(waiting.data(), waiting.size(), 1000);
    pump();
  }
}
