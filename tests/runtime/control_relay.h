// tests/runtime/control_relay.h: somebody between the ranks of a job and rank 0's control port, who
// sees every frame and may put in others.
#pragma once

#include <poll.h>

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/control/frame.h"
#include "runtime/control/socket.h"
#include "tests/runtime/control_ranks.h"

namespace tessera::testing {

struct RelayedFrame {
  std::size_t connection = 0;  ///< from 0 up, in the order of calls
  bool from_caller = false;
  std::size_t number = 0;  ///< of this direction; 0 is the greeting
  bool is_visit = false;   ///< else a rank's own link
  std::string bytes;
};

/// Thread-safety: seen() from any thread.
class Relay {
 public:
  /// What is passed on in place of a frame.
  using Meddle = std::function<std::vector<std::string>(const RelayedFrame&)>;
  explicit Relay(Meddle meddle = {})
      : meddle_(std::move(meddle)),
        listener_(value_or_throw(listen_on("127.0.0.1", 0))),
        thread_([this] { run(); }) {}
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay() {
    closing_ = true;
    thread_.join();
  }

  /// Puts itself in rank 0's place as the ranks learn where they listen.
  Rendezvous::Tamper tamper() {
    return [this](int round, std::vector<std::string>& texts) {
      if (round != 1) return;
      std::istringstream words(texts[0]);
      std::string verb, token;
      const std::lock_guard lock(mutex_);
      words >> verb >> hub_.address >> hub_.port >> token;
      texts[0] = verb + " " + listener_.endpoint.address + " " +
                 std::to_string(listener_.endpoint.port) + " " + token;
    };
  }
  std::vector<RelayedFrame> seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  Endpoint hub() const {
    const std::lock_guard lock(mutex_);
    return hub_;
  }

 private:
  struct Way {
    std::string arrived = {}, unsent = {};
    std::size_t num_frames = 0;
  };
  struct Pair {
    std::size_t number;
    Descriptor caller, callee;
    Way up = {}, down = {};
    bool is_visit = false;
    bool over = false;
  };

  void run() {
    std::list<Pair> pairs;
    while (!closing_) {
      std::vector<pollfd> entries{{listener_.socket.number(), POLLIN, 0}};
      for (const Pair& pair : pairs) {
        entries.push_back({pair.caller.number(), POLLIN, 0});
        entries.push_back({pair.callee.number(), POLLIN, 0});
      }
      poll_until(entries, std::chrono::steady_clock::now() + milliseconds(5));
      for (Pair& pair : pairs) {
        carry(pair, pair.caller, pair.callee, pair.up, true);
        carry(pair, pair.callee, pair.caller, pair.down, false);
      }
      pairs.remove_if([](const Pair& pair) { return pair.over; });
      while (auto caller = accept_from(listener_.socket)) {
        auto callee = begin_connecting(hub());
        if (callee.ok()) pairs.push_back({num_pairs_++, std::move(*caller), *std::move(callee)});
      }
    }
  }

  void carry(Pair& pair, const Descriptor& from, const Descriptor& to, Way& way, bool is_up) {
    const SocketState received = receive_some(from, way.arrived);
    while (way.arrived.size() >= 4) {
      std::size_t size = 4;
      for (std::size_t at = 0; at < 4; ++at) {
        size += std::size_t{static_cast<std::uint8_t>(way.arrived[at])} << (8 * at);
      }
      if (way.arrived.size() < size) break;
      pass_on(pair, way, is_up, way.arrived.substr(0, size));
      way.arrived.erase(0, size);
    }
    const SocketState sent = send_some(to, way.unsent);
    if ((received == SocketState::kClosed && way.unsent.empty()) || sent == SocketState::kClosed) {
      pair.over = true;
    }
  }

  void pass_on(Pair& pair, Way& way, bool is_up, std::string bytes) {
    if (is_up && way.num_frames == 0) pair.is_visit = bytes.back() != 0;  // its greeting's purpose
    RelayedFrame frame{pair.number, is_up, way.num_frames++, pair.is_visit, std::move(bytes)};
    const std::vector<std::string> instead =
        meddle_ ? meddle_(frame) : std::vector<std::string>{frame.bytes};
    for (const std::string& each : instead) way.unsent += each;
    const std::lock_guard lock(mutex_);
    seen_.push_back(std::move(frame));
  }

  const Meddle meddle_;
  Listener listener_;
  mutable std::mutex mutex_;
  Endpoint hub_;
  std::vector<RelayedFrame> seen_;
  std::size_t num_pairs_ = 0;
  std::atomic<bool> closing_{false};
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace tessera::testing
