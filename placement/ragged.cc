#include "placement/ragged.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

/// Sums of sizes stay far from what 64 bits hold.
constexpr std::int64_t kMostElements = std::int64_t{1} << 62;

}  // namespace

RaggedSizes::RaggedSizes(std::span<const std::int64_t> sizes) : list_(new List) {
  list_->num_coords = static_cast<std::int64_t>(sizes.size());
  std::int64_t start = 0;
  for (std::size_t c = 0; c < sizes.size(); ++c) {
    if (sizes[c] < 0 || sizes[c] > kMostElements - start) {
      list_->valid = false;
      return;
    }
    if (sizes[c] == 0) continue;
    list_->parts.push_back({static_cast<std::int64_t>(c), start, start + sizes[c]});
    start += sizes[c];
  }
}

RaggedSizes RaggedSizes::owned(std::int64_t num_coords, std::int64_t coord, std::int64_t size) {
  auto* list = new List;
  list->num_coords = num_coords;
  if (size > 0) list->parts.push_back({coord, 0, size});
  return RaggedSizes(list);
}

void RaggedSizes::release() noexcept {
  if (list_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete list_;
}

bool RaggedSizes::equal(const RaggedSizes& other) const noexcept {
  return other.list_ != nullptr && list_->num_coords == other.list_->num_coords &&
         list_->valid == other.list_->valid && list_->parts == other.list_->parts;
}

Status RaggedSizes::check() const {
  if (list_->valid) return absl::OkStatus();
  return invalid_argument(
      "sizes of a ragged shard are whole numbers of at least 0 that add up to at most 2^62");
}

RaggedPart RaggedSizes::part_of(std::int64_t coord) const noexcept {
  const auto& parts = list_->parts;
  const auto at =
      std::lower_bound(parts.begin(), parts.end(), coord,
                       [](const RaggedPart& part, std::int64_t c) { return part.coord < c; });
  if (at != parts.end() && at->coord == coord) return *at;
  const std::int64_t start = at != parts.end() ? at->start : total();
  return {coord, start, start};
}

const RaggedPart& RaggedSizes::part_at(std::int64_t index) const noexcept {
  const auto& parts = list_->parts;
  return *std::upper_bound(parts.begin(), parts.end(), index,
                           [](std::int64_t i, const RaggedPart& part) { return i < part.stop; });
}

std::optional<std::int64_t> RaggedSizes::owner() const noexcept {
  if (list_->parts.size() != 1) return std::nullopt;
  return list_->parts[0].coord;
}

std::int64_t RaggedSizes::fullest() const noexcept {
  RaggedPart most;
  for (const RaggedPart& part : list_->parts) {
    if (part.stop - part.start > most.stop - most.start) most = part;
  }
  return most.coord;
}

StatusOr<RaggedSizes> RaggedSizes::scaled(std::int64_t factor) const {
  if (factor > 0 && total() > kMostElements / factor) {
    return out_of_range(
        absl::StrFormat("ragged sizes %s times %d exceed 2^62 elements", to_string(), factor));
  }
  auto* list = new List;
  list->num_coords = list_->num_coords;
  if (factor > 0) {
    for (const RaggedPart& part : list_->parts) {
      list->parts.push_back({part.coord, part.start * factor, part.stop * factor});
    }
  }
  return RaggedSizes(list);
}

RaggedSizes RaggedSizes::divided(std::int64_t divisor) const {
  auto* list = new List;
  list->num_coords = list_->num_coords;
  for (const RaggedPart& part : list_->parts) {
    list->parts.push_back({part.coord, part.start / divisor, part.stop / divisor});
  }
  return RaggedSizes(list);
}

bool RaggedSizes::divides(std::int64_t divisor) const noexcept {
  return std::all_of(list_->parts.begin(), list_->parts.end(),
                     [&](const RaggedPart& part) { return part.stop % divisor == 0; });
}

bool RaggedSizes::is_plain() const noexcept {
  const std::int64_t size = total();
  const std::int64_t chunk = size / num_coords() + (size % num_coords() != 0 ? 1 : 0);
  for (std::size_t i = 0; i < list_->parts.size(); ++i) {
    const RaggedPart& part = list_->parts[i];
    const auto c = static_cast<std::int64_t>(i);
    if (part.coord != c || part.stop != std::min(size, (c + 1) * chunk)) return false;
  }
  return true;
}

std::string RaggedSizes::to_string() const {
  std::string text;
  for (std::int64_t c = 0; c < num_coords(); ++c) {
    const RaggedPart part = part_of(c);
    text += absl::StrFormat("%s%d", c == 0 ? "" : ",", part.stop - part.start);
  }
  return text;
}

StatusOr<RaggedSizes> ragged_blocks(std::int64_t size, std::int64_t block, std::int64_t ranks) {
  if (size < 0 || block < 1 || ranks < 1) {
    return invalid_argument(absl::StrFormat(
        "ragged_blocks: size %d in blocks of %d over %d ranks; a size of at least 0, and a block "
        "and ranks of at least 1 are allowed",
        size, block, ranks));
  }
  const std::int64_t blocks = size / block + (size % block != 0 ? 1 : 0);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(ranks), 0);
  std::int64_t left = size;
  for (std::int64_t c = 0; c < ranks; ++c) {
    const std::int64_t own = blocks / ranks + (c < blocks % ranks ? 1 : 0);
    sizes[static_cast<std::size_t>(c)] = own > left / block ? left : own * block;
    left -= sizes[static_cast<std::size_t>(c)];
  }
  return RaggedSizes(std::span<const std::int64_t>(sizes));
}

}  // namespace tessera
