#include "runtime/box.h"

#include <algorithm>
#include <cstring>

namespace tessera {

Box::Box(const Transfer& transfer, ShapeView src_shape, ShapeView dst_shape) {
  std::int64_t src_stride = 1, dst_stride = 1;
  for (std::size_t d = transfer.dims.size(); d-- > 0;) {
    const std::vector<Run>& runs = transfer.dims[d];
    const bool whole =
        runs.size() == 1 && runs[0].size == src_shape[d] && runs[0].size == dst_shape[d];
    if (whole && levels_.empty()) {
      piece_ *= runs[0].size;
    } else {
      levels_.push_back({runs, src_stride, dst_stride});
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
    for (const Run& run : level.runs) size += run.size;
    elements *= size;
  }
  return elements;
}

bool Box::same_target(const Box& other) const {
  const auto same_run = [](const Run& a, const Run& b) {
    return a.dst == b.dst && a.size == b.size;
  };
  const auto same_level = [&](const Level& a, const Level& b) {
    return a.dst_stride == b.dst_stride &&
           std::equal(a.runs.begin(), a.runs.end(), b.runs.begin(), b.runs.end(), same_run);
  };
  return piece_ == other.piece_ && std::equal(levels_.begin(), levels_.end(), other.levels_.begin(),
                                              other.levels_.end(), same_level);
}

void copy_box(const Box& box, const std::byte* src, std::byte* dst, std::int64_t element_bytes) {
  box.for_each_piece([&](std::int64_t from, std::int64_t to, std::int64_t count) {
    const std::byte* piece = src + from * element_bytes;
    std::byte* target = dst + to * element_bytes;
    const std::int64_t bytes = count * element_bytes;
    switch (bytes) {  // single elements without a call
      case 2:
        std::memcpy(target, piece, 2);
        break;
      case 4:
        std::memcpy(target, piece, 4);
        break;
      case 8:
        std::memcpy(target, piece, 8);
        break;
      default:
        std::memcpy(target, piece, static_cast<std::size_t>(bytes));
    }
  });
}

}  // namespace tessera
