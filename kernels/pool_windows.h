// kernels/pool_windows.h: what the windows of pools read, for every device.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"
#include "kernels/dtype_switch.h"
#include "kernels/elementwise.h"
#include "kernels/pool.h"
#include "placement/status.h"

namespace tessera::kernels {

/// Planes of the input and output sides, contiguous.
struct PoolSizes {
  std::int64_t planes = 1, height, width, out_height, out_width;

  PoolSizes(const char* op, const Array& x, const Array& out) {
    bool fits = x.ndim() >= 2 && x.ndim() == out.ndim() && is_floating(x.dtype()) &&
                x.dtype() == out.dtype();
    for (int d = 0; fits && d + 2 < x.ndim(); ++d) {
      fits = x.size(d) == out.size(d);
      planes *= x.size(d);
    }
    if (!fits) {
      throw Error(invalid_argument(absl::StrFormat(
          "%s: %s %s and %s %s; wanted [..., H, W] and [..., OH, OW] of one floating dtype", op,
          name_of(x.dtype()), to_string(x.shape()), name_of(out.dtype()), to_string(out.shape()))));
    }
    height = x.size(x.ndim() - 2);
    width = x.size(x.ndim() - 1);
    out_height = out.size(out.ndim() - 2);
    out_width = out.size(out.ndim() - 1);
  }
  TSR_HOST_DEVICE std::int64_t plane() const { return height * width; }
  TSR_HOST_DEVICE std::int64_t out_plane() const { return out_height * out_width; }
};

/// Local positions that local output `o` reads: [first, last] in steps.
struct Taps {
  std::int64_t start, stop, step;
};
TSR_HOST_DEVICE inline Taps taps_of(const WindowDim& dim, std::int64_t o, std::int64_t held) {
  const std::int64_t out = dim.out_start + o;
  const std::int64_t begin = dim.begin(out) - dim.in_start;
  const std::int64_t step = dim.dilation;
  const std::int64_t skipped = begin < 0 ? (-begin + step - 1) / step : 0;
  return {begin + skipped * step, std::min(begin + dim.count(out) * step, held), step};
}

/// Elements of a window along one dim by which its sum is divided.
TSR_HOST_DEVICE inline std::int64_t divided(const WindowDim& dim, std::int64_t o,
                                            Divisor::Kind kind) {
  const std::int64_t out = dim.out_start + o;
  const std::int64_t begin = dim.begin(out);
  if (kind == Divisor::Kind::kPadded) {
    return std::min(begin + dim.count(out), dim.size + dim.padding) - begin;
  }
  return std::min(begin + dim.count(out), dim.size) - std::max<std::int64_t>(begin, 0);
}

/// Local outputs, of `held`, whose windows span local position `i`; dilated ones may step over it.
TSR_HOST_DEVICE inline Interval spanning(const WindowDim& dim, std::int64_t i, std::int64_t held) {
  const std::int64_t at = i + dim.in_start;
  std::int64_t first = 0, stop = 0;
  if (dim.kind == WindowDim::Kind::kStrided) {
    const std::int64_t beyond = at + dim.padding - (dim.kernel - 1) * dim.dilation;
    first = beyond > 0 ? (beyond + dim.stride - 1) / dim.stride : 0;
    stop = (at + dim.padding) / dim.stride + 1;
  } else {
    first = at * dim.out_size / dim.size;
    stop = ((at + 1) * dim.out_size + dim.size - 1) / dim.size;
  }
  return {std::max<std::int64_t>(first - dim.out_start, 0), std::min(stop - dim.out_start, held)};
}
/// Whether an output whose window spans local position `i` reads it.
TSR_HOST_DEVICE inline bool reads(const WindowDim& dim, std::int64_t o, std::int64_t i) {
  return dim.dilation == 1 || (i + dim.in_start - dim.begin(dim.out_start + o)) % dim.dilation == 0;
}

/// By what the sum of a window is divided.
TSR_HOST_DEVICE inline double divided_by(const WindowPlane& window, std::int64_t oh,
                                         std::int64_t ow, const Divisor& divisor) {
  return divisor.kind == Divisor::Kind::kFixed
             ? divisor.value
             : static_cast<double>(divided(window.h, oh, divisor.kind) *
                                   divided(window.w, ow, divisor.kind));
}

/// The place of the largest element of a window in its plane, or −1 for a window of none. NaN
/// counts as it, and the last of several wins, as torch has it.
template <class C, class T>
TSR_HOST_DEVICE std::int64_t largest(const T* plane, std::int64_t width, const Taps& rows,
                                     const Taps& columns) {
  std::int64_t at = -1;
  C most = -std::numeric_limits<C>::infinity();
  for (std::int64_t i = rows.start; i < rows.stop; i += rows.step) {
    for (std::int64_t j = columns.start; j < columns.stop; j += columns.step) {
      const C value = convert<C>(plane[i * width + j]);
      if (at < 0 || value > most || std::isnan(value)) {
        at = i * width + j;
        most = value;
      }
    }
  }
  return at;
}

/// The place in the whole input of a place in a plane, or 0 for −1.
TSR_HOST_DEVICE inline std::int64_t place_in_whole(std::int64_t at, std::int64_t width,
                                                   const WindowPlane& window) {
  const std::int64_t row = at < 0 ? 0 : at / width + window.h.in_start;
  const std::int64_t column = at < 0 ? 0 : at % width + window.w.in_start;
  return row * window.w.size + column;
}

/// Calls f(TypeTag<T>) with the C++ type of `dtype`, which is floating.
template <class F>
void visit_floating(DType dtype, const F& f) {
  visit_dtype(dtype, [&](auto tag) {
    if constexpr (std::is_floating_point_v<ComputeType<typename decltype(tag)::type>>) f(tag);
  });
}

/// Where a result is written before it is copied: `out` itself where that is contiguous.
inline Array result_like(KernelContext& ctx, const Array& out) {
  return out.is_contiguous() ? out : Array::empty(out.shape(), out.dtype(), ctx.allocator);
}

}  // namespace tessera::kernels
