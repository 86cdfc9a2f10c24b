// emulation/device_state.h: the devices of this process: their faults, memory and counts, and the
// mutex that guards what is not a stream's own.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "emulation/capture.h"
#include "emulation/sanitizer.h"

namespace tessera::emulation {

constexpr int kMaxDevices = 64;

struct DeviceState {
  std::atomic<cudaError_t> fault{cudaSuccess};
  std::atomic<std::int64_t> launches{0};
  std::atomic<std::int64_t> faulty_launch{0};  // the number of one that was told to fail; 0: none
  std::atomic<bool> is_busy{false};
  std::string fault_text;  // the rest is guarded by the runtime's mutex
  std::size_t used_bytes = 0;
  std::set<Stream*> streams;
};

struct Block {
  std::size_t bytes = 0;
  int device = -1;         // of host memory: -1
  bool is_shared = false;  // peers map it: cudaFree() does not take it
};

class Runtime {
 public:
  static Runtime& get();

  /// Holds the mutex, unseen by the sanitizer.
  class Lock {
   public:
    Lock() : lock_(get().mutex_) {}

   private:
    const Hidden hidden_;
    const std::lock_guard<std::mutex> lock_;
  };

  std::atomic<int> num_devices{8};
  std::atomic<std::size_t> device_bytes{std::size_t{16} << 30};
  DeviceState devices[kMaxDevices];
  std::map<const std::byte*, Block> blocks;                    // by where they begin; guarded
  std::map<std::uint64_t, std::unique_ptr<Capture>> captures;  // by their numbers; guarded
  std::set<std::pair<int, int>> peers;  // whose access was enabled, and to whom; guarded

 private:
  std::mutex mutex_;
};

/// Of this thread.
int current_device();
/// Notes the error as this thread's last, and returns it.
cudaError_t noted(cudaError_t error);
/// What an operation that submits to `stream` must not go on for: no stream, or the device's fault.
cudaError_t refusal(Stream* stream);
/// At the stream's turn, or into the capture of which it is a lane. Skipped where the device has a
/// fault.
cudaError_t submit(Stream* stream, Operation operation);
/// Memory that was mapped counts as the device's until it is forgotten.
cudaError_t note_shared_block(const std::byte* memory, std::size_t bytes, int device);
void forget_shared_block(const std::byte* memory);
/// Until no stream of the device uses what is there now.
void wait_for_streams(int device);
/// Whether a capture forbids this thread what might wait, such as cudaMalloc.
bool is_forbidden_by_capture();

}  // namespace tessera::emulation
