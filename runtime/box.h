// runtime/box.h: a box of elements between two contiguous arrays, walked in contiguous pieces.
// Dims that a box covers whole on both sides merge into the piece, so that pieces are as long as
// can be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "placement/plan.h"
#include "runtime/backend_api.h"

namespace tessera TSR_BACKEND_API {

class Box {
 public:
  /// `src_shape` and `dst_shape`: local shapes of the arrays that the box is cut from and lands in.
  Box(const Transfer& transfer, ShapeView src_shape, ShapeView dst_shape);

  std::int64_t num_elements() const noexcept;
  /// True if both land on the same elements in the same order.
  bool same_target(const Box& other) const;
  bool same_pieces(const Box& other) const {
    return levels_ == other.levels_ && piece_ == other.piece_;
  }

  /// f(src element, dst element, count) for every contiguous piece, ascending.
  template <class F>
  void for_each_piece(F&& f) const {
    if (levels_.empty()) {
      f(std::int64_t{0}, std::int64_t{0}, piece_);
    } else {
      walk(0, 0, 0, f);
    }
  }

 private:
  struct Level {
    std::vector<Run> runs;
    std::int64_t src_stride = 1;
    std::int64_t dst_stride = 1;
    bool operator==(const Level&) const = default;
  };

  template <class F>
  void walk(std::size_t level, std::int64_t src, std::int64_t dst, F& f) const {
    const Level& at = levels_[level];
    const bool last = level + 1 == levels_.size();
    for (const Run& run : at.runs) {
      std::int64_t from = src + run.src * at.src_stride;
      std::int64_t to = dst + run.dst * at.dst_stride;
      if (last) {
        f(from, to, run.size * piece_);
        continue;
      }
      for (std::int64_t i = 0; i < run.size; ++i, from += at.src_stride, to += at.dst_stride) {
        walk(level + 1, from, to, f);
      }
    }
  }

  std::vector<Level> levels_;  ///< outer to inner; the innermost has stride piece_ on both sides
  std::int64_t piece_ = 1;     ///< elements of the merged trailing dims
};

/// Copies a box; elements are `element_bytes` long.
void copy_box(const Box& box, const std::byte* src, std::byte* dst, std::int64_t element_bytes);

}  // namespace tessera
