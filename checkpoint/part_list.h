// checkpoint/part_list.h: the parts that a tensor lies in, in few bytes each, and whether they
// cover it exactly once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "checkpoint/region.h"
#include "placement/api.h"
#include "placement/shape.h"

namespace tessera TSR_API {

/// A region of a tensor and the file that holds it, in one piece and row-major.
struct ManifestPart {
  Region region;
  std::int64_t file = 0;  ///< a rank's shard, at most 2^32 - 1
  bool operator==(const ManifestPart&) const = default;
};

/// Parts of a tensor of one shape, packed: 4 bytes for the file, and for each dim twice as many as
/// its size needs. Never more than the text of a manifest takes for them, however many dims.
class PartList {
 public:
  class Iterator;

  PartList() : PartList(ShapeView()) {}
  explicit PartList(ShapeView shape);

  std::size_t size() const noexcept { return bytes_.size() / stride_; }
  bool empty() const noexcept { return bytes_.empty(); }
  void reserve(std::size_t parts) { bytes_.reserve(parts * stride_); }
  /// Requires a region inside of the shape, and a file that fits.
  void push_back(const ManifestPart& part);
  /// Requires parts of a tensor of the same shape.
  void append(const PartList& others);

  ManifestPart operator[](std::size_t part) const;
  std::int64_t offset(std::size_t part, std::size_t dim) const;
  std::int64_t stop(std::size_t part, std::size_t dim) const;
  Region region(std::size_t part) const;
  /// Whether parts of a tensor of `shape` can stand here.
  bool holds_parts_of(ShapeView shape) const { return PartList(shape).dims_ == dims_; }

  Iterator begin() const noexcept;
  Iterator end() const noexcept;
  bool operator==(const PartList&) const = default;

 private:
  struct Dim {
    std::uint8_t width;   ///< bytes of a number
    std::uint16_t begin;  ///< of the offset within the part; the size follows it
    bool operator==(const Dim&) const = default;
  };
  std::int64_t number(std::size_t part, std::size_t begin, std::size_t width) const;
  std::int64_t extent(std::size_t part, std::size_t dim) const;
  void put(std::size_t begin, std::size_t width, std::int64_t number);

  absl::InlinedVector<Dim, 4> dims_;
  std::size_t stride_ = 0;  ///< bytes of a part
  std::vector<std::byte> bytes_;
};

/// Makes each part as it is asked for.
class PartList::Iterator {
 public:
  using value_type = ManifestPart;
  using difference_type = std::ptrdiff_t;

  Iterator() = default;
  Iterator(const PartList& list, std::size_t at) : list_(&list), at_(at) {}
  ManifestPart operator*() const { return (*list_)[at_]; }
  Iterator& operator++() {
    ++at_;
    return *this;
  }
  Iterator operator++(int) {
    const Iterator before = *this;
    ++at_;
    return before;
  }
  bool operator==(const Iterator&) const = default;

 private:
  const PartList* list_ = nullptr;
  std::size_t at_ = 0;
};
inline PartList::Iterator PartList::begin() const noexcept { return {*this, 0}; }
inline PartList::Iterator PartList::end() const noexcept { return {*this, size()}; }

/// Checks that `parts` cover a tensor of `shape` exactly once. Errors: InvalidArgument with the
/// range that is covered by none or by two, or that the parts are of another tensor, without the
/// tensor's name. Cost: O(n log n) for what cuts of meshes leave, and 4 bytes a part.
Status check_coverage(ShapeView shape, const PartList& parts);

}  // namespace tessera
