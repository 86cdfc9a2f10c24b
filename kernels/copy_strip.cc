#include "kernels/copy_strip.h"

#include <algorithm>
#include <cstring>

namespace tessera::kernels {
namespace {

// Rows up to here are copied without a call.
constexpr std::int64_t kShortBytes = 64;
// Shorter rows make too many parts of cache lines to be streamed one by one.
constexpr std::int64_t kStreamedRowBytes = 512;
// Short rows that lie side by side in the target are collected in the first-level cache.
constexpr std::int64_t kCollectedBytes = 8192;

template <std::size_t kBytes>
struct Exactly {
  static void copy(std::byte* to, const std::byte* from, std::size_t) {
    std::memcpy(to, from, kBytes);
  }
};
/// kPart < bytes <= 2 kPart: the two parts overlap.
template <std::size_t kPart>
struct TwoParts {
  static void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    std::byte first[kPart], last[kPart];
    std::memcpy(first, from, kPart);
    std::memcpy(last, from + bytes - kPart, kPart);
    std::memcpy(to, first, kPart);
    std::memcpy(to + bytes - kPart, last, kPart);
  }
};
struct AnyBytes {
  static void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    std::memcpy(to, from, bytes);
  }
};

template <class Row>
void copy_rows(const Strip& strip, const std::byte* from, std::byte* to) {
  const auto bytes = static_cast<std::size_t>(strip.row_bytes);
#pragma GCC unroll 4
  for (std::int64_t row = 0; row < strip.rows; ++row) {
    Row::copy(to + row * strip.to_stride, from + row * strip.from_stride, bytes);
  }
}

void copy_cached(const Strip& strip, const std::byte* from, std::byte* to) {
  switch (strip.row_bytes) {
    case 1:
      return copy_rows<Exactly<1>>(strip, from, to);
    case 2:
      return copy_rows<Exactly<2>>(strip, from, to);
    case 4:
      return copy_rows<Exactly<4>>(strip, from, to);
    case 8:
      return copy_rows<Exactly<8>>(strip, from, to);
    case 16:
      return copy_rows<Exactly<16>>(strip, from, to);
    case 32:
      return copy_rows<Exactly<32>>(strip, from, to);
    case 64:
      return copy_rows<Exactly<64>>(strip, from, to);
    default:
      break;
  }
  if (strip.row_bytes > kShortBytes) return copy_rows<AnyBytes>(strip, from, to);
  if (strip.row_bytes > 32) return copy_rows<TwoParts<32>>(strip, from, to);
  if (strip.row_bytes > 16) return copy_rows<TwoParts<16>>(strip, from, to);
  if (strip.row_bytes > 8) return copy_rows<TwoParts<8>>(strip, from, to);
  if (strip.row_bytes > 4) return copy_rows<TwoParts<4>>(strip, from, to);
  copy_rows<AnyBytes>(strip, from, to);
}

// Rows side by side in the target: some at a time into a buffer, which is streamed as a whole.
void collect_and_stream(const Strip& strip, const std::byte* from, std::byte* to) {
  alignas(64) std::byte buffer[kCollectedBytes];
  Strip part = strip;
  for (std::int64_t row = 0; row < strip.rows; row += part.rows) {
    part.rows = std::min(kCollectedBytes / strip.row_bytes, strip.rows - row);
    copy_cached(part, from + row * strip.from_stride, buffer);
    stream_bytes(to + row * strip.to_stride, buffer,
                 static_cast<std::size_t>(part.rows * strip.row_bytes));
  }
}

}  // namespace

void copy_strip(const Strip& strip, const std::byte* from, std::byte* to, Stores stores) {
  Strip merged = strip;
  if (strip.from_stride == strip.row_bytes && strip.to_stride == strip.row_bytes) {
    merged.row_bytes *= strip.rows;
    merged.rows = 1;
  }
  if (merged.rows <= 0 || merged.row_bytes <= 0) return;
  if (stores == Stores::kStreamed && merged.row_bytes >= kStreamedRowBytes) {
    for (std::int64_t row = 0; row < merged.rows; ++row) {
      stream_bytes(to + row * merged.to_stride, from + row * merged.from_stride,
                   static_cast<std::size_t>(merged.row_bytes));
    }
  } else if (stores == Stores::kStreamed && merged.to_stride == merged.row_bytes) {
    collect_and_stream(merged, from, to);
  } else {
    copy_cached(merged, from, to);
  }
}

}  // namespace tessera::kernels
