#include "runtime/mpi/host_memory.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "kernels/memory_use.h"

namespace tessera {
namespace {

using Ranks = std::vector<std::int64_t>;

// Ranks whose segments each rank has mapped, itself included, ascending.
std::vector<Ranks> read_ranks(const std::vector<std::string>& texts) {
  std::vector<Ranks> all;
  for (const std::string& text : texts) {
    std::istringstream numbers(text);
    Ranks& ranks = all.emplace_back();
    for (std::int64_t rank = 0; numbers >> rank;) ranks.push_back(rank);
  }
  return all;
}

bool sees_like_its_peers(const std::vector<Ranks>& seen, const Ranks& own) {
  return std::ranges::all_of(
      own, [&](std::int64_t rank) { return seen[static_cast<std::size_t>(rank)] == own; });
}

}  // namespace

HostMemory::HostMemory(const ControlPlace& place, Use use, const ExchangeTexts& exchange)
    : near_(static_cast<std::size_t>(place.size)) {
  if (use == Use::kShared && place.size > 1) segment_ = SharedSegment::make(place.size);
  const std::vector<std::string> addresses =
      exchange(segment_ == nullptr ? std::string() : segment_->address());
  std::string mapped;
  for (std::int64_t rank = 0; rank < place.size; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (rank != place.rank && segment_ != nullptr && !addresses[index].empty()) {
      near_[index] = open_segment(addresses[index]);
    }
    if (rank == place.rank || near_[index] != nullptr) mapped += " " + std::to_string(rank);
  }
  const std::vector<Ranks> seen = read_ranks(exchange(mapped));
  if (segment_ != nullptr) segment_->close_file();
  for (std::int64_t rank = 0; rank < place.size; ++rank) {
    const Ranks& own = seen[static_cast<std::size_t>(rank)];
    first_near_.push_back(sees_like_its_peers(seen, own) ? own.front() : rank);
  }
  const std::int64_t first = first_near_[static_cast<std::size_t>(place.rank)];
  bool alone = true;
  for (std::size_t rank = 0; rank < near_.size(); ++rank) {
    if (first_near_[rank] != first) near_[rank].reset();
    alone = alone && near_[rank] == nullptr;
  }
  if (alone) segment_.reset();
}

bool HostMemory::are_near(std::span<const std::int64_t> ranks) const noexcept {
  return std::ranges::all_of(ranks, [&](std::int64_t rank) {
    return first_near_[static_cast<std::size_t>(rank)] ==
           first_near_[static_cast<std::size_t>(ranks.front())];
  });
}

std::optional<std::int64_t> HostMemory::offset_of(const std::byte* data,
                                                  std::int64_t bytes) const noexcept {
  if (segment_ == nullptr || !segment_->holds(data)) return std::nullopt;
  const std::int64_t offset = data - segment_->data();
  if (bytes > segment_->bytes() - offset) return std::nullopt;
  return offset;
}

const std::byte* HostMemory::at(std::int64_t rank, std::int64_t offset,
                                std::int64_t bytes) const noexcept {
  const Mapping* mapping = near_[static_cast<std::size_t>(rank)].get();
  if (mapping == nullptr || offset < 0 || bytes < 0 || offset > mapping->bytes() ||
      bytes > mapping->bytes() - offset) {
    return nullptr;
  }
  return mapping->data() + offset;
}

std::shared_ptr<Allocator> HostMemory::allocator() const {
  if (segment_ == nullptr) return nullptr;
  return make_pool_over(make_segment_allocator(segment_));
}

}  // namespace tessera
