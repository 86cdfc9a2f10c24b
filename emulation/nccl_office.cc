#include "emulation/nccl_office.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

namespace tessera::emulation {
namespace {

constexpr int kLookMs = 10;  ///< how long a sender that is to stop goes on waiting

struct Name {
  sockaddr_un address{};
  socklen_t size = 0;
};
/// Of a file where it begins with '/'; else an abstract one, which goes with its process, however
/// that ends.
Name name_of(const std::string& text) {
  Name name;
  name.address.sun_family = AF_UNIX;
  const std::size_t begin = text.starts_with('/') ? 0 : 1;
  text.copy(name.address.sun_path + begin, sizeof name.address.sun_path - 1);
  name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

/// What tells this process's host from others: its network.
unsigned long long own_network() {
  struct stat space {};
  return ::stat("/proc/self/ns/net", &space) == 0 ? space.st_ino : 0;
}
/// Before the name of an office's socket.
std::string folder_of_offices() {
  const char* const asked = std::getenv("TESSERA_EMULATED_NCCL_FOLDER");
  return asked == nullptr ? "" : std::string(asked) + "/";
}

int new_socket() { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); }

bool is_own_user(int socket) {
  ucred who{};
  socklen_t size = sizeof who;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == ::geteuid();
}

}  // namespace

std::string host_of(const std::string& office) {
  const std::size_t begin = office.find("tessera-nccl-");
  return begin == std::string::npos ? ""
                                    : office.substr(begin, office.find('-', begin + 13) - begin);
}

NcclOffice& NcclOffice::here() {
  static NcclOffice* const office = new NcclOffice();  // its thread outlives static objects
  return *office;
}

NcclOffice::NcclOffice() {
  std::uint64_t random[2] = {};
  if (::getrandom(random, sizeof random, 0) != sizeof random) return;
  char own[80];
  std::snprintf(own, sizeof own, "tessera-nccl-%llu-%d-%016llx%016llx", own_network(), ::getpid(),
                static_cast<unsigned long long>(random[0]),
                static_cast<unsigned long long>(random[1]));
  const std::string text = folder_of_offices() + own;
  if (text.size() >= sizeof(sockaddr_un::sun_path)) return;
  const Name name = name_of(text);
  const int listener = new_socket();
  wake_up_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (listener < 0 || wake_up_ < 0 ||
      ::bind(listener, reinterpret_cast<const sockaddr*>(&name.address), name.size) != 0 ||
      ::listen(listener, SOMAXCONN) != 0) {
    if (listener >= 0) ::close(listener);
    return;
  }
  listener_ = listener;
  address_ = text;
}

void NcclOffice::open(Hooks hooks) {
  hooks_ = std::move(hooks);
  if (listener_ >= 0) std::thread([this] { serve(); }).detach();
}

// ---- what goes out

void NcclOffice::Way::write_some() {
  while (!gone && sent < unsent.size()) {
    const ssize_t count =
        ::send(socket, unsent.data() + sent, unsent.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count >= 0) {
      sent += static_cast<std::size_t>(count);
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      gone = true;
    }
  }
  unsent.clear();
  sent = 0;
}

std::shared_ptr<NcclOffice::Way> NcclOffice::way_to(const std::string& process) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Way>& way = ways_[process];
  if (way != nullptr) return way;
  way = std::make_shared<Way>();
  way->socket = new_socket();
  const Name name = name_of(process);
  way->gone =
      way->socket < 0 ||
      ::connect(way->socket, reinterpret_cast<const sockaddr*>(&name.address), name.size) != 0;
  NcclSlip hello{.num_bytes = address_.size()};
  way->unsent.assign(reinterpret_cast<const char*>(&hello), sizeof hello);
  way->unsent += address_;
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_up_, &one, sizeof one);
  return way;
}

bool NcclOffice::send(const std::string& process, NcclSlip slip, const void* bytes,
                      std::size_t num_bytes, const std::atomic<bool>& stops) {
  const std::shared_ptr<Way> way = way_to(process);
  slip.num_bytes = num_bytes;
  bool given = false;
  while (true) {
    {
      const std::lock_guard lock(way->mutex);
      if (!std::exchange(given, true)) {
        way->unsent.append(reinterpret_cast<const char*>(&slip), sizeof slip);
        if (num_bytes > 0) way->unsent.append(static_cast<const char*>(bytes), num_bytes);
      }
      way->write_some();
      if (way->gone) return false;
      if (way->unsent.empty() || stops) return true;
    }
    pollfd entry{way->socket, POLLOUT, 0};
    ::poll(&entry, 1, kLookMs);
  }
}

bool NcclOffice::post(const std::string& process, NcclSlip slip, const std::string& bytes) {
  static const std::atomic<bool> at_once{true};
  return send(process, slip, bytes.data(), bytes.size(), at_once);
}

// ---- what comes in

void NcclOffice::serve() {
  while (true) {
    std::vector<pollfd> entries{{wake_up_, POLLIN, 0}, {listener_, POLLIN, 0}};
    for (const Visitor& visitor : visitors_) entries.push_back({visitor.socket, POLLIN, 0});
    std::vector<std::pair<std::string, std::shared_ptr<Way>>> ways;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [process, way] : ways_) ways.emplace_back(process, way);
    }
    std::erase_if(ways, [](const auto& each) {
      const std::lock_guard lock(each.second->mutex);
      return each.second->gone;
    });
    const std::size_t first_way = entries.size();
    bool is_behind = false;
    for (const auto& [process, way] : ways) {
      const std::lock_guard lock(way->mutex);
      is_behind = is_behind || !way->unsent.empty();
      entries.push_back({way->socket, way->unsent.empty() ? short{0} : short{POLLOUT}, 0});
    }
    // What a thread that has stopped waiting leaves unsent is seen at the next look.
    ::poll(entries.data(), entries.size(), is_behind ? kLookMs : 10 * kLookMs);
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t cleared = ::read(wake_up_, &count, sizeof count);
    for (std::size_t at = 0; at < visitors_.size(); ++at) {
      if (entries[at + 2].revents != 0) read(visitors_[at]);
    }
    for (std::size_t at = 0; at < ways.size(); ++at) {
      const short events = entries[first_way + at].revents;
      const std::shared_ptr<Way>& way = ways[at].second;
      bool has_ended = (events & (POLLHUP | POLLERR)) != 0;
      {
        const std::lock_guard lock(way->mutex);
        way->write_some();
        has_ended = has_ended || way->gone;
        way->gone = has_ended;
      }
      if (!has_ended) continue;
      // What it sent before it ended comes first.
      accept_all();
      for (Visitor& visitor : visitors_) read(visitor);
      hooks_.lose(ways[at].first);
    }
    std::erase_if(visitors_, [](const Visitor& visitor) {
      if (visitor.over) ::close(visitor.socket);
      return visitor.over;
    });
    accept_all();
  }
}

void NcclOffice::accept_all() {
  while (true) {
    pollfd entry{listener_, POLLIN, 0};
    if (::poll(&entry, 1, 0) <= 0) return;
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) return;
    if (is_own_user(socket)) {
      visitors_.push_back({.socket = socket});
    } else {
      ::close(socket);
    }
  }
}

void NcclOffice::read(Visitor& visitor) {
  while (!visitor.over) {
    const bool heads = visitor.slip_bytes < sizeof visitor.slip;
    char* const into = heads ? reinterpret_cast<char*>(&visitor.slip) + visitor.slip_bytes
                             : visitor.bytes.data() + visitor.num_bytes;
    const std::size_t wanted =
        heads ? sizeof visitor.slip - visitor.slip_bytes : visitor.bytes.size() - visitor.num_bytes;
    const ssize_t count = ::recv(visitor.socket, into, wanted, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
      visitor.over = true;
      if (!visitor.process.empty()) hooks_.lose(visitor.process);
      return;
    }
    if (heads) {
      visitor.slip_bytes += static_cast<std::size_t>(count);
      if (visitor.slip_bytes < sizeof visitor.slip) continue;
      visitor.bytes.resize(visitor.slip.num_bytes);
    } else {
      visitor.num_bytes += static_cast<std::size_t>(count);
    }
    if (visitor.num_bytes == visitor.bytes.size()) take(visitor);
  }
}

void NcclOffice::take(Visitor& visitor) {
  Bytes bytes = std::exchange(visitor.bytes, {});
  visitor.slip_bytes = visitor.num_bytes = 0;
  if (visitor.slip.kind == NcclSlip::Kind::kHello) {
    visitor.process.assign(bytes.begin(), bytes.end());
  } else {
    hooks_.take(visitor.process, visitor.slip, std::move(bytes));
  }
}

}  // namespace tessera::emulation
