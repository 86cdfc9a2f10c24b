// kernels/stream_row.h: copies rows past the caches where the target is larger than they are.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <immintrin.h>
#endif

namespace tessera::kernels {

/// Copies rows of one size into a target of `target_bytes`.
class RowWriter {
 public:
  RowWriter(std::int64_t target_bytes, std::int64_t row_bytes)
      : row_bytes_(static_cast<std::size_t>(row_bytes)),
        streams_(target_bytes >= kStreamedBytes && row_bytes % kLine == 0) {}

  void copy(const std::byte* from, std::byte* to) const {
    if (streams_ && reinterpret_cast<std::uintptr_t>(to) % kLine == 0) {
      stream(from, to);
    } else {
      std::memcpy(to, from, row_bytes_);
    }
  }
  /// Makes streamed rows visible to other threads; call once after the last row of a thread.
  static void finish() {
#ifdef __SSE2__
    _mm_sfence();
#endif
  }

 private:
  static constexpr std::int64_t kStreamedBytes = std::int64_t{16} << 20;
  static constexpr std::int64_t kLine = 64;

  void stream(const std::byte* from, std::byte* to) const {
#if defined(__AVX512F__)
    for (std::size_t i = 0; i < row_bytes_; i += 64) {
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i), _mm512_loadu_si512(from + i));
    }
#elif defined(__SSE2__)
    for (std::size_t i = 0; i < row_bytes_; i += 16) {
      const __m128i value = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), value);
    }
#else
    std::memcpy(to, from, row_bytes_);
#endif
  }

  std::size_t row_bytes_;
  bool streams_;
};

}  // namespace tessera::kernels
