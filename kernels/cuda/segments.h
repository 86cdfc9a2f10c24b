// kernels/cuda/segments.h: lines along one dim cut into segments, a warp or a thread each, where a
// warp a line would leave a card idle or read far apart. What a segment gives for those of its line
// stands at its place in an array (segments, lines).
#pragma once

#include <algorithm>

#include "kernels/cuda/lines.h"

namespace tessera::kernels::TSR_CUDA {

struct Cut {
  std::int64_t length;  // of a segment
  std::int64_t count;   // of a line
};

/// One segment, as one of the kWidth threads that work on it sees it.
template <int kThreads, int kOperands>
struct Segment : Lines<kOperands> {
  static constexpr int kWidth = kThreads;
  std::int64_t begin, end;
  std::int64_t number, line, lines;

  __device__ std::int64_t place_of(std::int64_t of_number) const {
    return of_number * lines + line;
  }
};

template <int kWidth, int kOperands, class F>
__global__ void map_segments(MapLayout<kOperands> layout, LineSteps<kOperands> steps,
                             std::int64_t n, Cut cut, F function) {
  const std::int64_t groups = static_cast<std::int64_t>(gridDim.x) * blockDim.x / kWidth;
  std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kWidth;
  for (; at < layout.total * cut.count; at += groups) {
    // Neighbouring threads work on neighbouring lines.
    const std::int64_t line = at % layout.total, number = at / layout.total;
    const std::int64_t begin = number * cut.length;
    const std::int64_t end = begin + cut.length < n ? begin + cut.length : n;
    std::int64_t offsets[kOperands];
    offsets_of(layout, line, offsets);
    function(Segment<kWidth, kOperands>{
        {layout, steps.of, offsets, n, static_cast<int>(threadIdx.x % kWidth)},
        begin,
        end,
        number,
        line,
        layout.total});
  }
}

#ifdef __CUDACC__
inline constexpr std::int64_t kLeastOfSegment = 1024;    // elements
inline constexpr std::int64_t kMostSegments = 1024;      // of a line
inline constexpr std::int64_t kLanesWanted = 1LL << 18;  // what keeps a large card busy
inline constexpr std::int64_t kManyLines = 32;           // whose threads read near each other
#else
inline constexpr std::int64_t kLeastOfSegment = 48, kMostSegments = 5, kLanesWanted = 256,
                              kManyLines = 12;
#endif

/// Lines of n for groups of `width` threads: no more segments than keep the device busy.
inline Cut cut_lines(std::int64_t lines, std::int64_t n, int width) {
  const std::int64_t wanted =
      std::clamp<std::int64_t>(kLanesWanted / (lines * width), 1, kMostSegments);
  const std::int64_t pieces = (n + kLeastOfSegment - 1) / kLeastOfSegment;
  const std::int64_t count = std::clamp<std::int64_t>(pieces, 1, wanted);
  const std::int64_t length =
      std::max<std::int64_t>(1, (pieces + count - 1) / count) * kLeastOfSegment;
  return {length, std::max<std::int64_t>(1, (n + length - 1) / length)};
}

/// function(segment) by each group for each segment.
template <int kWidth, int kOperands, class F>
cudaError_t launch_segments(KernelContext& ctx, const MapLayout<kOperands>& layout,
                            const LineSteps<kOperands>& steps, std::int64_t n, Cut cut,
                            const F& function) {
  return launch<map_segments<kWidth, kOperands, F>>(
      grid_for(layout.total * cut.count * kWidth), stream_of(ctx), layout, steps, n, cut, function);
}

/// Whether a thread a line reads what lies beside what its neighbours read.
inline bool suits_threads(std::int64_t lines, std::int64_t step) {
  return step != 1 && lines >= kManyLines;
}

/// run.operator()<kWidth>(layout, steps, n, cut), which launches, for lines as run_line_layouts()
/// has them: a thread a segment where that suits the first operand that has lines, else a warp.
template <int kOperands, class Run>
void run_cut_lines(KernelContext& ctx, const char* name,
                   const std::array<LineOperand, kOperands>& operands, Run&& run) {
  std::size_t walked = 0;
  while (operands[walked].dim < 0) ++walked;
  run_line_layouts<kOperands>(
      ctx, name, operands, [&](const auto& layout, const auto& steps, std::int64_t n) {
        const std::int64_t lines = layout.total;
        if (suits_threads(lines, steps.of[walked])) {
          return run.template operator()<1>(layout, steps, n, cut_lines(lines, n, 1));
        }
        return run.template operator()<kLanes>(layout, steps, n, cut_lines(lines, n, kLanes));
      });
}

/// function(segment) by each group for each segment, none of which needs another.
template <int kOperands, class F>
void run_segments(KernelContext& ctx, const char* name,
                  const std::array<LineOperand, kOperands>& operands, const F& function) {
  run_cut_lines<kOperands>(
      ctx, name, operands,
      [&]<int kWidth>(const auto& layout, const auto& steps, std::int64_t n, Cut cut) {
        return launch_segments<kWidth>(ctx, layout, steps, n, cut, function);
      });
}

/// A value of a group's threads, in words.
template <class T, class Exchange>
__device__ T exchange_words(const T& value, const Exchange& exchange) {
  static_assert(sizeof(T) % sizeof(std::uint64_t) == 0);
  constexpr std::size_t kWords = sizeof(T) / sizeof(std::uint64_t);
  std::uint64_t words[kWords];
  memcpy(words, &value, sizeof(T));
  for (std::size_t w = 0; w < kWords; ++w) words[w] = exchange(words[w]);
  T result;
  memcpy(&result, words, sizeof(T));
  return result;
}
template <int kWidth, class T>
__device__ T from_thread(const T& value, int thread) {
  if constexpr (kWidth == 1) return value;
  return exchange_words(value,
                        [=](std::uint64_t word) { return __shfl_sync(kAllLanes, word, thread); });
}
template <class T>
__device__ T from_before(const T& value, int step) {
  return exchange_words(value, [=](std::uint64_t word) {
    return __shfl_up_sync(kAllLanes, word, static_cast<unsigned>(step));
  });
}
template <class T>
__device__ T from_across(const T& value, int step) {
  return exchange_words(value,
                        [=](std::uint64_t word) { return __shfl_xor_sync(kAllLanes, word, step); });
}

}  // namespace tessera::kernels::TSR_CUDA
