// runtime/mpi/staged_call.h: a call on arrays of a device, moved through pinned memory of the host:
// what it reads is copied down before it moves, what it writes up after. Copies run on the
// communication stream between marks of the compute stream; the host waits for none of them.
#pragma once

#include <memory>
#include <vector>

#include "kernels/array.h"
#include "runtime/call/communicator.h"

namespace tessera {

/// A rank's pinned memory, and what copies up still read of it.
class Staging {
 public:
  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  /// Pinned for the device on which `array` lies: that of the first such call.
  const std::shared_ptr<Allocator>& memory_for(const Array& array);
  /// Keeps these arrays of the host until the mark of their device has come.
  void keep(Device& device, const Mark& read, std::vector<Array> on_host);

 private:
  struct Kept {
    std::shared_ptr<Device> device;
    Mark read;
    std::vector<Array> on_host;
  };
  void release_read();

  std::shared_ptr<Allocator> memory_;
  std::vector<Kept> kept_;  ///< in the order of their marks
};

/// One prepared call. An exchange's arrays go up whole, with what boxes leave as it was: two calls
/// in flight may not land in one array.
class StagedCall {
 public:
  /// Gives the device its copies down. `self`: the group rank. `staging` outlives this.
  StagedCall(const CollectiveCall& call, int self, Staging& staging);

  /// Whether all that the call reads lies on the host. Throws what the device failed with.
  bool is_down() const { return device_.done(down_); }
  /// The call on arrays of the host, once they are down.
  const CollectiveCall& on_host() const noexcept { return call_; }
  /// Gives the device its copies up, once the call has moved: what the compute stream is given from
  /// now on comes after them.
  void bring_up();

 private:
  /// An array of the call, and what the call does with it.
  struct Use {
    Array* array = nullptr;
    bool is_read = false;
    bool is_written = false;
  };
  struct Pair {
    Array on_device;
    Array on_host;
    bool is_written = false;
  };
  std::vector<Use> uses(int self);
  void place(std::vector<Use> uses, const std::shared_ptr<Allocator>& memory);

  Device& device_;
  Staging& staging_;
  CollectiveCall call_;
  std::vector<Pair> pairs_;
  Mark down_;
};

}  // namespace tessera
