// kernels/window.h: which positions of one dim each output of a sliding window reads. Positions are
// those of the whole dims; a rank's arrays begin at in_start and out_start of them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/host_device.h"
#include "placement/api.h"
#include "placement/layout.h"

namespace tessera TSR_API {
namespace kernels {

struct WindowDim {
  enum class Kind : std::uint8_t {
    kStrided,  ///< output o reads `kernel` positions from o·stride − padding on, `dilation` apart
    kAdaptive  ///< output o reads [o·size / out_size, (o + 1)·size / out_size), rounded outwards
  };
  Kind kind = Kind::kStrided;
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t size = 1;      ///< of the whole input
  std::int64_t out_size = 1;  ///< of the whole output
  std::int64_t in_start = 0;
  std::int64_t out_start = 0;

  /// The first position that output `o` reads; may lie before 0.
  TSR_HOST_DEVICE std::int64_t begin(std::int64_t o) const noexcept {
    return kind == Kind::kStrided ? o * stride - padding : o * size / out_size;
  }
  /// How many it reads, those outside [0, size) included.
  TSR_HOST_DEVICE std::int64_t count(std::int64_t o) const noexcept {
    return kind == Kind::kStrided ? kernel : end(o) - begin(o);
  }
  /// Behind the last position that it reads; may lie beyond `size`.
  TSR_HOST_DEVICE std::int64_t end(std::int64_t o) const noexcept {
    if (kind == Kind::kStrided) return begin(o) + (kernel - 1) * dilation + 1;
    return ((o + 1) * size + out_size - 1) / out_size;
  }

  /// The positions inside [0, size) that outputs `outs` read, as one interval.
  Interval inputs_of(Interval outs) const noexcept {
    if (outs.start >= outs.stop) return {};
    const std::int64_t start = std::clamp<std::int64_t>(begin(outs.start), 0, size);
    return {start, std::clamp(end(outs.stop - 1), start, size)};
  }
  /// The outputs whose windows span any of the positions `ins`.
  Interval outputs_of(Interval ins) const noexcept {
    if (ins.start >= ins.stop) return {};
    const std::int64_t start = first_output([&](std::int64_t o) { return end(o) > ins.start; });
    const std::int64_t stop = first_output([&](std::int64_t o) { return begin(o) >= ins.stop; });
    return {start, std::max(start, stop)};
  }

 private:
  /// The first output for which a condition holds that, once true, stays so.
  template <class Condition>
  std::int64_t first_output(const Condition& holds) const noexcept {
    std::int64_t low = 0, high = out_size;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      if (holds(middle)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }
};

/// The last two dims of an array.
struct WindowPlane {
  WindowDim h, w;
};

}  // namespace kernels
}  // namespace tessera
