// Boxes that go from some arrays into others, in one launch: each device thread takes chunks, which
// count on from one move to the next, and folds a chunk's cuts in order.
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/box_moves.h"
#include "kernels/box_moves_checks.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/map.h"
#include "kernels/fold_functions.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

constexpr std::size_t kMostArrays = 128;  // pointers, and
constexpr std::size_t kMostWords = 320;   // words of tables, that travel with the launch

/// All that a launch needs: its arguments end at 4 KiB.
struct Moves {
  std::int64_t count = 0;
  std::int64_t chunks = 0;
  const std::int64_t* words_there = nullptr;  // in the device's memory; null: they are `words`
  std::byte* const* arrays_there = nullptr;   // likewise
  int num_sources = 0;
  Fold how = {};
  std::int64_t words[kMostWords] = {};  // of the moves, then of the cuts
  std::byte* arrays[kMostArrays] = {};  // the sources, then the targets
};
static_assert(sizeof(Moves) <= 4000);

/// Where a chunk comes from and goes to.
struct Place {
  const std::int64_t* move;
  const std::int64_t* cuts;
  std::byte* const* arrays;
  std::byte* const* targets;
  std::int64_t row, column;

  __device__ std::int64_t word(BoxMoves::Word which) const { return move[which]; }
  template <class T>
  __device__ const T* source(std::int64_t c) const {
    const std::int64_t* cut = cuts + c * BoxMoves::kCutWords;
    return reinterpret_cast<const T*>(arrays[cut[0]]) + cut[1] + row * cut[2] + column;
  }
  template <class T>
  __device__ T* target(std::int64_t t) const {
    return reinterpret_cast<T*>(targets[t]) + move[BoxMoves::kTo] +
           row * move[BoxMoves::kToStride] + column;
  }
};

/// f(place) for every chunk.
template <class F>
__device__ void for_each_chunk(const Moves& moves, F&& f) {
  const std::int64_t* words = moves.words_there != nullptr ? moves.words_there : moves.words;
  std::byte* const* arrays = moves.arrays_there != nullptr ? moves.arrays_there : moves.arrays;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; at < moves.chunks; at += step) {
    std::int64_t low = 0, high = moves.count;  // the move is in [low, high)
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      (words[middle * BoxMoves::kMoveWords + BoxMoves::kBegin] <= at ? low : high) = middle;
    }
    const std::int64_t* move = words + low * BoxMoves::kMoveWords;
    const std::int64_t chunk = at - move[BoxMoves::kBegin];
    const std::int64_t in_row = move[BoxMoves::kRowElements] / move[BoxMoves::kChunk];
    // Words of 32 bits divide several times faster.
    const bool is_small = moves.chunks <= std::numeric_limits<std::uint32_t>::max();
    const std::int64_t row =
        is_small ? static_cast<std::uint32_t>(chunk) / static_cast<std::uint32_t>(in_row)
                 : chunk / in_row;
    const std::int64_t* cuts = words + moves.count * BoxMoves::kMoveWords;
    f(Place{move, cuts + move[BoxMoves::kFirstCut] * BoxMoves::kCutWords, arrays,
            arrays + moves.num_sources + move[BoxMoves::kFirstTarget], row,
            (chunk - row * in_row) * move[BoxMoves::kChunk]});
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

template <class T>
__global__ void copy_boxes(const __grid_constant__ Moves moves) {
  for_each_chunk(moves, [&](const Place& place) {
    const std::int64_t count = place.word(BoxMoves::kChunk);
    const Chunk<T> chunk = read_chunk(place.source<T>(0), count);
    for (std::int64_t t = 0; t < place.word(BoxMoves::kNumTargets); ++t) {
      write_chunk(chunk, place.target<T>(t), count);
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

template <class E>
__global__ void fold_boxes(const __grid_constant__ Moves moves) {
  using T = typename E::T;
  using Acc = typename E::Acc;
  constexpr int kMost = Chunk<T>::kMost;
  for_each_chunk(moves, [&](const Place& place) {
    const std::int64_t count = place.word(BoxMoves::kChunk);
    Acc sums[kMost];
    for (std::int64_t c = 0; c < place.word(BoxMoves::kNumCuts); ++c) {
      const Chunk<T> chunk = read_chunk(place.source<T>(c), count);
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
    for (std::int64_t t = 0; t < place.word(BoxMoves::kNumTargets); ++t) {
      write_chunk(result, place.target<T>(t), count);
    }
  });
}

cudaError_t launch_copy(const Moves& moves, std::int64_t element_bytes, cudaStream_t stream) {
  const Grid grid = grid_for(moves.chunks);
  switch (element_bytes) {
    case 8:
      return launch<copy_boxes<std::uint64_t>>(grid, stream, moves);
    case 4:
      return launch<copy_boxes<std::uint32_t>>(grid, stream, moves);
    case 2:
      return launch<copy_boxes<std::uint16_t>>(grid, stream, moves);
    default:
      return launch<copy_boxes<std::uint8_t>>(grid, stream, moves);
  }
}

/// Tables and pointers that no launch could carry, in the device's memory.
Array send_ahead(KernelContext& ctx, const BoxMoves& moves, Moves& all,
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
  Moves all;
  all.count = moves.num_moves();
  all.chunks = moves.num_chunks();
  all.num_sources = static_cast<int>(sources.size());
  all.how = how.value_or(Fold{});
  Array kept;
  const bool carries_arrays = arrays.size() <= kMostArrays;
  const bool carries_words = moves.moves().size() + moves.cuts().size() <= kMostWords;
  if (carries_arrays) std::copy(arrays.begin(), arrays.end(), all.arrays);
  if (carries_words) {
    std::copy(moves.cuts().begin(), moves.cuts().end(),
              std::copy(moves.moves().begin(), moves.moves().end(), all.words));
  } else if (carries_arrays) {
    all.words_there = moves.resident(ctx, stream);
  }
  if (!carries_arrays || (!carries_words && all.words_there == nullptr)) {
    kept = send_ahead(ctx, moves, all, arrays, stream);
  }
  const cudaStream_t handle = static_cast<CudaStream&>(stream).handle();
  cudaError_t error = cudaSuccess;
  if (!moves.folds() && all.how.divisor == 1) {
    error = launch_copy(all, moves.element_bytes(), handle);
  } else {
    folds::with_element(dtype, [&]<class E>(E) {
      error = launch<fold_boxes<E>>(grid_for(all.chunks), handle, all);
    });
  }
  check(error, *ctx.device, "move_boxes");
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
