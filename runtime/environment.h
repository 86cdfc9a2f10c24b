// runtime/environment.h: what the threads of a job ask of the machine: the time, a pause, a lock,
// one another's wake-ups, threads and sockets. The machine itself answers, unless the calling
// thread belongs to an Environment that stands in for it (docs/simulation.md).
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "placement/api.h"

struct pollfd;

namespace tessera TSR_API {

/// Stands in for the machine. Its functions are called by its own threads only, which it lets go on
/// one at a time. Sockets never block and are told by number, from 0 up; a function about one
/// returns what the system call would, or −errno.
class Environment {
 public:
  using Time = std::chrono::steady_clock::time_point;
  virtual ~Environment() = default;

  virtual Time now() noexcept = 0;
  /// A place where it matters which thread comes first: another one may go on.
  virtual void interleave() noexcept = 0;
  /// The calling thread has nothing to do just now.
  virtual void yield() noexcept = 0;
  /// Sleeps until somebody wakes `place`, at most until `until`; may wake for nothing. `lock` is
  /// given up meanwhile.
  virtual void sleep(const void* place, std::unique_lock<std::mutex>& lock, Time until) = 0;
  virtual void wake_one(const void* place) noexcept = 0;
  virtual void wake_all(const void* place) noexcept = 0;

  /// The number of a thread of the same environment that runs `body`.
  virtual std::uint64_t start(std::function<void()> body) = 0;
  virtual void join(std::uint64_t thread) = 0;

  /// Listens on a free port.
  virtual int listen() = 0;
  virtual int port_of(int listener) = 0;
  virtual int accept(int listener) = 0;
  virtual int connect(int port) = 0;
  virtual int outcome_of_connecting(int socket) = 0;  ///< an errno; 0: connected
  virtual std::int64_t send(int socket, std::string_view bytes) = 0;
  virtual std::int64_t receive(int socket, std::span<char> into) = 0;
  virtual void end_sending(int socket) noexcept = 0;
  /// What poll() sees as readable from set_event() to clear_event().
  virtual int make_event() = 0;
  virtual void set_event(int event) noexcept = 0;
  virtual void clear_event(int event) noexcept = 0;
  virtual void close(int number) noexcept = 0;
  /// Fills `revents`. nullopt: for ever.
  virtual void poll(std::span<pollfd> entries, std::optional<Time> until) = 0;
};

/// Of the calling thread; null: the machine itself.
extern constinit thread_local Environment* this_environment;
inline Environment* environment() noexcept { return this_environment; }

/// A steady clock that an environment may turn by itself.
struct RankClock {
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr bool is_steady = true;
  static time_point now() noexcept {
    Environment* const stand_in = environment();
    return stand_in == nullptr ? std::chrono::steady_clock::now() : stand_in->now();
  }
};

/// Nothing on the machine, where threads interleave by themselves.
inline void interleave() noexcept {
  if (Environment* const stand_in = environment()) stand_in->interleave();
}
/// Gives the core away.
inline void yield_core() noexcept {
  if (Environment* const stand_in = environment()) return stand_in->yield();
  std::this_thread::yield();
}

/// std::mutex.
class Mutex {
 public:
  void lock() {
    if (environment() == nullptr) return mutex_.lock();
    interleave();
    while (!mutex_.try_lock()) yield_core();
  }
  void unlock() { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

/// std::condition_variable. On the machine a time point is one of std::chrono::steady_clock.
class Condition {
 public:
  void notify_one() noexcept {
    if (Environment* const stand_in = environment()) return stand_in->wake_one(this);
    condition_.notify_one();
  }
  void notify_all() noexcept {
    if (Environment* const stand_in = environment()) return stand_in->wake_all(this);
    condition_.notify_all();
  }
  /// Whether `is_so()`, at `until` at the latest.
  template <class IsSo>
  bool wait_until(std::unique_lock<Mutex>& lock, RankClock::time_point until, const IsSo& is_so) {
    while (!is_so()) {
      if (RankClock::now() >= until) return false;
      wait(lock, until);
    }
    return true;
  }
  template <class IsSo>
  bool wait_for(std::unique_lock<Mutex>& lock, RankClock::duration limit, const IsSo& is_so) {
    return wait_until(lock, RankClock::now() + limit, is_so);
  }

 private:
  void wait(std::unique_lock<Mutex>& lock, RankClock::time_point until);

  std::condition_variable condition_;
};

/// std::thread, in the environment of the thread that makes it.
class Thread {
 public:
  Thread() = default;
  /// Throws std::system_error where the system refuses it.
  explicit Thread(std::function<void()> body);
  bool joinable() const noexcept { return thread_.joinable() || number_.has_value(); }
  void join();

 private:
  std::thread thread_;
  std::optional<std::uint64_t> number_;  ///< of an environment's thread
};

}  // namespace tessera
