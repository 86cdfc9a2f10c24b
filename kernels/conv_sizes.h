// kernels/conv_sizes.h: what the kernels of conv.h ask of their operands, on every device, and what
// their sizes mean.
#pragma once

#include "absl/strings/str_format.h"
#include "kernels/array.h"
#include "kernels/host_device.h"
#include "placement/status.h"

namespace tessera::kernels {

/// Sizes of one convolution, by the three arrays' shapes.
struct ConvSizes {
  std::int64_t batch, groups, in_channels, out_channels;  // channels of one group
  std::int64_t height, width, out_height, out_width, kernel_h, kernel_w;

  ConvSizes(const char* op, const Array& x, const Array& weight, const Array& out) {
    const bool four = x.ndim() == 4 && weight.ndim() == 4 && out.ndim() == 4;
    if (four) {
      batch = x.size(0);
      in_channels = weight.size(1);
      groups = in_channels == 0 ? 1 : x.size(1) / in_channels;
      out_channels = groups == 0 ? 0 : weight.size(0) / groups;
      height = x.size(2);
      width = x.size(3);
      out_height = out.size(2);
      out_width = out.size(3);
      kernel_h = weight.size(2);
      kernel_w = weight.size(3);
    }
    const bool fits = four && out.size(0) == batch && out.size(1) == weight.size(0) &&
                      groups * in_channels == x.size(1) &&
                      groups * out_channels == weight.size(0) && x.dtype() == weight.dtype() &&
                      is_floating(x.dtype()) && x.dtype() == out.dtype();
    if (fits) return;
    throw Error(invalid_argument(absl::StrFormat(
        "%s: input %s %s, weight %s %s, result %s %s; wanted [N, C, H, W], [O, C / groups, KH, KW] "
        "and [N, O, OH, OW] of one floating dtype",
        op, name_of(x.dtype()), to_string(x.shape()), name_of(weight.dtype()),
        to_string(weight.shape()), name_of(out.dtype()), to_string(out.shape()))));
  }
  TSR_HOST_DEVICE std::int64_t taps() const { return in_channels * kernel_h * kernel_w; }
  TSR_HOST_DEVICE std::int64_t pixels() const { return out_height * out_width; }
  TSR_HOST_DEVICE std::int64_t plane() const { return height * width; }
};

}  // namespace tessera::kernels
