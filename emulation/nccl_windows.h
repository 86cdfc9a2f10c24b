// emulation/nccl_windows.h: memory that the ranks of a communicator map, whether they are threads
// or processes of one host.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "emulation/nccl_comm.h"
#include "emulation/nccl_device.h"

namespace tessera::emulation {

/// An anonymous file, mapped. The mapping is of a device.
class NcclMemory {
 public:
  /// Null where there is none to be had.
  static std::shared_ptr<NcclMemory> make(std::size_t bytes, int device);
  /// Of another process: `address` is its address() there.
  static std::shared_ptr<NcclMemory> map(const std::string& address, int device);
  ~NcclMemory();
  NcclMemory(const NcclMemory&) = delete;
  NcclMemory& operator=(const NcclMemory&) = delete;

  std::byte* begin() const { return begin_; }
  std::byte* end() const { return begin_ + bytes_; }
  int device() const { return device_; }
  std::string address() const;

 private:
  NcclMemory(int file, std::size_t bytes, int device)
      : file_(file), bytes_(bytes), device_(device) {}
  bool open();

  int file_;
  std::size_t bytes_;
  int device_;
  std::byte* begin_ = nullptr;
};

/// A rank's part as other processes read it, and back.
std::string text_of(const NcclWindowPart& part);
NcclWindowPart read_part(const std::string& text, std::size_t bytes, int device);

}  // namespace tessera::emulation
