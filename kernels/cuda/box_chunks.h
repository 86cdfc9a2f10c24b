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
  std::int64_t count, chunks;
  const std::int64_t* words_there;  // in the device's memory; null: they are `words`
  std::byte* const* arrays_there;   // likewise
  const std::int64_t* broken_off;   // see MovedArrays
  int num_sources;
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
  if constexpr (BoxChunk<T>::kMost == 1) return true;
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

/// How a chunk's elements follow one another on one side.
struct Spread {
  std::int64_t gap;  // elements between a row and the next; 0 where the chunk lies as it is
  int left, width;   // elements of the chunk's first row from its first element on, and of others
};
/// f(i, where element i lies, counted from the first) for each of `count`.
template <class T, class F>
__device__ void for_each_spread(const Spread& spread, std::int64_t count, F&& f) {
  std::int64_t at = 0;
  int left = spread.left;
  TSR_UNROLL
  for (int i = 0; i < BoxChunk<T>::kMost; ++i) {
    if (i < count) f(i, at);
    ++at;
    if (--left > 0) continue;
    at += spread.gap;
    left = spread.width;
  }
}
template <class T>
__device__ BoxChunk<T> read_chunk(const T* from, const Spread& spread, std::int64_t count) {
  if (spread.gap == 0) return read_chunk(from, count);
  BoxChunk<T> chunk{};
  for_each_spread<T>(spread, count, [&](int i, std::int64_t at) { chunk.values[i] = from[at]; });
  return chunk;
}
template <class T>
__device__ void write_chunk(const BoxChunk<T>& chunk, T* to, const Spread& spread,
                            std::int64_t count) {
  if (spread.gap == 0) return write_chunk(chunk, to, count);
  for_each_spread<T>(spread, count, [&](int i, std::int64_t at) { to[at] = chunk.values[i]; });
}

/// Where a chunk begins in its move.
struct ChunkSpot {
  std::int64_t row, column;
};

/// One source of a move, and one target. All counts are of T.
template <class T>
struct BoxPart {
  const T* from;
  T* to;
  std::int64_t from_stride, to_stride, width, chunk;
  bool is_of_line;  // a chunk may go on from one row to the next

  __device__ ChunkSpot spot(std::int64_t number) const {
    const std::int64_t element = number * chunk;
    const std::int64_t row = width == 1 ? element : quotient(element, width);
    return {row, element - row * width};
  }
  __device__ Spread spread(std::int64_t stride, std::int64_t column) const {
    constexpr std::int64_t kMost = BoxChunk<T>::kMost;
    if (kMost == 1 || !is_of_line || stride == width) return {};
    return {stride - width, static_cast<int>(width - column < kMost ? width - column : kMost),
            static_cast<int>(width < kMost ? width : kMost)};
  }
  __device__ BoxChunk<T> read(const ChunkSpot& at) const {
    return read_chunk(from + at.row * from_stride + at.column, spread(from_stride, at.column),
                      chunk);
  }
  __device__ void write(const BoxChunk<T>& elements, const ChunkSpot& at) const {
    write_chunk(elements, to + at.row * to_stride + at.column, spread(to_stride, at.column), chunk);
  }
};

/// A thread's way through the chunks of one move, so many on at each step: no step divides.
template <class T>
class ChunkWalk {
 public:
  __device__ ChunkWalk(const BoxPart<T>& part, std::int64_t number, std::int64_t step)
      : part_(part) {
    const ChunkSpot spot = part.spot(number), by = part.spot(step);
    column_ = spot.column;
    from_ = part.from + spot.row * part.from_stride + spot.column;
    to_ = part.to + spot.row * part.to_stride + spot.column;
    column_step_ = by.column;
    from_step_ = by.row * part.from_stride + by.column;
    to_step_ = by.row * part.to_stride + by.column;
  }
  __device__ BoxChunk<T> read() const {
    return read_chunk(from_, part_.spread(part_.from_stride, column_), part_.chunk);
  }
  /// Where what was read goes.
  struct Target {
    T* to;
    std::int64_t column;
  };
  __device__ Target target() const { return {to_, column_}; }
  __device__ void write(const BoxChunk<T>& chunk, const Target& at) const {
    write_chunk(chunk, at.to, part_.spread(part_.to_stride, at.column), part_.chunk);
  }
  __device__ void advance() {
    column_ += column_step_;
    from_ += from_step_;
    to_ += to_step_;
    if (column_ < part_.width) return;
    column_ -= part_.width;
    from_ += part_.from_stride - part_.width;
    to_ += part_.to_stride - part_.width;
  }

 private:
  BoxPart<T> part_;
  const T* from_;
  T* to_;
  std::int64_t column_, column_step_, from_step_, to_step_;
};

/// The tables: what came with the launch is read where it came, most of it by few blocks.
struct BoxTables {
  std::int64_t count, chunks;
  int num_sources;
  const std::int64_t* words;
  std::byte* const* arrays;

  template <class M>
  __device__ explicit BoxTables(const M& moves)
      : count(moves.count),
        chunks(moves.chunks),
        num_sources(moves.num_sources),
        words(moves.words_there != nullptr ? moves.words_there : moves.words),
        arrays(moves.arrays_there != nullptr ? moves.arrays_there : moves.arrays) {}

  __device__ const std::int64_t* move(std::int64_t m) const {
    return words + m * BoxMoves::kMoveWords;
  }
  /// The last move in [low, high) that begins no later than chunk `at`. Often it is the first.
  __device__ std::int64_t move_of(std::int64_t at, std::int64_t low, std::int64_t high) const {
    if (at < end_of(low)) return low;
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      (move(middle)[BoxMoves::kBegin] <= at ? low : high) = middle;
    }
    return low;
  }
  /// The same of all: looked for first where it is when all moves have as many chunks.
  __device__ std::int64_t move_of(std::int64_t at) const {
    const std::int64_t guess = quotient(at * count, chunks);
    if (move(guess)[BoxMoves::kBegin] > at) return move_of(at, 0, guess);
    return at < end_of(guess) ? guess : move_of(at, guess, count);
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
  /// Whether each `step` chunks on from `at` to `after` are neighbours in one move. `last`: what
  /// move_of() found for chunk `at`.
  __device__ bool are_in_step(std::int64_t last, std::int64_t at, std::int64_t after,
                              std::int64_t step) const {
    if (after > end_of(last)) return false;
    const std::int64_t* found = move(last);
    const std::int64_t together = found[BoxMoves::kTogether], begin = found[BoxMoves::kBegin];
    if (together == 1) return true;
    const std::int64_t rounds = found[BoxMoves::kChunks] / BoxMoves::kTurn;
    return (at - begin) % step == 0 && (after - at) % step == 0 &&
           after - begin <= rounds * BoxMoves::kTurn * together;
  }
  /// `shift`: log2 of the elements in a T.
  template <class T>
  __device__ BoxPart<T> part(const std::int64_t* move, std::int64_t cut, std::int64_t target,
                             int shift = 0) const {
    const std::int64_t* of = words + count * BoxMoves::kMoveWords +
                             (move[BoxMoves::kFirstCut] + cut) * BoxMoves::kCutWords;
    std::byte* const to = arrays[num_sources + move[BoxMoves::kFirstTarget] + target];
    const std::int64_t width = move[BoxMoves::kRowElements], chunk = move[BoxMoves::kChunk];
    return {.from = reinterpret_cast<const T*>(arrays[of[0]]) + (of[1] >> shift),
            .to = reinterpret_cast<T*>(to) + (move[BoxMoves::kTo] >> shift),
            .from_stride = of[2] >> shift,
            .to_stride = move[BoxMoves::kToStride] >> shift,
            .width = width >> shift,
            .chunk = chunk >> shift,
            .is_of_line = move[BoxMoves::kRowChunks] * chunk != width};
  }
};

/// A block's chunks [first, after), of which each blockDim.x on from the first fall to one thread
/// each.
struct BoxRun {
  std::int64_t first, after;
  std::int64_t last;  // what move_of() found for the first
  bool is_in_step;    // such as are neighbours lie in one move

  /// What this thread has of the chunks from `at`, which becomes its number there, on.
  __device__ const std::int64_t* own(const BoxTables& tables, std::int64_t& at) const {
    if (is_in_step) {
      const std::int64_t* move = tables.move_at(last, at);
      at += threadIdx.x;
      return move;
    }
    at += threadIdx.x;
    return tables.move_at(tables.move_of(at, last, tables.count), at);
  }
};
/// f(run), at most kEach chunks a thread, which returns how far it came, until the block's are
/// done: those of whole runs, one after another in memory.
template <int kEach, class F>
__device__ void for_each_run(const BoxTables& tables, F&& f) {
  const std::int64_t step = kEach * static_cast<std::int64_t>(blockDim.x);
  const std::int64_t runs = quotient(tables.chunks + step - 1, step);
  std::int64_t end = quotient(runs * (blockIdx.x + 1), gridDim.x) * step;
  if (end > tables.chunks) end = tables.chunks;
  BoxRun run{.first = quotient(runs * blockIdx.x, gridDim.x) * step};
  run.last = tables.move_of(run.first);
  while (run.first < end) {
    run.after = run.first + step < end ? run.first + step : end;
    run.last = tables.move_of(run.first, run.last, tables.count);
    run.is_in_step = tables.are_in_step(run.last, run.first, run.after, blockDim.x);
    run.first = f(run, end);
  }
}

/// f(a, first chunk of the block's) for those of a run that have one for this thread.
template <int kEach, class F>
__device__ void for_each_own(const BoxRun& run, F&& f) {
  TSR_UNROLL
  for (int a = 0; a < kEach; ++a) {
    const std::int64_t at = run.first + a * static_cast<std::int64_t>(blockDim.x);
    if (at + threadIdx.x < run.after) f(a, at);
  }
}

}  // namespace tessera::kernels::TSR_CUDA
