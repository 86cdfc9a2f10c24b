// emulation/nccl_office.h: how processes of one machine reach one another for NCCL emulated: each
// has an office, an abstract Unix socket that leaves nothing behind, and a thread that reads what
// comes. Network namespaces, which stand for hosts, have abstract sockets of their own: there
// TESSERA_EMULATED_NCCL_FOLDER in the environment names a folder for sockets that all of them see.
// Between two offices each way is a connection of its own. Vocabulary: a slip is what one rank
// tells a rank of another process, with the bytes that go along.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulation/nccl.h"

namespace tessera::emulation {

struct NcclSlip {
  enum class Kind : std::int32_t {
    kHello,    ///< opens a connection; bytes: the sender's address
    kJoin,     ///< to the maker of an id: rank `from` of `count` is there, with device `peer`
    kRefused,  ///< to rank `to`: why; bytes: the text, `number` the result
    kWhole,    ///< bytes: where each rank is
    kPost,     ///< a collective's call, bytes: its data
    kLetter,   ///< a message
    kTaken,    ///< that message was
    kWindow    ///< rank `from`, with device `peer`, brings `count` bytes to registration `number`;
               ///< bytes: where they lie
  };
  Kind kind = Kind::kHello;
  std::int32_t from = 0, to = 0;
  std::int32_t call_kind = 0, type = 0, op = 0, peer = 0;
  std::uint64_t count = 0, number = 0, num_bytes = 0;
  char id[NCCL_UNIQUE_ID_BYTES] = {};
};

/// What processes of one host have in common, of an office's address.
std::string host_of(const std::string& office);

/// One in a process, never destroyed. Thread-safety: any thread.
class NcclOffice {
 public:
  using Bytes = std::vector<char>;
  struct Hooks {
    /// On the office's own thread, which must not wait.
    std::function<void(const std::string& process, const NcclSlip&, Bytes)> take;
    /// That process has ended.
    std::function<void(const std::string& process)> lose;
  };
  static NcclOffice& here();

  /// Where others reach this process; empty where the system gives no socket.
  const std::string& address() const { return address_; }
  /// Once, before anything is sent or can come.
  void open(Hooks hooks);
  /// Waits while that process is behind with reading, until `stops` is set. False where it is gone.
  bool send(const std::string& process, NcclSlip slip, const void* bytes, std::size_t num_bytes,
            const std::atomic<bool>& stops);
  /// Never waits.
  bool post(const std::string& process, NcclSlip slip, const std::string& bytes);
  /// From now on the end of that process is seen.
  void reach(const std::string& process) { way_to(process); }

 private:
  /// What goes to one process.
  struct Way {
    std::mutex mutex;
    int socket = -1;
    bool gone = false;
    std::string unsent;
    std::size_t sent = 0;  ///< of those
    void write_some();     // under mutex
  };
  /// What comes from one process.
  struct Visitor {
    int socket = -1;
    std::string process;  ///< once it has said hello
    NcclSlip slip;
    std::size_t slip_bytes = 0;  ///< of it that are there
    Bytes bytes;
    std::size_t num_bytes = 0;
    bool over = false;
  };

  NcclOffice();
  std::shared_ptr<Way> way_to(const std::string& process);
  void serve();
  void accept_all();
  void read(Visitor& visitor);
  void take(Visitor& visitor);

  std::string address_;
  int listener_ = -1, wake_up_ = -1;
  Hooks hooks_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Way>> ways_;  // under mutex_
  std::vector<Visitor> visitors_;                     // of the office's thread
};

}  // namespace tessera::emulation
