// kernels/cuda/copy_words.h: copies of elements as they are, between operands of any strides and
// one dtype: in the widest words that both sides' runs hold, or by tiles where the one's neighbours
// lie apart in the other.
#pragma once

#include <cstdint>
#include <utility>

#include "kernels/cuda/map.h"

namespace tessera::kernels::TSR_CUDA {

/// A copy as a loop over words. Operands: to, from; strides in words.
struct WordCopy {
  MapLayout<2> words;
  int bytes;  // of a word
};

inline WordCopy in_words(const MapLayout<2>& layout) {
  WordCopy copy{.words = layout, .bytes = static_cast<int>(size_of(layout.operands[0].dtype))};
  MapLayout<2>& words = copy.words;
  auto& to = words.operands[0].strides;
  auto& from = words.operands[1].strides;
  if (words.ndim == 0) {
    words.ndim = 1;
    words.sizes[0] = words.total;
    to[0] = from[0] = 1;
  }
  if (to[0] != 1 || from[0] != 1) return copy;
  // A word divides the run, and what leads to each.
  const std::int64_t size = copy.bytes;
  std::int64_t all = 16 | reinterpret_cast<std::intptr_t>(words.operands[0].data) |
                     reinterpret_cast<std::intptr_t>(words.operands[1].data) |
                     (words.sizes[0] * size);
  for (int d = 1; d < words.ndim; ++d) all |= (to[d] * size) | (from[d] * size);
  const std::int64_t each = (all & -all) / size;
  copy.bytes = static_cast<int>(each * size);
  words.total /= each;
  words.sizes[0] /= each;
  for (int d = 1; d < words.ndim; ++d) {
    to[d] /= each;
    from[d] /= each;
  }
  return copy;
}

inline constexpr int kWordsInFlight = 4;

template <class Word>
__global__ void copy_words(MapLayout<2> words) {
  auto* to = reinterpret_cast<Word*>(words.operands[0].data);
  const auto* from = reinterpret_cast<const Word*>(words.operands[1].data);
  const std::int64_t lane = threadIdx.x, threads = blockDim.x;
  const std::int64_t step = gridDim.x * threads * kWordsInFlight;
  for (std::int64_t first = blockIdx.x * threads * kWordsInFlight + lane; first < words.total;
       first += step) {
    Word held[kWordsInFlight];
    std::int64_t places[kWordsInFlight];
    TSR_UNROLL
    for (int w = 0; w < kWordsInFlight; ++w) {
      const std::int64_t i = first + w * threads;
      if (i >= words.total) break;
      std::int64_t offsets[2];
      offsets_of(words, i, offsets);
      places[w] = offsets[0];
      held[w] = from[offsets[1]];
    }
    TSR_UNROLL
    for (int w = 0; w < kWordsInFlight; ++w) {
      if (first + w * threads < words.total) to[places[w]] = held[w];
    }
  }
}

#ifdef __CUDACC__
inline constexpr int kTileSide = 32,
                     kTileLines = 8;  // a block has a thread for each of so many lines
#else
inline constexpr int kTileSide = 4, kTileLines = 2;
#endif

/// The same words with the dim along which `from` runs as dim 1, where dim 0 is that of `to` and
/// both are worth tiles. False, and nothing is changed, where there is no such dim.
inline bool turn_to_tiles(MapLayout<2>& words) {
  if (words.ndim < 2 || words.operands[0].strides[0] != 1 || words.sizes[0] < kTileSide) {
    return false;
  }
  for (int d = 1; d < words.ndim; ++d) {
    if (words.operands[1].strides[d] != 1 || words.sizes[d] < kTileSide) continue;
    std::swap(words.sizes[d], words.sizes[1]);
    for (MapOperand& operand : words.operands) std::swap(operand.strides[d], operand.strides[1]);
    return true;
  }
  return false;
}

struct TileCounts {
  std::int64_t across, down, all;  // along dim 0, along dim 1, in all
};

/// Operands: to, which runs along dim 0, and from, which runs along dim 1.
template <class Word>
__global__ void copy_tiles(MapLayout<2> words, TileCounts tiles) {
  TSR_SHARED(Word, tile, [kTileSide][kTileSide + 1]);
  const MapOperand &to = words.operands[0], &from = words.operands[1];
  const int lane = static_cast<int>(threadIdx.x) % kTileSide;
  const int line = static_cast<int>(threadIdx.x) / kTileSide;
  for (std::int64_t t = blockIdx.x; t < tiles.all; t += gridDim.x) {
    const std::int64_t x = t % tiles.across * kTileSide;
    const std::int64_t y = t / tiles.across % tiles.down * kTileSide;
    std::int64_t rest = t / tiles.across / tiles.down, to_at = 0, from_at = 0;
    for (int d = 2; d < words.ndim; ++d) {
      to_at += rest % words.sizes[d] * to.strides[d];
      from_at += rest % words.sizes[d] * from.strides[d];
      rest /= words.sizes[d];
    }
    TSR_UNROLL
    for (int i = 0; i < kTileSide; i += kTileLines) {
      if (x + line + i >= words.sizes[0] || y + lane >= words.sizes[1]) continue;
      tile[line + i][lane] = reinterpret_cast<const Word*>(
          from.data)[from_at + (x + line + i) * from.strides[0] + y + lane];
    }
    __syncthreads();
    TSR_UNROLL
    for (int i = 0; i < kTileSide; i += kTileLines) {
      if (x + lane >= words.sizes[0] || y + line + i >= words.sizes[1]) continue;
      reinterpret_cast<Word*>(to.data)[to_at + x + lane + (y + line + i) * to.strides[1]] =
          tile[lane][line + i];
    }
    __syncthreads();
  }
}

template <class Word>
cudaError_t launch_copy(cudaStream_t stream, MapLayout<2> words) {
  if (!turn_to_tiles(words)) {
    return launch<copy_words<Word>>(grid_for((words.total + kWordsInFlight - 1) / kWordsInFlight),
                                    stream, words);
  }
  TileCounts tiles;
  tiles.across = (words.sizes[0] + kTileSide - 1) / kTileSide;
  tiles.down = (words.sizes[1] + kTileSide - 1) / kTileSide;
  tiles.all = tiles.across * tiles.down * (words.total / (words.sizes[0] * words.sizes[1]));
  Grid grid = grid_for(tiles.all * kTileSide * kTileLines);
  grid.threads = kTileSide * kTileLines;
  return launch<copy_tiles<Word>>(grid, stream, words, tiles);
}

inline cudaError_t launch_copy(cudaStream_t stream, const MapLayout<2>& layout) {
  const WordCopy copy = in_words(layout);
  switch (copy.bytes) {
    case 16:
      return launch_copy<uint4>(stream, copy.words);
    case 8:
      return launch_copy<std::uint64_t>(stream, copy.words);
    case 4:
      return launch_copy<std::uint32_t>(stream, copy.words);
    case 2:
      return launch_copy<std::uint16_t>(stream, copy.words);
    default:
      return launch_copy<std::uint8_t>(stream, copy.words);
  }
}

}  // namespace tessera::kernels::TSR_CUDA
