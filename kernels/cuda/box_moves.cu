// Boxes that go from some arrays into others, in one launch. A thread reads all its chunks of a run
// before it writes the first, and where runs lie in one move, steps from chunk to chunk.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "kernels/box_moves.h"
#include "kernels/box_moves_checks.h"
#include "kernels/cuda/box_chunks.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/map.h"
#include "kernels/fold_functions.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

#ifdef __CUDACC__
constexpr int kBlock = 256;
constexpr std::int64_t kMostBlocks = 1056;  // 8 for each multiprocessor of the largest card
#else
constexpr int kBlock = 32;
constexpr std::int64_t kMostBlocks = 3;
#endif

/// Chunks of a thread that are read before the first is written: as many as registers hold.
template <class T>
constexpr int kAhead = sizeof(T) >= 4 ? 4 : static_cast<int>(sizeof(T));

/// Whole runs of one move of one target: what of it lies in [run.first, end), by runs.
template <class T, int kEach>
__device__ std::int64_t copy_along(const BoxTables& tables, const BoxRun& run, std::int64_t end,
                                   int shift) {
  const std::int64_t* move = tables.move(run.last);
  const std::int64_t move_end = tables.end_of(run.last), step = run.after - run.first;
  const std::int64_t runs = quotient((move_end < end ? move_end : end) - run.first, step);
  const std::int64_t number = run.first - move[BoxMoves::kBegin] + threadIdx.x;
  ChunkWalk<T> walk(tables.part<T>(move, 0, 0, shift), number, blockDim.x);
  for (std::int64_t i = 0; i < runs; ++i) {
    BoxChunk<T> chunks[kEach];
    typename ChunkWalk<T>::Target targets[kEach];
    TSR_UNROLL
    for (int a = 0; a < kEach; ++a) {
      chunks[a] = walk.read();
      targets[a] = walk.target();
      walk.advance();
    }
    TSR_UNROLL
    for (int a = 0; a < kEach; ++a) walk.write(chunks[a], targets[a]);
  }
  return run.first + runs * step;
}

/// Moves that go together in copy_turns().
constexpr int kMostTogether = 32;

/// Whole turns of neighbours of one target each: what of them lies in [run.first, end), by runs.
/// Inlined it would take registers from the loop along a move.
template <class T, int kEach>
[[gnu::noinline]] __device__ std::int64_t copy_turns(const BoxTables& tables, const BoxRun& run,
                                                     std::int64_t end, int shift,
                                                     BoxPart<T>* parts) {
  const std::int64_t* move = tables.move(run.last);
  const auto together = static_cast<unsigned>(move[BoxMoves::kTogether]);
  __syncthreads();  // all are done with the parts of another group
  if (threadIdx.x < together) {
    parts[threadIdx.x] =
        tables.part<T>(tables.move(run.last - together + 1 + threadIdx.x), 0, 0, shift);
  }
  __syncthreads();

  const std::int64_t turn = BoxMoves::kTurn, rounds = move[BoxMoves::kChunks] / turn;
  const std::int64_t turns_end = move[BoxMoves::kBegin] + rounds * turn * together;
  const std::int64_t step = run.after - run.first;
  const std::int64_t runs = quotient((turns_end < end ? turns_end : end) - run.first, step);
  const std::int64_t first = run.first - move[BoxMoves::kBegin];
  std::int64_t round = quotient(first / turn, together);
  auto nth = static_cast<unsigned>(first / turn - round * together);
  auto within = static_cast<int>(first % turn);
  for (std::int64_t i = 0; i < runs; ++i) {
    BoxChunk<T> chunks[kEach];
    T* targets[kEach];
    Spread spreads[kEach];
    TSR_UNROLL
    for (int a = 0; a < kEach; ++a) {
      const BoxPart<T>& part = parts[nth];
      const ChunkSpot spot = part.spot(round * turn + within + threadIdx.x);
      chunks[a] = part.read(spot);
      targets[a] = part.to + spot.row * part.to_stride + spot.column;
      spreads[a] = part.spread(part.to_stride, spot.column);
      within += static_cast<int>(blockDim.x);
      if (within < turn) continue;
      within = 0;
      if (++nth < together) continue;
      nth = 0;
      ++round;
    }
    const std::int64_t count = parts[0].chunk;
    TSR_UNROLL
    for (int a = 0; a < kEach; ++a) write_chunk(chunks[a], targets[a], spreads[a], count);
  }
  return run.first + runs * step;
}

template <class T>
__device__ void write_box(const BoxTables& tables, const std::int64_t* move,
                          const BoxChunk<T>& chunk, const ChunkSpot& spot, int shift = 0) {
  for (std::int64_t t = 0; t < move[BoxMoves::kNumTargets]; ++t) {
    tables.part<T>(move, 0, t, shift).write(chunk, spot);
  }
}
/// Any other run.
template <class T, int kEach>
[[gnu::noinline]] __device__ void copy_apart(const BoxTables& tables, const BoxRun& run,
                                             int shift) {
  BoxChunk<T> chunks[kEach];
  ChunkSpot spots[kEach];
  const std::int64_t* moves[kEach];
  for_each_own<kEach>(run, [&](int a, std::int64_t at) {
    moves[a] = run.own(tables, at);
    const BoxPart<T> part = tables.part<T>(moves[a], 0, 0, shift);
    spots[a] = part.spot(at);
    chunks[a] = part.read(spots[a]);
  });
  for_each_own<kEach>(
      run, [&](int a, std::int64_t) { write_box(tables, moves[a], chunks[a], spots[a], shift); });
}

/// `shift`: log2 of the elements in a T.
template <class T, class M>
__global__ void __launch_bounds__(kBlock, 3)
    copy_boxes(const __grid_constant__ M moves, int shift) {
  if (moves.is_broken_off()) return;
  constexpr int kEach = kAhead<T>;
  const BoxTables tables(moves);
  TSR_SHARED(BoxPart<T>, parts, [kMostTogether]);
  for_each_run<kEach>(tables, [&](const BoxRun& run, std::int64_t end) {
    const std::int64_t* move = tables.move(run.last);
    const std::int64_t together = move[BoxMoves::kTogether];
    const bool is_whole = run.after - run.first == kEach * static_cast<std::int64_t>(blockDim.x);
    if (is_whole && run.is_in_step && move[BoxMoves::kNumTargets] == 1) {
      if (together == 1) return copy_along<T, kEach>(tables, run, end, shift);
      if (together <= kMostTogether) {
        return copy_turns<T, kEach>(tables, run, end, shift, parts);
      }
    }
    copy_apart<T, kEach>(tables, run, shift);
    return run.after;
  });
}

template <class E, class M>
__global__ void __launch_bounds__(kBlock) fold_boxes(const __grid_constant__ M moves) {
  if (moves.is_broken_off()) return;
  using T = typename E::T;
  using Acc = typename E::Acc;
  constexpr int kMost = BoxChunk<T>::kMost;
  const BoxTables tables(moves);
  for_each_run<1>(tables, [&](const BoxRun& run, std::int64_t) {
    std::int64_t at = run.first;
    if (at + threadIdx.x >= run.after) return run.after;
    const std::int64_t* move = run.own(tables, at);
    const ChunkSpot spot = tables.part<T>(move, 0, 0).spot(at);
    Acc sums[kMost];
    for (std::int64_t c = 0; c < move[BoxMoves::kNumCuts]; ++c) {
      const BoxChunk<T> chunk = tables.part<T>(move, c, 0).read(spot);
      for (int i = 0; i < kMost; ++i) {
        const Acc value = E::widen(chunk.values[i]);
        sums[i] = c == 0 ? value : folds::combined(moves.how.op, sums[i], value);
      }
    }
    BoxChunk<T> result;
    for (int i = 0; i < kMost; ++i) {
      if constexpr (std::is_floating_point_v<Acc>) {
        if (moves.how.divisor != 1) sums[i] /= static_cast<Acc>(moves.how.divisor);
      }
      result.values[i] = E::narrow(sums[i]);
    }
    write_box(tables, move, result, spot);
    return run.after;
  });
}

/// `each`: chunks of a thread.
Grid grid_of(std::int64_t chunks, int each) {
  const std::int64_t run = std::int64_t{each} * kBlock;
  return {.blocks = static_cast<unsigned>(std::min((chunks + run - 1) / run, kMostBlocks)),
          .threads = kBlock};
}

/// Whether all chunks are vectors, and none is of a line with gaps.
bool are_vectors(const BoxMoves& moves, std::span<std::byte* const> arrays) {
  std::uintptr_t all = 0;
  for (const std::byte* array : arrays) all |= reinterpret_cast<std::uintptr_t>(array);
  if (all % sizeof(ChunkVector) != 0) return false;
  for (std::size_t at = 0; at < moves.moves().size(); at += BoxMoves::kMoveWords) {
    const std::int64_t* move = moves.moves().data() + at;
    if (move[BoxMoves::kChunk] * moves.element_bytes() != sizeof(ChunkVector) ||
        move[BoxMoves::kRowChunks] * move[BoxMoves::kChunk] != move[BoxMoves::kRowElements]) {
      return false;
    }
  }
  return true;
}

template <class M>
cudaError_t launch_moves(const M& moves, const BoxMoves& of, DType dtype, bool are_vectors,
                         cudaStream_t stream) {
  if (of.folds() || moves.how.divisor != 1) {
    cudaError_t error = cudaSuccess;
    folds::with_element(dtype, [&]<class E>(E) {
      error = launch<fold_boxes<E, M>>(grid_of(moves.chunks, 1), stream, moves);
    });
    return error;
  }
  const auto copy_as = [&]<class T>(T) {
    const auto shift = std::countr_zero(sizeof(T) / static_cast<std::size_t>(of.element_bytes()));
    return launch<copy_boxes<T, M>>(grid_of(moves.chunks, kAhead<T>), stream, moves, shift);
  };
  if (are_vectors) return copy_as(ChunkVector{});
  switch (of.element_bytes()) {
    case 8:
      return copy_as(std::uint64_t{});
    case 4:
      return copy_as(std::uint32_t{});
    case 2:
      return copy_as(std::uint16_t{});
    default:
      return copy_as(std::uint8_t{});
  }
}

/// BoxTables and pointers that no launch could carry, in the device's memory.
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
void begin_launch(M& all, const BoxMoves& moves, const MovedArrays& arrays,
                  const std::optional<Fold>& how) {
  all.count = moves.num_moves();
  all.chunks = moves.num_chunks();
  all.words_there = nullptr;
  all.arrays_there = nullptr;
  all.broken_off = arrays.broken_off;
  all.num_sources = static_cast<int>(arrays.sources.size());
  all.how = how.value_or(Fold{});
}
template <class M>
void carry_words(M& all, const BoxMoves& moves) {
  std::copy(moves.cuts().begin(), moves.cuts().end(),
            std::copy(moves.moves().begin(), moves.moves().end(), all.words));
}

}  // namespace

Array move_boxes(KernelContext& ctx, const BoxMoves& moves, const MovedArrays& moved,
                 const std::optional<Fold>& how, Stream& stream) {
  check_move_boxes(moves, moved, how);
  if (moves.is_empty()) return {};
  const Current current(*ctx.device);
  std::vector<std::byte*> arrays;
  arrays.reserve(moved.sources.size() + moved.targets.size());
  for (const std::byte* source : moved.sources) arrays.push_back(const_cast<std::byte*>(source));
  arrays.insert(arrays.end(), moved.targets.begin(), moved.targets.end());
  const cudaStream_t handle = static_cast<CudaStream&>(stream).handle();
  const auto launched = [&](const auto& all) {
    check(launch_moves(all, moves, moved.dtype, are_vectors(moves, arrays), handle), *ctx.device,
          "move_boxes");
  };

  const bool few_arrays = arrays.size() <= FewMoves::kMostArrays;
  const std::int64_t* const resident =
      few_arrays && !carries_words<FewMoves>(moves) ? moves.resident(ctx, stream) : nullptr;
  if (resident == nullptr && !(few_arrays && carries_words<FewMoves>(moves)) &&
      arrays.size() <= ManyMoves::kMostArrays && carries_words<ManyMoves>(moves)) {
    ManyMoves all;
    begin_launch(all, moves, moved, how);
    std::copy(arrays.begin(), arrays.end(), all.arrays);
    carry_words(all, moves);
    launched(all);
    return {};
  }
  FewMoves all;
  begin_launch(all, moves, moved, how);
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
