#include "runtime/plan/box.h"

#include <algorithm>

#include "kernels/copy_strip.h"

namespace tessera {
namespace {

std::vector<RunSeries> series_of(const std::vector<Run>& runs) {
  std::vector<RunSeries> all;
  for (const Run& run : runs) {
    if (!all.empty() && all.back().first.size == run.size) {
      RunSeries& series = all.back();
      const std::int64_t src_step =
          run.src - series.first.src - (series.count - 1) * series.src_step;
      const std::int64_t dst_step =
          run.dst - series.first.dst - (series.count - 1) * series.dst_step;
      const bool fits =
          series.count == 1 || (src_step == series.src_step && dst_step == series.dst_step);
      if (fits) {
        series.src_step = src_step;
        series.dst_step = dst_step;
        ++series.count;
        continue;
      }
    }
    all.push_back({run});
  }
  return all;
}

}  // namespace

Box::Box(const Transfer& transfer, ShapeView src_shape, ShapeView dst_shape) {
  std::int64_t src_stride = 1, dst_stride = 1;
  for (std::size_t d = transfer.dims.size(); d-- > 0;) {
    const std::vector<Run>& runs = transfer.dims[d];
    const bool whole =
        runs.size() == 1 && runs[0].size == src_shape[d] && runs[0].size == dst_shape[d];
    if (whole && levels_.empty()) {
      piece_ *= runs[0].size;
    } else {
      levels_.push_back({series_of(runs), src_stride, dst_stride});
    }
    src_stride *= src_shape[d];
    dst_stride *= dst_shape[d];
  }
  std::reverse(levels_.begin(), levels_.end());
}

std::int64_t Box::num_elements() const noexcept {
  std::int64_t elements = piece_;
  for (const Level& level : levels_) {
    std::int64_t size = 0;
    for (const RunSeries& series : level.series) size += series.count * series.first.size;
    elements *= size;
  }
  return elements;
}

void copy_box(const Box& box, const std::byte* src, std::byte* dst, std::int64_t element_bytes,
              kernels::Stores stores) {
  box.for_each_strip([&](const BoxStrip& strip) {
    kernels::copy_strip({.rows = strip.rows,
                         .row_bytes = strip.row_elements * element_bytes,
                         .from_stride = strip.src_stride * element_bytes,
                         .to_stride = strip.dst_stride * element_bytes},
                        src + strip.src * element_bytes, dst + strip.dst * element_bytes, stores);
  });
}

}  // namespace tessera
