#include "kernels/copy_strip.h"

#include <algorithm>
#include <cstring>

namespace tessera::kernels {
namespace {

// Rows up to here are copied without a call.
constexpr std::int64_t kShortBytes = 64;
// Shorter rows make too many parts of cache lines to be streamed one by one.
constexpr std::int64_t kStreamedRowBytes = 512;
// Rows apart from one another are copied so many at a time, a few lines of each in turn: each is on
// a page of its own, and more pages at a time are read ahead.
constexpr std::int64_t kRowsAbreast = 8;
constexpr std::size_t kColumnBytes = 256;
constexpr std::int64_t kLongRowBytes = 16384;
// How far ahead a long row is read.
constexpr std::size_t kAheadBytes = 2048;
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

void stream_abreast(const Strip& strip, const std::byte* from, std::byte* to) {
  const auto bytes = static_cast<std::size_t>(strip.row_bytes);
  const LineSplit split(to, bytes);
  const auto each_row = [&](std::size_t at, const auto& copy) {
    for (std::int64_t row = 0; row < strip.rows; ++row) {
      const auto column = static_cast<std::int64_t>(at);
      copy(to + row * strip.to_stride + column, from + row * strip.from_stride + column);
    }
  };
  const auto copy_part = [&](std::size_t at, std::size_t size) {
    if (size == 0) return;
    each_row(at, [&](std::byte* dst, const std::byte* src) { std::memcpy(dst, src, size); });
  };
  copy_part(0, split.head);
  for (std::size_t at = 0; at < split.lines; at += kColumnBytes) {
    const std::size_t size = std::min(kColumnBytes, split.lines - at);
    each_row(split.head + at,
             [&](std::byte* dst, const std::byte* src) { stream_lines(dst, src, size); });
  }
  copy_part(split.head + split.lines, split.tail);
}

void stream_rows(const Strip& strip, const std::byte* from, std::byte* to) {
  const bool abreast = strip.row_bytes < kLongRowBytes && strip.to_stride % 64 == 0;
  Strip part = strip;
  part.rows = abreast ? kRowsAbreast : 1;
  for (std::int64_t row = 0; row < strip.rows; row += part.rows) {
    part.rows = std::min(part.rows, strip.rows - row);
    const std::byte* src = from + row * strip.from_stride;
    std::byte* dst = to + row * strip.to_stride;
    if (abreast) {
      stream_abreast(part, src, dst);
    } else {
      stream_bytes(dst, src, static_cast<std::size_t>(strip.row_bytes), kAheadBytes);
    }
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
    stream_rows(merged, from, to);
  } else if (stores == Stores::kStreamed && merged.to_stride == merged.row_bytes) {
    collect_and_stream(merged, from, to);
  } else {
    copy_cached(merged, from, to);
  }
}

}  // namespace tessera::kernels
