// benchmarks/redistribute_floor.h: the least that a redistribution in one memory costs: the same
// blocks, copied or added per target by two plain threads that know where everything lies.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "benchmarks/thread_time.h"
#include "kernels/array.h"
#include "placement/plan.h"

namespace tessera::bench {

inline constexpr int kFloorThreads = 2;

/// How the floor writes its targets.
enum class Stores { kPlain, kStreamed };

/// Rows of float32, from as many sources as are added up, to as many targets as get the sum.
struct Block {
  std::vector<const float*> sources;
  std::vector<float*> targets;
  std::int64_t rows = 1, row_floats = 0;
  std::int64_t source_stride = 0, target_stride = 0;
};

/// The blocks that a 2-d box of `src` makes in `dst`.
inline void add_blocks(const Transfer& box, const Array& src, const Array& dst,
                       std::vector<Block>& blocks) {
  for (const Run& rows : box.dims[0]) {
    for (const Run& cols : box.dims[1]) {
      Block block{{src.data<float>() + rows.src * src.size(1) + cols.src},
                  {dst.data<float>() + rows.dst * dst.size(1) + cols.dst},
                  rows.size,
                  cols.size,
                  src.size(1),
                  dst.size(1)};
      if (cols.size == src.size(1) && cols.size == dst.size(1)) {
        block.row_floats *= block.rows;
        block.rows = 1;
      }
      blocks.push_back(std::move(block));
    }
  }
}

// The widest vectors that the build's processor has.
#if defined(__AVX512F__)
using Floats = __m512;
inline Floats load(const float* from) { return _mm512_loadu_ps(from); }
inline void store(float* to, Floats x) { _mm512_storeu_ps(to, x); }
inline void stream(float* to, Floats x) { _mm512_stream_ps(to, x); }
#elif defined(__AVX__)
using Floats = __m256;
inline Floats load(const float* from) { return _mm256_loadu_ps(from); }
inline void store(float* to, Floats x) { _mm256_storeu_ps(to, x); }
inline void stream(float* to, Floats x) { _mm256_stream_ps(to, x); }
#else
using Floats = __m128;
inline Floats load(const float* from) { return _mm_loadu_ps(from); }
inline void store(float* to, Floats x) { _mm_storeu_ps(to, x); }
inline void stream(float* to, Floats x) { _mm_stream_ps(to, x); }
#endif
constexpr std::int64_t kWidth = sizeof(Floats) / sizeof(float);

inline void stream_row(const float* from, float* to, std::int64_t floats) {
  std::int64_t i = 0;
  while (i < floats && reinterpret_cast<std::uintptr_t>(to + i) % 64 != 0) to[i] = from[i], ++i;
  for (; i + kWidth <= floats; i += kWidth) stream(to + i, load(from + i));
  for (; i < floats; ++i) to[i] = from[i];
}

/// Sums of one to four sources; requires rows of whole cache lines.
inline void add_row(const Block& block, std::int64_t row, Stores stores) {
  const std::size_t count = block.sources.size();
  const float* from[4] = {block.sources[0] + row * block.source_stride};
  for (std::size_t s = 1; s < count; ++s) from[s] = block.sources[s] + row * block.source_stride;
  for (std::int64_t i = 0; i < block.row_floats; i += kWidth) {
    Floats sum = load(from[0] + i);
    for (std::size_t s = 1; s < count; ++s) sum += load(from[s] + i);
    for (float* target : block.targets) {
      float* to = target + row * block.target_stride + i;
      if (stores == Stores::kStreamed) {
        stream(to, sum);
      } else {
        store(to, sum);
      }
    }
  }
}

inline void run_block(const Block& block, Stores stores) {
  for (std::int64_t row = 0; row < block.rows; ++row) {
    if (block.sources.size() > 1) {
      add_row(block, row, stores);
      continue;
    }
    const float* from = block.sources[0] + row * block.source_stride;
    float* to = block.targets[0] + row * block.target_stride;
    if (stores == Stores::kStreamed) {
      stream_row(from, to, block.row_floats);
    } else {
      std::memcpy(to, from, static_cast<std::size_t>(block.row_floats) * sizeof(float));
    }
  }
  if (stores == Stores::kStreamed) _mm_sfence();
}

/// Units: seconds, on the clock and of all threads' processor time.
struct Spent {
  double clock = 0;
  double processor = 0;
};

/// Runs the targets' blocks on two threads.
inline Spent floor_time(const std::vector<std::vector<Block>>& targets, Stores stores) {
  using Clock = std::chrono::steady_clock;
  std::barrier start(kFloorThreads);
  Clock::time_point begin[kFloorThreads], end[kFloorThreads];
  double processor[kFloorThreads] = {};
  std::vector<std::thread> threads;
  for (int t = 0; t < kFloorThreads; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      const double before = thread_seconds();
      begin[t] = Clock::now();
      for (auto i = static_cast<std::size_t>(t); i < targets.size(); i += kFloorThreads) {
        for (const Block& block : targets[i]) run_block(block, stores);
      }
      end[t] = Clock::now();
      processor[t] = thread_seconds() - before;
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto spent =
      *std::max_element(end, end + kFloorThreads) - *std::min_element(begin, begin + kFloorThreads);
  return {std::chrono::duration<double>(spent).count(), processor[0] + processor[1]};
}
inline double floor_seconds(const std::vector<std::vector<Block>>& targets, Stores stores) {
  return floor_time(targets, stores).clock;
}

inline double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace tessera::bench
