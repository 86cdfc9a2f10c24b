// tests/mpi/two_hosts.h: two hosts on one machine: two network namespaces of one name that see each
// other over a pair of virtual interfaces, and nothing else. Needs root, and a kernel that lets it.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/tools/program.h"

namespace tessera::testing {

/// Whether processes of one host see those of the other in /proc, and may map their memory.
enum class ProcessTables : std::uint8_t { kShared, kOwn };

class TwoHosts {
 public:
  TwoHosts();
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;
  ~TwoHosts();

  /// Why there are none; empty where they are there.
  const std::string& refused() const noexcept { return refused_; }
  static std::string address_of(int host) { return "10.99.0." + std::to_string(host + 1); }
  /// The calling thread's sockets are this host's from now on. False where that is refused.
  bool enter(int host) const;

  /// tessera-train by OpenMPI's mpirun on host 0 with two ranks on each host: 0 and 1, 2 and 3.
  Ran train(ProcessTables tables, const std::vector<std::string>& arguments,
            const std::vector<std::string>& launcher_options = {}) const;
  /// tessera-train as one of its ranks, in this environment.
  StartedProgram start_rank(int host, const std::vector<std::string>& arguments,
                            const std::map<std::string, std::string>& environment) const;

 private:
  std::string name_of(int host) const { return name_ + (host == 0 ? "a" : "b"); }
  /// Words that a command on a host begins with.
  std::string prefix_of(int host, ProcessTables tables) const;

  std::string name_;
  std::string refused_;
};

/// What was said to one port over one connection.
struct HeardSession {
  std::string address;  ///< whom it reached
  int port = 0;
  std::string bytes;
};

/// True if whoever listens there ends a connection over which these bytes come.
bool is_turned_away(const HeardSession& session, const std::string& bytes);

/// Asks again and again until it is so; false where it is not within `limit`.
template <class IsSo>
bool becomes_true(IsSo is_so, std::chrono::milliseconds limit) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

/// Hears what arrives at host 0.
class Wiretap {
 public:
  explicit Wiretap(const TwoHosts& hosts);
  Wiretap(const Wiretap&) = delete;
  Wiretap& operator=(const Wiretap&) = delete;
  ~Wiretap();
  /// Connections that began with a greeting of the control channel.
  std::vector<HeardSession> sessions() const;

 private:
  void run();
  void hear(std::string_view packet);

  const TwoHosts& hosts_;
  mutable std::mutex mutex_;
  std::map<std::string, HeardSession> by_connection_;
  std::atomic<bool> closing_{false};
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace tessera::testing
