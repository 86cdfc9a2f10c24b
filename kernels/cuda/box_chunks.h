// kernels/cuda/box_chunks.h: what a launch of moves of boxes carries, and which of their chunks
// fall to a thread. Chunks count on from one move to the next. A block takes run after run of them,
// some for each of its threads, neighbours to neighbouring threads; most runs lie in one move.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/box_moves.h"
#include "kernels/cuda/quotient.h"

namespace tessera::kernels::TSR_CUDA {

/// All that a launch needs: pointers and words of tables travel with it.
template <std::size_t kWords, std::size_t kArrays>
struct MovesOfLaunch {
  static constexpr std::size_t kMostWords = kWords, kMostArrays = kArrays;
  std::int64_t count, num_words, chunks;
  const std::int64_t* words_there;  // in the device's memory; null: they are `words`
  std::byte* const* arrays_there;   // likewise
  const std::int64_t* broken_off;   // see MovedArrays
  int num_sources, num_arrays;
  Fold how;
  std::int64_t words[kWords];  // of the moves, then of the cuts
  std::byte* arrays[kArrays];  // the sources, then the targets

  __device__ bool is_broken_off() const { return broken_off != nullptr && *broken_off != 0; }
};
/// What a collective of a few tensors has, and what a bucket of a hundred has: a launch takes the
/// longer, the more it carries.
using FewMoves = MovesOfLaunch<320, 128>;
using ManyMoves = MovesOfLaunch<1664, 256>;

/// The elements of a chunk, as many as there can be.
template <class T>
struct BoxChunk {
  static constexpr int kMost = BoxMoves::kChunkBytes / static_cast<int>(sizeof(T));
  T values[kMost];
};
using ChunkVector = uint4;
static_assert(sizeof(ChunkVector) == BoxMoves::kChunkBytes);

template <class T>
__device__ bool is_whole(const T* at, std::int64_t count) {
  return count == BoxChunk<T>::kMost &&
         reinterpret_cast<std::uintptr_t>(at) % sizeof(ChunkVector) == 0;
}
/// `count` elements, in one read where they fill a vector.
template <class T>
__device__ BoxChunk<T> read_chunk(const T* from, std::int64_t count) {
  if (is_whole(from, count)) {
    return std::bit_cast<BoxChunk<T>>(*reinterpret_cast<const ChunkVector*>(from));
  }
  BoxChunk<T> chunk;
  for (int i = 0; i < BoxChunk<T>::kMost; ++i) chunk.values[i] = i < count ? from[i] : T{};
  return chunk;
}
template <class T>
__device__ void write_chunk(const BoxChunk<T>& chunk, T* to, std::int64_t count) {
  if (is_whole(to, count)) {
    *reinterpret_cast<ChunkVector*>(to) = std::bit_cast<ChunkVector>(chunk);
    return;
  }
  for (int i = 0; i < BoxChunk<T>::kMost; ++i) {
    if (i < count) to[i] = chunk.values[i];
  }
}

/// Where a chunk lies in its move.
struct ChunkSpot {
  std::int64_t row, column;
};

/// One source of a move, and one target.
template <class T>
struct BoxPart {
  const T* from;
  T* to;
  std::int64_t from_stride, to_stride, width;
  std::int64_t row_chunks, chunk;

  /// Whether a chunk goes on from one row to the next.
  __device__ bool is_of_line() const { return row_chunks * chunk != width; }
  __device__ ChunkSpot spot(std::int64_t number) const {
    const std::int64_t row = row_chunks == 1 ? number : quotient(number, row_chunks);
    return {row, (number - row * row_chunks) * chunk};
  }
  __device__ BoxChunk<T> read(const ChunkSpot& at) const {
    if (!is_of_line() || from_stride == width) {
      return read_chunk(from + at.row * from_stride + at.column, chunk);
    }
    BoxChunk<T> elements;
    for_each_of_line(at, from_stride, [&](int i, std::int64_t k) { elements.values[i] = from[k]; });
    return elements;
  }
  __device__ void write(const BoxChunk<T>& elements, const ChunkSpot& at) const {
    if (!is_of_line() || to_stride == width) {
      return write_chunk(elements, to + at.row * to_stride + at.column, chunk);
    }
    for_each_of_line(at, to_stride, [&](int i, std::int64_t k) { to[k] = elements.values[i]; });
  }

 private:
  /// f(i, where element i lies in rows that are `stride` apart).
  template <class F>
  __device__ void for_each_of_line(const ChunkSpot& at, std::int64_t stride, F&& f) const {
    std::int64_t row = width == 1 ? at.column : quotient(at.column, width);
    std::int64_t column = at.column - row * width;
    TSR_UNROLL
    for (int i = 0; i < BoxChunk<T>::kMost; ++i) {
      if (i < chunk) f(i, row * stride + column);
      if (++column < width) continue;
      column = 0;
      ++row;
    }
  }
};

/// The tables, near: what came with the launch is copied into the block's own memory.
template <class M>
struct SharedBoxTables {
  std::int64_t words[M::kMostWords];
  std::byte* arrays[M::kMostArrays];
};
template <class M>
struct BoxTables {
  std::int64_t count, chunks;
  int num_sources;
  const std::int64_t* words;
  std::byte* const* arrays;

  /// By all threads of a block.
  __device__ BoxTables(const M& moves, SharedBoxTables<M>& shared)
      : count(moves.count),
        chunks(moves.chunks),
        num_sources(moves.num_sources),
        words(moves.words_there),
        arrays(moves.arrays_there) {
    if (words == nullptr) {
      for (auto i = threadIdx.x; i < moves.num_words; i += blockDim.x) {
        shared.words[i] = moves.words[i];
      }
      words = shared.words;
    }
    if (arrays == nullptr) {
      for (int i = static_cast<int>(threadIdx.x); i < moves.num_arrays;
           i += static_cast<int>(blockDim.x)) {
        shared.arrays[i] = moves.arrays[i];
      }
      arrays = shared.arrays;
    }
    __syncthreads();
  }

  __device__ const std::int64_t* move(std::int64_t m) const {
    return words + m * BoxMoves::kMoveWords;
  }
  /// The last move in [low, high) that begins no later than chunk `at`.
  __device__ std::int64_t move_of(std::int64_t at, std::int64_t low, std::int64_t high) const {
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      (move(middle)[BoxMoves::kBegin] <= at ? low : high) = middle;
    }
    return low;
  }
  /// Of a move and its neighbours, of which `last` is the last.
  __device__ std::int64_t end_of(std::int64_t last) const {
    return last + 1 < count ? move(last + 1)[BoxMoves::kBegin] : chunks;
  }
  /// `last` is what move_of() found for chunk `at`, which becomes the number in the result, its
  /// move.
  __device__ const std::int64_t* move_at(std::int64_t last, std::int64_t& at) const {
    const std::int64_t* found = move(last);
    at -= found[BoxMoves::kBegin];
    const std::int64_t together = found[BoxMoves::kTogether];
    if (together == 1) return found;
    // A turn of each, and what is left of all after whole turns.
    const std::int64_t turn = BoxMoves::kTurn, each = found[BoxMoves::kChunks];
    const std::int64_t whole = each / turn * turn;
    std::int64_t number;
    if (at < whole * together) {
      const std::int64_t round = quotient(at / turn, together);
      number = at / turn - round * together;
      at = round * turn + at % turn;
    } else {
      const std::int64_t rest = at - whole * together;
      number = quotient(rest, each - whole);
      at = whole + rest - number * (each - whole);
    }
    return move(last - together + 1 + number);
  }
  /// `scale`: of T in what the moves count.
  template <class T>
  __device__ BoxPart<T> part(const std::int64_t* move, std::int64_t cut, std::int64_t target,
                             int scale = 1) const {
    const std::int64_t* of = words + count * BoxMoves::kMoveWords +
                             (move[BoxMoves::kFirstCut] + cut) * BoxMoves::kCutWords;
    std::byte* const to = arrays[num_sources + move[BoxMoves::kFirstTarget] + target];
    return {.from = reinterpret_cast<const T*>(arrays[of[0]]) + of[1] * scale,
            .to = reinterpret_cast<T*>(to) + move[BoxMoves::kTo] * scale,
            .from_stride = of[2] * scale,
            .to_stride = move[BoxMoves::kToStride] * scale,
            .width = move[BoxMoves::kRowElements] * scale,
            .row_chunks = move[BoxMoves::kRowChunks],
            .chunk = move[BoxMoves::kChunk] * scale};
  }
};

/// f(first chunk, last move, whether it is that of all) for each of the block's runs of kEach
/// chunks a thread, one after another in memory.
template <int kEach, class M, class F>
__device__ void for_each_run(const BoxTables<M>& tables, F&& f) {
  const std::int64_t run = std::int64_t{kEach} * blockDim.x;
  const std::int64_t runs = (tables.chunks + run - 1) / run;
  const std::int64_t end = runs * (blockIdx.x + 1) / gridDim.x;
  std::int64_t last = 0, move_end = 0;
  for (std::int64_t i = runs * blockIdx.x / gridDim.x; i < end; ++i) {
    const std::int64_t at = i * run, after = at + run < tables.chunks ? at + run : tables.chunks;
    if (at >= move_end) {
      last = tables.move_of(at, last, tables.count);
      move_end = tables.end_of(last);
    }
    f(at, last, after <= move_end && tables.move(last)[BoxMoves::kTogether] == 1);
  }
}

/// f(a, chunk) for those of a run that fall to this thread.
template <int kEach, class F>
__device__ void for_each_own(std::int64_t first, std::int64_t chunks, F&& f) {
  TSR_UNROLL
  for (int a = 0; a < kEach; ++a) {
    const std::int64_t at = first + a * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
    if (at < chunks) f(a, at);
  }
}

}  // namespace tessera::kernels::TSR_CUDA
