#include "parallel/flat_group.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 62;

Status check(std::span<const std::int64_t> sizes, std::span<const std::int64_t> blocks,
             std::int64_t ranks) {
  if (sizes.size() != blocks.size() || ranks < 1) {
    return invalid_argument(
        absl::StrFormat("flat_group: %d sizes, %d blocks, %d ranks; a block for each size, and at "
                        "least one rank are allowed",
                        sizes.size(), blocks.size(), ranks));
  }
  std::int64_t total = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || blocks[i] < 1) {
      return invalid_argument(absl::StrFormat(
          "flat_group: parameter %d has size %d and block %d; a size of at least 0 and a block of "
          "at least 1 are allowed",
          i, sizes[i], blocks[i]));
    }
    if (sizes[i] > kMostElements - total) {
      return out_of_range("flat_group: the parameters have more than 2^62 elements together");
    }
    total += sizes[i];
  }
  return absl::OkStatus();
}

/// The allowed cut that is nearest to `wanted`; of two, the lower one.
std::int64_t nearest_cut(const std::vector<FlatPart>& parts, std::span<const std::int64_t> blocks,
                         std::int64_t wanted) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::int64_t end = parts[i].offset + parts[i].size;
    if (wanted > end) continue;
    const std::int64_t below = wanted - (wanted - parts[i].offset) % blocks[i];
    const std::int64_t above = std::min(end, below + blocks[i]);
    return wanted - below <= above - wanted ? below : above;
  }
  return wanted;
}

/// What every rank holds of [start, stop) of the buffer.
RaggedSizes within(std::span<const std::int64_t> cuts, std::int64_t start, std::int64_t stop) {
  std::vector<std::int64_t> sizes;
  for (std::size_t r = 0; r + 1 < cuts.size(); ++r) {
    sizes.push_back(
        std::max<std::int64_t>(0, std::min(cuts[r + 1], stop) - std::max(cuts[r], start)));
  }
  return RaggedSizes(std::span<const std::int64_t>(sizes));
}

}  // namespace

StatusOr<FlatGroup> flat_group(std::span<const std::int64_t> sizes,
                               std::span<const std::int64_t> blocks, std::int64_t ranks) {
  TSR_RETURN_IF_ERROR(check(sizes, blocks, ranks));
  FlatGroup group;
  for (const std::int64_t size : sizes) {
    group.parts.push_back({.offset = group.size, .size = size, .sizes = {}});
    group.size += size;
  }
  std::vector<std::int64_t> cuts{0};
  const std::int64_t share = group.size / ranks, more = group.size % ranks;
  for (std::int64_t rank = 1; rank < ranks; ++rank) {
    const std::int64_t wanted = rank * share + std::min(rank, more);
    cuts.push_back(std::max(cuts.back(), nearest_cut(group.parts, blocks, wanted)));
  }
  cuts.push_back(group.size);
  group.sizes = within(cuts, 0, group.size);
  for (FlatPart& part : group.parts) {
    part.sizes = within(cuts, part.offset, part.offset + part.size);
  }
  return group;
}

}  // namespace tessera
