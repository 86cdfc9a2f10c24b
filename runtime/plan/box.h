// runtime/plan/box.h: a box of elements between two contiguous arrays, walked in contiguous pieces
// or in strips of them. Dims that a box covers whole on both sides merge into the piece, so that
// pieces are as long as can be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/stream_row.h"
#include "placement/plan.h"
#include "runtime/backend_api.h"

namespace tessera TSR_BACKEND_API {

/// Runs of one size at even distances on both sides.
struct RunSeries {
  Run first;
  std::int64_t count = 1;
  std::int64_t src_step = 0, dst_step = 0;
  bool operator==(const RunSeries&) const = default;
};

/// Rows of elements at even distances on both sides.
struct BoxStrip {
  std::int64_t src = 0, dst = 0;  ///< elements at which the first row begins
  std::int64_t rows = 1;
  std::int64_t row_elements = 0;
  std::int64_t src_stride = 0, dst_stride = 0;  ///< elements from one row to the next
};

class Box {
 public:
  /// `src_shape` and `dst_shape`: local shapes of the arrays that the box is cut from and lands in.
  Box(const Transfer& transfer, ShapeView src_shape, ShapeView dst_shape);

  std::int64_t num_elements() const noexcept;
  bool same_pieces(const Box& other) const {
    return levels_ == other.levels_ && piece_ == other.piece_;
  }

  /// f(src element, dst element, count) for every contiguous piece, ascending.
  template <class F>
  void for_each_piece(F&& f) const {
    for_each_strip([&](const BoxStrip& strip) {
      for (std::int64_t row = 0; row < strip.rows; ++row) {
        f(strip.src + row * strip.src_stride, strip.dst + row * strip.dst_stride,
          strip.row_elements);
      }
    });
  }

  /// f(strip) for strips that make up the box: as many rows in one as go.
  template <class F>
  void for_each_strip(F&& f) const {
    if (levels_.empty()) {
      f(BoxStrip{.row_elements = piece_});
    } else {
      walk(0, 0, 0, f);
    }
  }

 private:
  struct Level {
    std::vector<RunSeries> series;
    std::int64_t src_stride = 1;
    std::int64_t dst_stride = 1;
    bool is_one_run() const noexcept { return series.size() == 1 && series[0].count == 1; }
    bool operator==(const Level&) const = default;
  };

  template <class F>
  void walk(std::size_t level, std::int64_t src, std::int64_t dst, F& f) const {
    const Level& at = levels_[level];
    const bool last = level + 1 == levels_.size();
    const bool rows = level + 2 == levels_.size() && levels_.back().is_one_run();
    for (const RunSeries& series : at.series) {
      const std::int64_t from = src + series.first.src * at.src_stride;
      const std::int64_t to = dst + series.first.dst * at.dst_stride;
      const std::int64_t src_step = series.src_step * at.src_stride;
      const std::int64_t dst_step = series.dst_step * at.dst_stride;
      if (last) {
        f(BoxStrip{from, to, series.count, series.first.size * piece_, src_step, dst_step});
        continue;
      }
      if (rows && series.first.size == 1) {
        f(strip_of_runs(from, to, {series.count, src_step, dst_step}));
        continue;
      }
      for (std::int64_t run = 0; run < series.count; ++run) {
        const std::int64_t run_src = from + run * src_step, run_dst = to + run * dst_step;
        if (rows) {
          f(strip_of_runs(run_src, run_dst, {series.first.size, at.src_stride, at.dst_stride}));
          continue;
        }
        for (std::int64_t i = 0; i < series.first.size; ++i) {
          walk(level + 1, run_src + i * at.src_stride, run_dst + i * at.dst_stride, f);
        }
      }
    }
  }

  struct Rows {
    std::int64_t count, src_stride, dst_stride;
  };
  /// The innermost level, one run, once for every row of the level around it.
  BoxStrip strip_of_runs(std::int64_t src, std::int64_t dst, const Rows& rows) const {
    const Level& inner = levels_.back();
    const Run& run = inner.series[0].first;
    return {src + run.src * inner.src_stride,
            dst + run.dst * inner.dst_stride,
            rows.count,
            run.size * piece_,
            rows.src_stride,
            rows.dst_stride};
  }

  std::vector<Level> levels_;  ///< outer to inner; the innermost has stride piece_ on both sides
  std::int64_t piece_ = 1;     ///< elements of the merged trailing dims
};

/// Copies a box; elements are `element_bytes` long. After streams the caller calls
/// kernels::finish_streams().
void copy_box(const Box& box, const std::byte* src, std::byte* dst, std::int64_t element_bytes,
              kernels::Stores stores = kernels::Stores::kCached);

}  // namespace tessera
