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

/// Copies past the caches, but for the parts of a cache line at both ends.
inline void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
#ifdef __SSE2__
  constexpr std::size_t kLine = 64;
  const std::size_t past = reinterpret_cast<std::uintptr_t>(to) % kLine;
  const std::size_t head = std::min(bytes, past == 0 ? 0 : kLine - past);
  if (head > 0) std::memcpy(to, from, head);
  std::size_t at = head;
  for (; at + kLine <= bytes; at += kLine) {
#if defined(__AVX512F__)
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + at), _mm512_loadu_si512(from + at));
#else
    for (std::size_t part = 0; part < kLine; part += 16) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + at + part),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at + part)));
    }
#endif
  }
  if (at < bytes) std::memcpy(to + at, from + at, bytes - at);
#else
  std::memcpy(to, from, bytes);
#endif
}

/// Copies rows of one size into a target of `target_bytes`.
class RowWriter {
 public:
  RowWriter(std::int64_t target_bytes, std::int64_t row_bytes)
      : row_bytes_(static_cast<std::size_t>(row_bytes)),
        streams_(stores_for(target_bytes) == Stores::kStreamed && row_bytes >= kLeastBytes) {}

  void copy(const std::byte* from, std::byte* to) const {
    if (streams_) {
      stream_bytes(to, from, row_bytes_);
    } else {
      std::memcpy(to, from, row_bytes_);
    }
  }
  static void finish() { finish_streams(); }

 private:
  static constexpr std::int64_t kLeastBytes = 256;  ///< rows that are mostly whole cache lines

  std::size_t row_bytes_;
  bool streams_;
};

}  // namespace tessera::kernels
