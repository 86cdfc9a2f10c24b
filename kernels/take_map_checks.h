// kernels/take_map_checks.h: what the kernels of take_map.h ask of their places, on every device.
#pragma once

#include <cstdint>
#include <span>

#include "absl/strings/str_format.h"
#include "placement/status.h"

namespace tessera::kernels {

/// `wanted` places, each −1 or below `size`. Errors: InvalidArgument for another number of them,
/// OutOfRange naming the first that is neither.
inline void check_places(const char* op, std::span<const std::int64_t> places, std::int64_t wanted,
                         std::int64_t size) {
  if (static_cast<std::int64_t>(places.size()) != wanted) {
    throw Error(invalid_argument(
        absl::StrFormat("%s: %d places for a dim of %d", op, places.size(), wanted)));
  }
  for (std::size_t o = 0; o < places.size(); ++o) {
    if (places[o] >= -1 && places[o] < size) continue;
    throw Error(out_of_range(
        absl::StrFormat("%s: place %d is %d; allowed are -1 … %d", op, o, places[o], size - 1)));
  }
}

}  // namespace tessera::kernels
