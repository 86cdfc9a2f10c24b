// kernels/copy_strip.h: strided copies. A strip is a number of rows of as many bytes each, at even
// distances on both sides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/stream_row.h"
#include "placement/api.h"

namespace tessera::kernels {

struct Strip {
  std::int64_t rows = 1;
  std::int64_t row_bytes = 0;
  std::int64_t from_stride = 0;  ///< bytes from one row to the next
  std::int64_t to_stride = 0;
};

/// Copies a strip; the two sides do not overlap. Streams only where rows fill whole cache lines of
/// the target; the caller then calls finish_streams() in the end.
TSR_API void copy_strip(const Strip& strip, const std::byte* from, std::byte* to, Stores stores);

}  // namespace tessera::kernels
