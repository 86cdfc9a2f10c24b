#include "checkpoint/part_list.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <span>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

constexpr std::size_t kFileBytes = 4;
// Cuts of meshes nest a few levels deep; a hostile file could nest them one inside the other.
constexpr int kMaxNesting = 64;
constexpr std::size_t kMaxPairwise = 4096;

std::uint8_t width_of(std::int64_t most) {
  const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(most)));
  return static_cast<std::uint8_t>(std::max(1, (bits + 7) / 8));
}

bool overlap(const Region& a, const Region& b) {
  for (std::size_t d = 0; d < a.size.size(); ++d) {
    if (stop_of(a, d) <= b.offset[d] || stop_of(b, d) <= a.offset[d]) return false;
  }
  return true;
}

Region common_part(const Region& a, const Region& b) {
  Region out;
  for (std::size_t d = 0; d < a.size.size(); ++d) {
    out.offset.push_back(std::max(a.offset[d], b.offset[d]));
    out.size.push_back(std::min(stop_of(a, d), stop_of(b, d)) - out.offset[d]);
  }
  return out;
}

/// The part of `box` before or after `part` in the first dim where they differ.
Status not_covered(Region box, const Region& part) {
  for (std::size_t d = 0; d < box.size.size(); ++d) {
    if (part.offset[d] > box.offset[d]) {
      box.size[d] = part.offset[d] - box.offset[d];
      break;
    }
    if (stop_of(part, d) < stop_of(box, d)) {
      const std::int64_t stop = stop_of(box, d);
      box.offset[d] = stop_of(part, d);
      box.size[d] = stop - box.offset[d];
      break;
    }
  }
  return invalid_argument(to_string(box) + " is covered by nothing");
}

/// Numbers of parts in a list; sorted in place.
using Chosen = std::span<std::uint32_t>;

/// Those of `chosen`, sorted by their offset in `dim`, up to the first plane that cuts none.
std::size_t first_group(const PartList& parts, Chosen chosen, std::size_t dim) {
  std::int64_t stop = parts.stop(chosen[0], dim);
  std::size_t count = 1;
  for (; count < chosen.size() && parts.offset(chosen[count], dim) < stop; ++count) {
    stop = std::max(stop, parts.stop(chosen[count], dim));
  }
  return count;
}

/// Parts that no plane separates: one is covered twice, or they interlock, which no mesh does.
Status check_interlocked(const PartList& parts, Chosen chosen) {
  if (chosen.size() <= kMaxPairwise) {
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const Region a = parts.region(chosen[i]);
      for (const std::uint32_t other : chosen.first(i)) {
        const Region b = parts.region(other);
        if (overlap(a, b)) {
          return invalid_argument(to_string(common_part(b, a)) + " is covered twice");
        }
      }
    }
  }
  return invalid_argument(absl::StrFormat("%s and %d others interlock; no mesh cuts so",
                                          to_string(parts.region(chosen[0])), chosen.size() - 1));
}

/// `box` is covered exactly by the chosen parts, of which there is one at least.
Status check_box(const PartList& parts, const Region& box, Chosen chosen, int depth) {
  if (chosen.size() == 1) {
    const Region only = parts.region(chosen[0]);
    return only == box ? absl::OkStatus() : not_covered(box, only);
  }
  if (depth == kMaxNesting) return check_interlocked(parts, chosen);
  for (std::size_t d = 0; d < box.size.size(); ++d) {
    std::sort(chosen.begin(), chosen.end(), [&](std::uint32_t a, std::uint32_t b) {
      return parts.offset(a, d) < parts.offset(b, d);
    });
    std::size_t count = first_group(parts, chosen, d);
    if (count == chosen.size()) continue;
    Region piece = box;
    for (Chosen rest = chosen; !rest.empty();) {
      const Chosen group = rest.first(count);
      rest = rest.subspan(count);
      const std::int64_t stop = rest.empty() ? stop_of(box, d) : parts.offset(rest[0], d);
      piece.size[d] = stop - piece.offset[d];
      TSR_RETURN_IF_ERROR(check_box(parts, piece, group, depth + 1));
      piece.offset[d] = stop;
      count = rest.empty() ? 0 : first_group(parts, rest, d);
    }
    return absl::OkStatus();
  }
  return check_interlocked(parts, chosen);
}

}  // namespace

PartList::PartList(ShapeView shape) : stride_(kFileBytes) {
  for (const std::int64_t size : shape) {
    dims_.push_back({width_of(size), static_cast<std::uint16_t>(stride_)});
    stride_ += std::size_t{2} * dims_.back().width;
  }
}

std::int64_t PartList::number(std::size_t part, std::size_t begin, std::size_t width) const {
  static_assert(std::endian::native == std::endian::little);
  std::int64_t value = 0;
  std::memcpy(&value, bytes_.data() + part * stride_ + begin, width);
  return value;
}

void PartList::put(std::size_t begin, std::size_t width, std::int64_t number) {
  TSR_CHECK(number >= 0 && width_of(number) <= width,
            absl::StrFormat("%d in %d bytes of a packed part", number, width));
  std::memcpy(bytes_.data() + bytes_.size() - stride_ + begin, &number, width);
}

void PartList::push_back(const ManifestPart& part) {
  TSR_CHECK(part.region.offset.size() == dims_.size() && part.region.size.size() == dims_.size(),
            absl::StrFormat("%s is of a tensor of %d dims", to_string(part.region), dims_.size()));
  bytes_.resize(bytes_.size() + stride_);
  put(0, kFileBytes, part.file);
  for (std::size_t d = 0; d < dims_.size(); ++d) {
    const auto [width, begin] = dims_[d];
    put(begin, width, part.region.offset[d]);
    put(begin + std::size_t{width}, width, part.region.size[d]);
  }
}

void PartList::append(const PartList& others) {
  TSR_CHECK(others.dims_ == dims_, "parts of two tensors");
  bytes_.insert(bytes_.end(), others.bytes_.begin(), others.bytes_.end());
}

ManifestPart PartList::operator[](std::size_t part) const {
  return {.region = region(part), .file = number(part, 0, kFileBytes)};
}

std::int64_t PartList::offset(std::size_t part, std::size_t dim) const {
  return number(part, dims_[dim].begin, dims_[dim].width);
}

std::int64_t PartList::extent(std::size_t part, std::size_t dim) const {
  return number(part, dims_[dim].begin + std::size_t{dims_[dim].width}, dims_[dim].width);
}

std::int64_t PartList::stop(std::size_t part, std::size_t dim) const {
  return offset(part, dim) + extent(part, dim);
}

Region PartList::region(std::size_t part) const {
  Region region;
  for (std::size_t d = 0; d < dims_.size(); ++d) {
    region.offset.push_back(offset(part, d));
    region.size.push_back(extent(part, d));
  }
  return region;
}

Status check_coverage(ShapeView shape, const PartList& parts) {
  if (!parts.holds_parts_of(shape)) {
    return invalid_argument("the parts are of a tensor of another shape than " + to_string(shape));
  }
  const Region whole = whole_region(shape);
  for (const ManifestPart& part : parts) {
    const Region& region = part.region;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (region.size[d] < 1 || region.offset[d] > shape[d] ||
          region.size[d] > shape[d] - region.offset[d]) {
        return invalid_argument(absl::StrFormat("%s is empty or not inside of %s",
                                                to_string(region), to_string(shape)));
      }
    }
  }
  if (num_elements(shape) == 0) return absl::OkStatus();
  if (parts.empty()) return invalid_argument(to_string(whole) + " is covered by nothing");
  std::vector<std::uint32_t> all(parts.size());
  std::iota(all.begin(), all.end(), std::uint32_t{0});
  return check_box(parts, whole, all, 0);
}

}  // namespace tessera
