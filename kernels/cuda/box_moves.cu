// Boxes that go from some arrays into others, in one launch. Chunks count on from one move to the
// next. A block takes kAhead chunks for each of its threads, neighbours to neighbouring threads,
// and a thread reads all of its own before it writes the first.
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/box_moves.h"
#include "kernels/box_moves_checks.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/map.h"
#include "kernels/cuda/quotient.h"
#include "kernels/fold_functions.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

#ifdef __CUDACC__
constexpr int kBlock = 256;
constexpr std::int64_t kMostBlocks = std::int64_t{1} << 20;
#else
constexpr int kBlock = 32;
constexpr std::int64_t kMostBlocks = 3;
#endif

/// All that a launch needs: pointers and words of tables travel with it.
template <std::size_t kWords, std::size_t kArrays>
struct Moves {
  static constexpr std::size_t kMostWords = kWords, kMostArrays = kArrays;
  std::int64_t count;
  std::int64_t chunks;
  const std::int64_t* words_there;  // in the device's memory; null: they are `words`
  std::byte* const* arrays_there;   // likewise
  int num_sources;
  Fold how;
  std::int64_t words[kWords];  // of the moves, then of the cuts
  std::byte* arrays[kArrays];  // the sources, then the targets
};
/// What a collective of a few tensors has, and what a bucket of a hundred has: a launch takes the
/// longer, the more it carries.
using FewMoves = Moves<320, 128>;
using ManyMoves = Moves<1664, 256>;

constexpr int kAhead = 4;

/// A chunk's move, and where it lies in that.
struct Place {
  const std::int64_t* move;
  std::int64_t row, column;

  __device__ std::int64_t word(BoxMoves::Word which) const { return move[which]; }
  /// Whether it goes on from one row to the next.
  __device__ bool is_of_line() const {
    return word(BoxMoves::kRowChunks) * word(BoxMoves::kChunk) != word(BoxMoves::kRowElements);
  }
};

template <class M>
struct Tables {
  const M& moves;
  const std::int64_t* words;
  std::byte* const* arrays;

  __device__ explicit Tables(const M& all)
      : moves(all),
        words(all.words_there != nullptr ? all.words_there : all.words),
        arrays(all.arrays_there != nullptr ? all.arrays_there : all.arrays) {}

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
  /// `last`: what move_of() found.
  __device__ Place place(std::int64_t at, std::int64_t last) const {
    const std::int64_t* found = move(last);
    std::int64_t chunk = at - found[BoxMoves::kBegin];
    const std::int64_t together = found[BoxMoves::kTogether];
    if (together > 1) {
      // A turn of each, and what is left of all after whole turns.
      const std::int64_t turn = BoxMoves::kTurn, chunks = found[BoxMoves::kChunks];
      const std::int64_t whole = chunks / turn * turn;
      std::int64_t number;
      if (chunk < whole * together) {
        const std::int64_t round = quotient(chunk / turn, together);
        number = chunk / turn - round * together;
        chunk = round * turn + chunk % turn;
      } else {
        const std::int64_t rest = chunk - whole * together;
        number = quotient(rest, chunks - whole);
        chunk = whole + rest - number * (chunks - whole);
      }
      found = move(last - together + 1 + number);
    }
    const std::int64_t row_chunks = found[BoxMoves::kRowChunks];
    const std::int64_t row = row_chunks == 1 ? chunk : quotient(chunk, row_chunks);
    return {found, row, (chunk - row * row_chunks) * found[BoxMoves::kChunk]};
  }
  template <class T>
  __device__ const T* source(const std::int64_t* cut) const {
    return reinterpret_cast<const T*>(arrays[cut[0]]) + cut[1];
  }
  __device__ const std::int64_t* cut(const Place& place, std::int64_t c) const {
    return move(moves.count) + (place.word(BoxMoves::kFirstCut) + c) * BoxMoves::kCutWords;
  }
  template <class T>
  __device__ T* target(const Place& place, std::int64_t t) const {
    T* const first =
        reinterpret_cast<T*>(arrays[moves.num_sources + place.word(BoxMoves::kFirstTarget) + t]);
    return first + place.word(BoxMoves::kTo);
  }
};

/// f(first chunk, place_at) for each of the block's runs of kEach chunks a thread; place_at(chunk)
/// is a Place.
template <int kEach, class M, class F>
__device__ void for_each_run(const Tables<M>& tables, F&& f) {
  const std::int64_t run = std::int64_t{kEach} * blockDim.x, chunks = tables.moves.chunks;
  for (std::int64_t at = blockIdx.x * run; at < chunks; at += gridDim.x * run) {
    const std::int64_t end = at + run < chunks ? at + run : chunks;
    const std::int64_t low = tables.move_of(at, 0, tables.moves.count);
    const std::int64_t high = tables.move_of(end - 1, low, tables.moves.count) + 1;
    f(at,
      [&](std::int64_t chunk) { return tables.place(chunk, tables.move_of(chunk, low, high)); });
  }
}

/// The elements of a chunk, as many as there can be.
template <class T>
struct Chunk {
  static constexpr int kMost = BoxMoves::kChunkBytes / static_cast<int>(sizeof(T));
  T values[kMost];
};
struct alignas(BoxMoves::kChunkBytes) Vector {
  std::byte bytes[BoxMoves::kChunkBytes];
};

template <class T>
__device__ bool is_whole(const T* at, std::int64_t count) {
  return count == Chunk<T>::kMost && reinterpret_cast<std::uintptr_t>(at) % sizeof(Vector) == 0;
}
/// `count` elements, in one read where they fill a vector.
template <class T>
__device__ Chunk<T> read_chunk(const T* from, std::int64_t count) {
  if (is_whole(from, count)) {
    return std::bit_cast<Chunk<T>>(*reinterpret_cast<const Vector*>(from));
  }
  Chunk<T> chunk;
  for (int i = 0; i < Chunk<T>::kMost; ++i) chunk.values[i] = i < count ? from[i] : T{};
  return chunk;
}
template <class T>
__device__ void write_chunk(const Chunk<T>& chunk, T* to, std::int64_t count) {
  if (is_whole(to, count)) {
    *reinterpret_cast<Vector*>(to) = std::bit_cast<Vector>(chunk);
    return;
  }
  for (int i = 0; i < Chunk<T>::kMost; ++i) {
    if (i < count) to[i] = chunk.values[i];
  }
}

/// f(i, at) for the elements of a chunk of a line: where they lie in rows that are `stride` apart.
template <class T, class F>
__device__ void for_each_of_line(const Place& place, std::int64_t stride, F&& f) {
  const std::int64_t width = place.word(BoxMoves::kRowElements);
  std::int64_t row = width == 1 ? place.column : quotient(place.column, width);
  std::int64_t column = place.column - row * width;
  TSR_UNROLL
  for (int i = 0; i < Chunk<T>::kMost; ++i) {
    if (i < place.word(BoxMoves::kChunk)) f(i, row * stride + column);
    if (++column < width) continue;
    column = 0;
    ++row;
  }
}

template <class T>
__device__ Chunk<T> read_cut(const Place& place, const T* from, std::int64_t stride) {
  const std::int64_t count = place.word(BoxMoves::kChunk);
  if (!place.is_of_line() || stride == place.word(BoxMoves::kRowElements)) {
    return read_chunk(from + place.row * stride + place.column, count);
  }
  Chunk<T> chunk;
  for_each_of_line<T>(place, stride, [&](int i, std::int64_t at) { chunk.values[i] = from[at]; });
  return chunk;
}
template <class T>
__device__ void write_rows(const Place& place, const Chunk<T>& chunk, T* to) {
  const std::int64_t stride = place.word(BoxMoves::kToStride);
  if (!place.is_of_line() || stride == place.word(BoxMoves::kRowElements)) {
    return write_chunk(chunk, to + place.row * stride + place.column, place.word(BoxMoves::kChunk));
  }
  for_each_of_line<T>(place, stride, [&](int i, std::int64_t at) { to[at] = chunk.values[i]; });
}
template <class T, class M>
__device__ void write_box(const Tables<M>& tables, const Place& place, const Chunk<T>& chunk) {
  for (std::int64_t t = 0; t < place.word(BoxMoves::kNumTargets); ++t) {
    write_rows(place, chunk, tables.template target<T>(place, t));
  }
}

template <class T, class M>
__global__ void __launch_bounds__(kBlock) copy_boxes(const __grid_constant__ M moves) {
  const Tables<M> tables(moves);
  for_each_run<kAhead>(tables, [&](std::int64_t first, auto&& place_at) {
    Place places[kAhead];
    Chunk<T> chunks[kAhead];
    TSR_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      const std::int64_t at = first + a * blockDim.x + threadIdx.x;
      if (at >= moves.chunks) continue;
      places[a] = place_at(at);
      const std::int64_t* cut = tables.cut(places[a], 0);
      chunks[a] = read_cut(places[a], tables.template source<T>(cut), cut[2]);
    }
    TSR_UNROLL
    for (int a = 0; a < kAhead; ++a) {
      if (first + a * blockDim.x + threadIdx.x >= moves.chunks) continue;
      write_box(tables, places[a], chunks[a]);
    }
  });
}

template <class Acc>
__device__ Acc combined(ReduceOp op, Acc a, Acc b) {
  switch (op) {
    case ReduceOp::kMax:
      return folds::Max::of(a, b);
    case ReduceOp::kMin:
      return folds::Min::of(a, b);
    case ReduceOp::kProd:
      return folds::Prod::of(a, b);
    default:
      return folds::Sum::of(a, b);
  }
}

template <class E, class M>
__global__ void __launch_bounds__(kBlock) fold_boxes(const __grid_constant__ M moves) {
  using T = typename E::T;
  using Acc = typename E::Acc;
  constexpr int kMost = Chunk<T>::kMost;
  const Tables<M> tables(moves);
  for_each_run<1>(tables, [&](std::int64_t first, auto&& place_at) {
    if (first + threadIdx.x >= moves.chunks) return;
    const Place place = place_at(first + threadIdx.x);
    Acc sums[kMost];
    for (std::int64_t c = 0; c < place.word(BoxMoves::kNumCuts); ++c) {
      const std::int64_t* cut = tables.cut(place, c);
      const Chunk<T> chunk = read_cut(place, tables.template source<T>(cut), cut[2]);
      for (int i = 0; i < kMost; ++i) {
        const Acc value = E::widen(chunk.values[i]);
        sums[i] = c == 0 ? value : combined(moves.how.op, sums[i], value);
      }
    }
    Chunk<T> result;
    for (int i = 0; i < kMost; ++i) {
      if constexpr (std::is_floating_point_v<Acc>) {
        if (moves.how.divisor != 1) sums[i] /= static_cast<Acc>(moves.how.divisor);
      }
      result.values[i] = E::narrow(sums[i]);
    }
    write_box(tables, place, result);
  });
}

/// `each`: chunks of a thread.
Grid grid_of(std::int64_t chunks, int each) {
  const std::int64_t run = std::int64_t{each} * kBlock;
  return {.blocks = static_cast<unsigned>(std::min((chunks + run - 1) / run, kMostBlocks)),
          .threads = kBlock};
}

template <class M>
cudaError_t launch_moves(const M& moves, const BoxMoves& of, DType dtype, cudaStream_t stream) {
  if (of.folds() || moves.how.divisor != 1) {
    cudaError_t error = cudaSuccess;
    folds::with_element(dtype, [&]<class E>(E) {
      error = launch<fold_boxes<E, M>>(grid_of(moves.chunks, 1), stream, moves);
    });
    return error;
  }
  const Grid grid = grid_of(moves.chunks, kAhead);
  switch (of.element_bytes()) {
    case 8:
      return launch<copy_boxes<std::uint64_t, M>>(grid, stream, moves);
    case 4:
      return launch<copy_boxes<std::uint32_t, M>>(grid, stream, moves);
    case 2:
      return launch<copy_boxes<std::uint16_t, M>>(grid, stream, moves);
    default:
      return launch<copy_boxes<std::uint8_t, M>>(grid, stream, moves);
  }
}

/// Tables and pointers that no launch could carry, in the device's memory.
Array send_ahead(KernelContext& ctx, const BoxMoves& moves, FewMoves& all,
                 std::span<std::byte* const> arrays, Stream& stream) {
  static_assert(sizeof(std::byte*) == sizeof(std::int64_t));
  std::vector<std::int64_t> words = moves.moves();
  words.insert(words.end(), moves.cuts().begin(), moves.cuts().end());
  const std::size_t tables = words.size();
  for (std::byte* array : arrays) words.push_back(reinterpret_cast<std::intptr_t>(array));
  const Array there = Array::empty({std::ssize(words)}, DType::kI64, ctx.allocator);
  Device& device = *ctx.device;
  // What the block held before belongs to the compute stream.
  device.wait(stream, device.record(device.compute()));
  device.upload(there.bytes(), words.data(), words.size() * sizeof(words[0]), stream);
  all.words_there = device_data<std::int64_t>(there);
  all.arrays_there = reinterpret_cast<std::byte* const*>(all.words_there + tables);
  return there;
}

template <class M>
bool carries_words(const BoxMoves& moves) {
  return moves.moves().size() + moves.cuts().size() <= M::kMostWords;
}

/// All but the words and the pointers.
template <class M>
void begin_launch(M& all, const BoxMoves& moves, std::size_t num_sources,
                  const std::optional<Fold>& how) {
  all.count = moves.num_moves();
  all.chunks = moves.num_chunks();
  all.words_there = nullptr;
  all.arrays_there = nullptr;
  all.num_sources = static_cast<int>(num_sources);
  all.how = how.value_or(Fold{});
}
template <class M>
void carry_words(M& all, const BoxMoves& moves) {
  std::copy(moves.cuts().begin(), moves.cuts().end(),
            std::copy(moves.moves().begin(), moves.moves().end(), all.words));
}

}  // namespace

Array move_boxes(KernelContext& ctx, const BoxMoves& moves,
                 std::span<const std::byte* const> sources, std::span<std::byte* const> targets,
                 DType dtype, const std::optional<Fold>& how, Stream& stream) {
  check_move_boxes(moves, {std::ssize(sources), std::ssize(targets), dtype}, how);
  if (moves.is_empty()) return {};
  const Current current(*ctx.device);
  std::vector<std::byte*> arrays;
  arrays.reserve(sources.size() + targets.size());
  for (const std::byte* source : sources) arrays.push_back(const_cast<std::byte*>(source));
  arrays.insert(arrays.end(), targets.begin(), targets.end());
  const cudaStream_t handle = static_cast<CudaStream&>(stream).handle();
  const auto launched = [&](const auto& all) {
    check(launch_moves(all, moves, dtype, handle), *ctx.device, "move_boxes");
  };

  const bool few_arrays = arrays.size() <= FewMoves::kMostArrays;
  const std::int64_t* const resident =
      few_arrays && !carries_words<FewMoves>(moves) ? moves.resident(ctx, stream) : nullptr;
  if (resident == nullptr && !(few_arrays && carries_words<FewMoves>(moves)) &&
      arrays.size() <= ManyMoves::kMostArrays && carries_words<ManyMoves>(moves)) {
    ManyMoves all;
    begin_launch(all, moves, sources.size(), how);
    std::copy(arrays.begin(), arrays.end(), all.arrays);
    carry_words(all, moves);
    launched(all);
    return {};
  }
  FewMoves all;
  begin_launch(all, moves, sources.size(), how);
  Array kept;
  if (few_arrays) std::copy(arrays.begin(), arrays.end(), all.arrays);
  if (few_arrays && carries_words<FewMoves>(moves)) {
    carry_words(all, moves);
  } else if (resident != nullptr) {
    all.words_there = resident;
  } else {
    kept = send_ahead(ctx, moves, all, arrays, stream);
  }
  launched(all);
  return kept;
}

namespace {

template <class T>
__global__ void fill_elements(std::byte* out, std::int64_t count, T value) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < count; i += step) reinterpret_cast<T*>(out)[i] = value;
}

}  // namespace

void fill_identity(KernelContext& ctx, ReduceOp op, const Array& out) {
  if (out.num_elements() == 0) return;
  const Current current(*ctx.device);
  folds::with_element(out.dtype(), [&]<class E>(E) {
    const auto value = E::narrow(folds::identity_of<typename E::Acc>(op));
    check(launch<fill_elements<typename E::T>>(grid_for(out.num_elements()), stream_of(ctx),
                                               out.bytes(), out.num_elements(), value),
          *ctx.device, "fill_identity");
  });
}

}  // namespace tessera::kernels::TSR_CUDA
