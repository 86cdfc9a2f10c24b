// placement/ragged.h: the stated sizes of a ragged cut, one for each coord of a mesh axis.
// Only parts that hold something are stored, so that one owner among thousands of ranks costs as
// little as one among two.
#pragma once

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "placement/api.h"
#include "placement/status.h"

namespace tessera TSR_API {

/// Elements [start, stop) of the piece that is cut, held by `coord`; never empty.
struct RaggedPart {
  std::int64_t coord = 0;
  std::int64_t start = 0;
  std::int64_t stop = 0;
  bool operator==(const RaggedPart&) const = default;
};

/// An immutable list of sizes; copies share it. The empty value stands for a cut that is not
/// ragged. Thread-safe as a value is.
class RaggedSizes {
 public:
  RaggedSizes() noexcept = default;
  /// Any sizes; check() says whether they are ones.
  RaggedSizes(std::initializer_list<std::int64_t> sizes)  // NOLINT: {3, 0, 5} reads as sizes
      : RaggedSizes(std::span(sizes.begin(), sizes.size())) {}
  explicit RaggedSizes(std::span<const std::int64_t> sizes);
  /// `coord` of `num_coords` holds all `size` elements.
  static RaggedSizes owned(std::int64_t num_coords, std::int64_t coord, std::int64_t size);

  RaggedSizes(const RaggedSizes& other) noexcept : list_(other.list_) {
    if (list_ != nullptr) list_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  RaggedSizes(RaggedSizes&& other) noexcept : list_(other.list_) { other.list_ = nullptr; }
  RaggedSizes& operator=(RaggedSizes other) noexcept {
    std::swap(list_, other.list_);
    return *this;
  }
  ~RaggedSizes() {
    if (list_ != nullptr) release();
  }

  explicit operator bool() const noexcept { return list_ != nullptr; }
  bool operator==(const RaggedSizes& other) const noexcept {
    return list_ == other.list_ || (list_ != nullptr && equal(other));
  }

  // What follows requires sizes.
  /// Errors: InvalidArgument where a size is negative or the sum exceeds 2^62.
  Status check() const;
  std::int64_t num_coords() const noexcept { return list_->num_coords; }
  std::int64_t total() const noexcept {
    return list_->parts.empty() ? 0 : list_->parts.back().stop;
  }
  /// Ascending in coord and in start.
  std::span<const RaggedPart> parts() const noexcept { return list_->parts; }
  /// The part of `coord`, empty ones where they would stand. Cost: O(log parts).
  RaggedPart part_of(std::int64_t coord) const noexcept;
  /// The part that holds an element. Requires 0 <= index < total(). Cost: O(log parts).
  const RaggedPart& part_at(std::int64_t index) const noexcept;
  /// The coord that holds everything, where one does.
  std::optional<std::int64_t> owner() const noexcept;
  /// The first coord that holds most.
  std::int64_t fullest() const noexcept;
  /// Every size times `factor`, or divided by `divisor`, which divides all of them. Errors:
  /// OutOfRange where the sum would exceed 2^62.
  StatusOr<RaggedSizes> scaled(std::int64_t factor) const;
  RaggedSizes divided(std::int64_t divisor) const;
  /// True if `divisor` divides every size.
  bool divides(std::int64_t divisor) const noexcept;
  /// True if a cut into equal chunks of ceil(total / num_coords) gives the same parts.
  bool is_plain() const noexcept;
  /// "3,0,5"
  std::string to_string() const;

 private:
  struct List {
    std::atomic<std::int64_t> owners{1};
    std::int64_t num_coords = 0;
    std::vector<RaggedPart> parts;
    bool valid = true;
  };
  explicit RaggedSizes(List* list) noexcept : list_(list) {}
  bool equal(const RaggedSizes& other) const noexcept;
  void release() noexcept;

  List* list_ = nullptr;
};

/// Sizes of a dim of `size` in whole blocks of `block`, dealt out as evenly as blocks allow, the
/// short last block with the last rank that has any: cuts for block-wise quantisation, which no
/// block crosses. Errors: InvalidArgument for a negative size, or a block or number of ranks below
/// 1.
StatusOr<RaggedSizes> ragged_blocks(std::int64_t size, std::int64_t block, std::int64_t ranks);

}  // namespace tessera
