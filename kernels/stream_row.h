// kernels/stream_row.h: copies rows past the caches where the target is larger than they are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace tessera::kernels {

/// How a copy writes its target.
enum class Stores : std::uint8_t {
  kCached,   ///< into the caches
  kStreamed  ///< past them; finish_streams() makes it visible to other threads
};

/// Which of them suits a target of so many bytes.
constexpr Stores stores_for(std::int64_t target_bytes) noexcept {
  constexpr std::int64_t kStreamedBytes = std::int64_t{16} << 20;
  return target_bytes >= kStreamedBytes ? Stores::kStreamed : Stores::kCached;
}

/// Call once after the last streamed byte of a thread.
inline void finish_streams() noexcept {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

/// Copies whole cache lines into a target on a line border, past the caches. `ahead`: bytes to
/// prefetch ahead of the source, 0: none; pays for long ones.
inline void stream_lines(std::byte* to, const std::byte* from, std::size_t bytes,
                         std::size_t ahead = 0) {
#if defined(__AVX512F__)
  const auto line = [&](std::size_t at) {
    if (ahead > 0) _mm_prefetch(from + at + ahead, _MM_HINT_T0);
    return _mm512_loadu_si512(from + at);
  };
  std::size_t at = 0;
  for (; at + 256 <= bytes; at += 256) {
    const __m512i a = line(at), b = line(at + 64), c = line(at + 128), d = line(at + 192);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), a);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at + 64), b);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at + 128), c);
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at + 192), d);
  }
  for (; at < bytes; at += 64) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), line(at));
  }
#elif defined(__SSE2__)
  for (std::size_t at = 0; at < bytes; at += 16) {
    if (ahead > 0 && at % 64 == 0) _mm_prefetch(from + at + ahead, _MM_HINT_T0);
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
  }
#else
  static_cast<void>(ahead);
  std::memcpy(to, from, bytes);
#endif
}

/// A stretch of a target as cache lines: bytes before the first, in whole ones, behind the last.
struct LineSplit {
  std::size_t head = 0, lines = 0, tail = 0;
  LineSplit(const std::byte* to, std::size_t bytes) {
    constexpr std::size_t kLine = 64;
    const std::size_t past = reinterpret_cast<std::uintptr_t>(to) % kLine;
    head = std::min(bytes, past == 0 ? 0 : kLine - past);
    lines = (bytes - head) / kLine * kLine;
    tail = bytes - head - lines;
  }
};

/// Copies past the caches, but for the parts of a cache line at both ends.
inline void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes,
                         std::size_t ahead = 0) {
  const LineSplit split(to, bytes);
  if (split.head > 0) std::memcpy(to, from, split.head);
  stream_lines(to + split.head, from + split.head, split.lines, ahead);
  const std::size_t rest = split.head + split.lines;
  if (split.tail > 0) std::memcpy(to + rest, from + rest, split.tail);
}

/// Copies rows of one size into a target of `target_bytes`.
class RowWriter {
 public:
  RowWriter(std::int64_t target_bytes, std::int64_t row_bytes)
      : row_bytes_(static_cast<std::size_t>(row_bytes)),
        streams_(stores_for(target_bytes) == Stores::kStreamed &&
                 (row_bytes % kLine == 0 || row_bytes >= kLongBytes)) {}

  void copy(const std::byte* from, std::byte* to) const {
    if (streams_) {
      stream_bytes(to, from, row_bytes_);
    } else {
      std::memcpy(to, from, row_bytes_);
    }
  }
  static void finish() { finish_streams(); }
  bool streams() const { return streams_; }

 private:
  static constexpr std::int64_t kLine = 64;
  static constexpr std::int64_t kLongBytes =
      2048;  ///< mostly whole cache lines wherever they begin

  std::size_t row_bytes_;
  bool streams_;
};

}  // namespace tessera::kernels
