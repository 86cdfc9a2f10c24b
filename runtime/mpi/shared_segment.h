// runtime/mpi/shared_segment.h: memory of one process that the others of its host read in place.
// A segment is a file without a name, so nothing is left of it when its last process ends, however
// that comes about (docs/adr/0009).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "kernels/array.h"

namespace tessera {

/// In bytes: what the system maps as one where memory begins at a multiple of it.
inline constexpr std::int64_t kHugePage = std::int64_t{2} << 20;

/// A mapping of a whole file.
class Mapping {
 public:
  enum class Access : std::uint8_t { kRead, kReadWrite };
  /// Empty where the system refuses.
  Mapping(int file, std::int64_t bytes, Access access) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();
  std::byte* data() const noexcept { return data_; }
  std::int64_t bytes() const noexcept { return bytes_; }

 private:
  void* reserved_ = nullptr;
  std::size_t reserved_bytes_ = 0;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// This process's own segment: addresses for as much as the machine has; pages come with the first
/// write. A child of fork() does not get it.
class SharedSegment {
 public:
  /// Null where the system gives none. `num_ranks`: how many may be mapped into one process.
  static std::shared_ptr<SharedSegment> make(std::int64_t num_ranks);
  explicit SharedSegment(int file, std::int64_t bytes);
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;
  ~SharedSegment();

  std::byte* data() const noexcept { return mapping_.data(); }
  std::int64_t bytes() const noexcept { return mapping_.bytes(); }
  bool holds(const void* data) const noexcept;
  /// Where others find it.
  const std::string& address() const noexcept { return address_; }
  /// Nobody will open it from now on.
  void close_file() noexcept;

 private:
  bool sign();

  int file_;
  Mapping mapping_;
  std::string address_;
};

/// Another process's segment, read-only. Null where `address` leads to no segment, or to another.
std::unique_ptr<Mapping> open_segment(const std::string& address);

/// Blocks of the segment from 4 KiB up; smaller ones, and what no longer fits, are plain memory.
/// Released blocks go back to the system.
std::shared_ptr<Allocator> make_segment_allocator(std::shared_ptr<SharedSegment> segment);

}  // namespace tessera
