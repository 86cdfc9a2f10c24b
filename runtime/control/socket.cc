#include "runtime/control/socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>

#include "runtime/control/host_identity.h"

namespace tessera {

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    close();
    number_ = std::exchange(other.number_, -1);
  }
  return *this;
}

void Descriptor::close() noexcept {
  if (number_ < 0) return;
  const int number = std::exchange(number_, -1);
  if (Environment* const stand_in = environment()) return stand_in->close(number);
  ::close(number);
}

std::string to_string(const Endpoint& endpoint) {
  const bool is_v6 = endpoint.address.find(':') != std::string::npos;
  return (is_v6 ? "[" + endpoint.address + "]" : endpoint.address) + ":" +
         std::to_string(endpoint.port);
}

std::string system_text(int error_number) { return std::generic_category().message(error_number); }

namespace {

Status system_error(int error_number) { return unavailable(system_text(error_number)); }

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

StatusOr<Addresses> resolve(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error == EAI_SYSTEM) return system_error(errno);
  if (error != 0) return unavailable(gai_strerror(error));
  return Addresses(found, &freeaddrinfo);
}

std::string numeric(const sockaddr* address, socklen_t size) {
  char text[NI_MAXHOST] = "";
  getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

void set_option(const Descriptor& socket, int level, int option, int value) noexcept {
  setsockopt(socket.number(), level, option, &value, sizeof value);
}

/// Small frames go at once. A host that vanishes without a word is missed within seconds; one whose
/// process is merely stopped still answers for it.
void tune(const Descriptor& socket) noexcept {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 2);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 5);
}

Descriptor new_socket(int family) {
  return Descriptor(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(address);
  return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr) != 0;
}

/// Of no use without the interface's name.
bool is_link_local(const sockaddr* v6) {
  return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(v6)->sin6_addr) != 0;
}

int port_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
}

StatusOr<Listener> listen_at(const addrinfo& at) {
  Listener listener{.socket = new_socket(at.ai_family), .endpoint = {}};
  const int number = listener.socket.number();
  if (number < 0) return system_error(errno);
  set_option(listener.socket, SOL_SOCKET, SO_REUSEADDR, 1);  // a job may follow another at once
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (bind(number, at.ai_addr, at.ai_addrlen) != 0 || listen(number, SOMAXCONN) != 0 ||
      getsockname(number, reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return system_error(errno);
  }
  listener.endpoint = {numeric(at.ai_addr, at.ai_addrlen), port_of(bound)};
  return listener;
}

/// Of interfaces that are up, the loopback left out; IPv4 first.
std::vector<std::string> addresses_of_interfaces() {
  std::vector<std::string> v4, v6;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return v4;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    const sa_family_t family = at->ifa_addr->sa_family;
    if ((family != AF_INET && family != AF_INET6) || is_loopback(at->ifa_addr)) continue;
    if (family == AF_INET) {
      v4.push_back(numeric(at->ifa_addr, sizeof(sockaddr_in)));
    } else if (!is_link_local(at->ifa_addr)) {
      v6.push_back(numeric(at->ifa_addr, sizeof(sockaddr_in6)));
    }
  }
  v4.insert(v4.end(), v6.begin(), v6.end());
  return v4;
}

}  // namespace

StatusOr<Listener> listen_on(const std::string& host, int port) {
  const auto refuse = [&](const Status& why) {
    return unavailable("cannot listen on " + to_string(Endpoint{host, port}) + ": " +
                       std::string(message_of(why)));
  };
  if (port < 0 || port > 65535) return refuse(unavailable("a port is 0 to 65535"));
  if (Environment* const stand_in = environment()) {
    Listener listener{.socket = Descriptor(stand_in->listen()), .endpoint = {host, port}};
    listener.endpoint.port = stand_in->port_of(listener.socket.number());
    return listener;
  }
  const StatusOr<Addresses> addresses = resolve(host, port, AI_PASSIVE);
  if (!addresses.ok()) return refuse(addresses.status());
  Status first;
  for (const addrinfo* at = addresses->get(); at != nullptr; at = at->ai_next) {
    StatusOr<Listener> listener = listen_at(*at);
    if (listener.ok()) return listener;
    if (first.ok()) first = listener.status();
  }
  return refuse(first);
}

std::string address_for_others() {
  const std::vector<std::string> own = addresses_of_interfaces();
  const std::string name = host_name();
  if (const StatusOr<Addresses> found = resolve(name, 0, 0); found.ok()) {
    for (const addrinfo* at = found->get(); at != nullptr; at = at->ai_next) {
      std::string address = numeric(at->ai_addr, at->ai_addrlen);
      if (std::find(own.begin(), own.end(), address) != own.end()) return address;
    }
  }
  return own.empty() ? name : own.front();
}

StatusOr<std::vector<std::string>> addresses_of(const std::string& host) {
  TSR_ASSIGN_OR_RETURN(const Addresses found, resolve(host, 0, 0));
  std::vector<std::string> addresses;
  for (const int family : {AF_INET, AF_INET6}) {
    for (const addrinfo* at = found.get(); at != nullptr; at = at->ai_next) {
      if (at->ai_family != family) continue;
      addresses.push_back(numeric(at->ai_addr, at->ai_addrlen));
    }
  }
  return addresses;
}

bool is_loopback_address(const std::string& numeric) {
  const StatusOr<Addresses> found = resolve(numeric, 0, AI_NUMERICHOST);
  return found.ok() && is_loopback((*found)->ai_addr);
}

std::optional<Descriptor> accept_from(const Descriptor& listener) {
  if (Environment* const stand_in = environment()) {
    const int number = stand_in->accept(listener.number());
    if (number < 0) errno = -number;
    return number < 0 ? std::nullopt : std::optional<Descriptor>(number);
  }
  Descriptor socket(::accept4(listener.number(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.is_open()) return std::nullopt;
  tune(socket);
  return socket;
}

StatusOr<Descriptor> begin_connecting(const Endpoint& endpoint) {
  if (Environment* const stand_in = environment()) {
    return Descriptor(stand_in->connect(endpoint.port));
  }
  TSR_ASSIGN_OR_RETURN(const Addresses addresses,
                       resolve(endpoint.address, endpoint.port, AI_NUMERICHOST));
  Descriptor socket = new_socket(addresses->ai_family);
  if (!socket.is_open()) return system_error(errno);
  if (connect(socket.number(), addresses->ai_addr, addresses->ai_addrlen) != 0 &&
      errno != EINPROGRESS && errno != EINTR) {
    return system_error(errno);
  }
  tune(socket);
  return socket;
}

Status outcome_of_connecting(const Descriptor& socket) {
  int error = 0;
  socklen_t size = sizeof error;
  if (Environment* const stand_in = environment()) {
    error = stand_in->outcome_of_connecting(socket.number());
  } else if (getsockopt(socket.number(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
    error = errno;
  }
  return error == 0 ? absl::OkStatus() : system_error(error);
}

namespace {

// How many bytes were moved, or −errno.
std::int64_t send_bytes(int socket, std::string_view bytes) {
  if (Environment* const stand_in = environment()) return stand_in->send(socket, bytes);
  const ssize_t count = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return count < 0 ? -errno : count;
}
std::int64_t receive_bytes(int socket, std::span<char> into) {
  if (Environment* const stand_in = environment()) return stand_in->receive(socket, into);
  const ssize_t count = ::recv(socket, into.data(), into.size(), 0);
  return count < 0 ? -errno : count;
}
bool would_block(std::int64_t result) { return result == -EAGAIN || result == -EWOULDBLOCK; }

}  // namespace

SocketState send_some(const Descriptor& socket, std::string& bytes) {
  std::size_t sent = 0;
  SocketState flow = SocketState::kOpen;
  while (sent < bytes.size()) {
    const std::int64_t count = send_bytes(socket.number(), std::string_view(bytes).substr(sent));
    if (count >= 0) {
      sent += static_cast<std::size_t>(count);
    } else if (count != -EINTR) {
      if (!would_block(count)) flow = SocketState::kClosed;
      break;
    }
  }
  bytes.erase(0, sent);
  return flow;
}

SocketState receive_some(const Descriptor& socket, std::string& bytes) {
  constexpr std::size_t kMost = std::size_t{64} << 10;
  char chunk[4096];
  for (std::size_t received = 0; received < kMost;) {
    const std::int64_t count = receive_bytes(socket.number(), chunk);
    if (count == 0) return SocketState::kClosed;
    if (count > 0) {
      bytes.append(chunk, static_cast<std::size_t>(count));
      received += static_cast<std::size_t>(count);
    } else if (count != -EINTR) {
      return would_block(count) ? SocketState::kOpen : SocketState::kClosed;
    }
  }
  return SocketState::kOpen;
}

void end_sending(const Descriptor& socket) noexcept {
  if (!socket.is_open()) return;
  if (Environment* const stand_in = environment()) return stand_in->end_sending(socket.number());
  shutdown(socket.number(), SHUT_WR);
}

void poll_until(std::vector<pollfd>& entries,
                std::optional<std::chrono::steady_clock::time_point> until) {
  if (Environment* const stand_in = environment()) return stand_in->poll(entries, until);
  int limit_ms = -1;
  if (until) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(*until - std::chrono::steady_clock::now());
    limit_ms = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
  }
  if (::poll(entries.data(), entries.size(), limit_ms) < 0) {
    for (pollfd& entry : entries) entry.revents = 0;  // look again
    if (errno != EINTR) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

StatusOr<WakeUp> WakeUp::make() {
  WakeUp made;
  if (Environment* const stand_in = environment()) {
    made.descriptor_ = Descriptor(stand_in->make_event());
    return made;
  }
  made.descriptor_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made.descriptor_.is_open()) return system_error(errno);
  return made;
}

void WakeUp::wake() const noexcept {
  if (Environment* const stand_in = environment()) {
    return stand_in->set_event(descriptor_.number());
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t count = ::write(descriptor_.number(), &one, sizeof one);
}

void WakeUp::clear() const noexcept {
  if (Environment* const stand_in = environment()) {
    return stand_in->clear_event(descriptor_.number());
  }
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t size = ::read(descriptor_.number(), &count, sizeof count);
}

}  // namespace tessera
