#include "kernels/copy_strip.h"

#include <cstring>
#include <vector>

namespace tessera::kernels {
namespace {

std::vector<std::byte> counted(std::size_t bytes) {
  std::vector<std::byte> all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>(i * 7 + i / 251);
  return all;
}

/// Copies a strip byte by byte.
void copy_plainly(const Strip& strip, const std::byte* from, std::byte* to) {
  for (std::int64_t row = 0; row < strip.rows; ++row) {
    for (std::int64_t i = 0; i < strip.row_bytes; ++i) {
      to[row * strip.to_stride + i] = from[row * strip.from_stride + i];
    }
  }
}

}  // namespace

TEST_CASE("strips of every width and border are copied, and nothing beside them",
          "[kernels][copy_strip]") {
  const Stores stores = GENERATE(Stores::kCached, Stores::kStreamed);
  const std::int64_t rows = GENERATE(0, 1, 3, 8, 21);
  int wrong = 0;
  for (const std::int64_t width :
       {0,  1,  2,  3,  4,  5,   7,   8,   9,   12,  15,  16,   17,   24,   31,    32,
        33, 48, 63, 64, 65, 100, 128, 255, 511, 512, 640, 1000, 4096, 4100, 16384, 17000}) {
    for (const std::int64_t from_gap : {0, 1, 64, 4096}) {
      for (const std::int64_t to_gap : {0, 3, 64}) {
        for (const std::size_t offset : {0U, 1U, 4U, 64U}) {
          const Strip strip{rows, width, width + from_gap, width + to_gap};
          const auto bytes = static_cast<std::size_t>(rows * (width + 4096) + 256);
          const std::vector<std::byte> from = counted(bytes);
          std::vector<std::byte> to(bytes, std::byte{0xee}), expected = to;
          copy_strip(strip, from.data() + 3, to.data() + offset, stores);
          finish_streams();
          copy_plainly(strip, from.data() + 3, expected.data() + offset);
          wrong += to == expected ? 0 : 1;
        }
      }
    }
  }
  CHECK(wrong == 0);
}

}  // namespace tessera::kernels
