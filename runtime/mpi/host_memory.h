// runtime/mpi/host_memory.h: which ranks read each other's arrays in place, and where.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/control/channel.h"
#include "runtime/mpi/shared_segment.h"

namespace tessera {

/// This rank's segment and those of the ranks near it: ranks are near one another where each has
/// mapped the segments of all the others, and all know it.
class HostMemory {
 public:
  enum class Use : std::uint8_t { kNone, kShared };
  /// Collective: yes, over all ranks. Never fails: ranks that cannot share are not near.
  HostMemory(const ControlPlace& place, Use use, const ExchangeTexts& exchange);

  /// Another rank that is near this one.
  bool is_near(std::int64_t rank) const noexcept {
    return near_[static_cast<std::size_t>(rank)] != nullptr;
  }
  /// Whether all these ranks are near one another: the same on every rank.
  bool are_near(std::span<const std::int64_t> ranks) const noexcept;
  /// Where near ranks find these bytes; nullopt where they do not lie in the segment.
  std::optional<std::int64_t> offset_of(const std::byte* data, std::int64_t bytes) const noexcept;
  /// Bytes of a near rank; null where they do not lie in its segment.
  const std::byte* at(std::int64_t rank, std::int64_t offset, std::int64_t bytes) const noexcept;
  /// Null where no rank is near.
  std::shared_ptr<Allocator> allocator() const;

 private:
  std::shared_ptr<SharedSegment> segment_;
  std::vector<std::unique_ptr<Mapping>> near_;  ///< by rank; null for this rank
  std::vector<std::int64_t> first_near_;  ///< by rank: the first of those near it, itself included
};

}  // namespace tessera
