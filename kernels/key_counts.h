// kernels/key_counts.h: counts of rows by part and key, of any strides, as kernels read them on
// every device.
#pragma once

#include <cstdint>

#include "kernels/array.h"
#include "kernels/host_device.h"

namespace tessera::kernels {

/// Of an array [P, S, K]: part p · S + s.
struct KeyCounts {
  const std::int64_t* data = nullptr;
  std::int64_t steps[3] = {};
  std::int64_t second = 1;
  std::int64_t parts = 0, keys = 0;

  TSR_HOST_DEVICE std::int64_t of(std::int64_t part, std::int64_t key) const {
    return data[part / second * steps[0] + part % second * steps[1] + key * steps[2]];
  }
};
/// `data`: the array's, where the kernel reads it.
inline KeyCounts key_counts(const Array& counts_PSK, const std::int64_t* data) {
  const Shape& steps = counts_PSK.strides();
  const std::int64_t second = counts_PSK.size(1);
  return {.data = data,
          .steps = {steps[0], steps[1], steps[2]},
          .second = second > 0 ? second : 1,
          .parts = counts_PSK.size(0) * second,
          .keys = counts_PSK.size(2)};
}

}  // namespace tessera::kernels
