// runtime/control/socket.h: the sockets of a control channel: owned descriptors that close
// themselves, never block and never outlive an exec. An endpoint is a numeric address and a port.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "placement/status.h"
#include "runtime/environment.h"

struct pollfd;

namespace tessera {

/// Owns one descriptor; -1: none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { close(); }
  int number() const noexcept { return number_; }
  bool is_open() const noexcept { return number_ >= 0; }
  void close() noexcept;

 private:
  int number_ = -1;
};

struct Endpoint {
  std::string address;
  int port = 0;
};
/// "127.0.0.1:4711"
std::string to_string(const Endpoint& endpoint);
/// What the system says of an errno.
std::string system_text(int error_number);

/// A listening socket. `host`: a name or an address; port 0: any free one.
struct Listener {
  Descriptor socket;
  Endpoint endpoint;
};
/// Errors: Unavailable naming the address and what the system said.
StatusOr<Listener> listen_on(const std::string& host, int port);
/// An address at which other hosts may reach this one: what its name stands for, if one of its
/// interfaces has that, else that of the first which is not the loopback.
std::string address_for_others();

/// Numeric ones that a host's name stands for; of IPv4 first. Errors: Unavailable with what the
/// system said.
StatusOr<std::vector<std::string>> addresses_of(const std::string& host);
bool is_loopback_address(const std::string& numeric);

/// nullopt where nobody waits to be accepted; errno says whether that is an error.
std::optional<Descriptor> accept_from(const Descriptor& listener);
/// Begins to connect: writable once that is decided. Errors: Unavailable with what the system said.
StatusOr<Descriptor> begin_connecting(const Endpoint& endpoint);
/// What became of it: OK, or Unavailable with what the system said.
Status outcome_of_connecting(const Descriptor& socket);

enum class SocketState : std::uint8_t { kOpen, kClosed };
/// Sends what goes without waiting and drops it from `bytes`. Never raises SIGPIPE.
SocketState send_some(const Descriptor& socket, std::string& bytes);
/// Appends what is there, at most 64 KiB. kClosed where nothing can follow.
SocketState receive_some(const Descriptor& socket, std::string& bytes);
/// Nothing more will be sent; the other end reads what was.
void end_sending(const Descriptor& socket) noexcept;

/// Waits for any of `entries`, at most until `until` (nullopt: for ever).
void poll_until(std::vector<pollfd>& entries,
                std::optional<std::chrono::steady_clock::time_point> until);

/// Wakes a thread out of poll().
class WakeUp {
 public:
  static StatusOr<WakeUp> make();
  const Descriptor& descriptor() const noexcept { return descriptor_; }
  void wake() const noexcept;
  void clear() const noexcept;

 private:
  Descriptor descriptor_;
};

}  // namespace tessera
