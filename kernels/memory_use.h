// kernels/memory_use.h: how much memory an allocator has handed out. Allocators that count say so
// by being a CountingAllocator.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Units: bytes, with what rounding up to size classes adds.
struct MemoryUse {
  std::int64_t used_bytes = 0;  ///< now
  std::int64_t peak_bytes = 0;  ///< the most so far
};

/// What a buffer is used for.
enum class MemoryTag : std::uint8_t {
  kActivations,  ///< everything that nobody tagged
  kParameters,
  kGradients,
  kOptimizerState,
  kGathered  ///< parameters as a computation needs them, beside their stored shards
};
inline constexpr int kNumMemoryTags = 5;

/// What the buffers that were handed out are used for. Units: bytes as asked for, by MemoryTag,
/// without what rounding adds.
struct TaggedMemory {
  using Bytes = std::array<std::int64_t, kNumMemoryTags>;
  Bytes used{};     ///< now
  Bytes peak{};     ///< the most of each tag so far, at times of their own
  Bytes at_peak{};  ///< of each tag when all together were at their most
  std::int64_t used_of(MemoryTag tag) const { return used[static_cast<std::size_t>(tag)]; }
  std::int64_t peak_of(MemoryTag tag) const { return peak[static_cast<std::size_t>(tag)]; }
  std::int64_t at_peak_of(MemoryTag tag) const { return at_peak[static_cast<std::size_t>(tag)]; }
  std::int64_t total_used() const;
  std::int64_t total_peak() const;  ///< the sum of `at_peak`
};
/// "parameters", "gradients", …
std::string_view name_of(MemoryTag tag) noexcept;

class CountingAllocator : public Allocator {
 public:
  /// Any thread.
  virtual MemoryUse use() const noexcept = 0;
  /// Zeros for an allocator that does not tell uses apart; the one of make_pool_allocator() does.
  virtual TaggedMemory tagged_use() const noexcept { return {}; }
  /// A buffer of this allocator, of `bytes` as asked for, is used for `tag` from now on.
  virtual void tag(const void* /*data*/, std::size_t /*bytes*/, MemoryTag /*tag*/) {}
  /// What later buffers are used for; returns what those before were.
  virtual MemoryTag set_default_tag(MemoryTag /*tag*/) noexcept { return MemoryTag::kActivations; }
};

/// Buffers made inside a scope are used for `tag`. Nothing for an allocator that does not count.
class MemoryTagScope {
 public:
  MemoryTagScope(Allocator& allocator, MemoryTag tag);
  ~MemoryTagScope();
  MemoryTagScope(const MemoryTagScope&) = delete;
  MemoryTagScope& operator=(const MemoryTagScope&) = delete;

 private:
  CountingAllocator* counting_;
  MemoryTag before_ = MemoryTag::kActivations;
};
/// Tags the storage of `array`, which `allocator` has made; nothing where it does not count, or the
/// array is null.
void tag_memory(Allocator& allocator, const Array& array, MemoryTag tag);

/// Zeros for an allocator that does not count; the one of make_pool_allocator() does.
MemoryUse memory_use_of(const Allocator& allocator) noexcept;
TaggedMemory tagged_memory_of(const Allocator& allocator) noexcept;

/// Like make_pool_allocator(), on blocks of `source`: memory that other processes read, for one.
std::shared_ptr<CountingAllocator> make_pool_over(std::shared_ptr<Allocator> source);

}  // namespace tessera
