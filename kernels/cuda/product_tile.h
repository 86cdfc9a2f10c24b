// kernels/cuda/product_tile.h: products of matrices by a block of threads, one tile of the result
// at a time. Each thread sums some rows and columns of the tile, in vectors of neighbours. Factors
// are staged in shared memory, a slice of steps of the sum at a time; the next slice is on its way
// in registers while one is added.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/dtype_switch.h"
#include "kernels/product_plan.h"

namespace tessera::kernels::TSR_CUDA {

/// Elements that move by one access of memory.
template <class T, int kCount>
struct alignas(std::min<std::size_t>(16, kCount * sizeof(T))) Vector {
  T at[kCount];
};
template <class T>
using Four = Vector<T, 4>;

template <int kDownThreads, int kAcrossThreads, int kRowsEach, int kColsEach, int kDepth>
struct Tile {
  static constexpr int kDown = kDownThreads, kAcross = kAcrossThreads;
  static constexpr int kThreads = kDown * kAcross;
  static constexpr int kThreadRows = kRowsEach, kThreadCols = kColsEach;
  static constexpr int kRows = kDown * kRowsEach, kCols = kAcross * kColsEach;
  static constexpr int kSteps = kDepth;
  /// Neighbours of a thread; its vectors lie as far apart as those of all threads take.
  static constexpr int kRowVector = kRowsEach % 4 == 0 ? 4 : kRowsEach % 2 == 0 ? 2 : 1;
  static constexpr int kColVector = kColsEach % 4 == 0 ? 4 : kColsEach % 2 == 0 ? 2 : 1;
  /// Lines of one step, and four more: vectors stay aligned, and steps begin at other banks.
  static constexpr int kRowPitch = kRows + 4, kColPitch = kCols + 4;
  /// Two slices, of which one is read while the other is written.
  static constexpr int kSlice = kSteps * (kRowPitch + kColPitch), kStaged = 2 * kSlice;
  static_assert(kRows % 4 == 0 && kCols % 4 == 0 && kSteps % 4 == 0);

  __device__ static int row(int i) {
    const int thread = static_cast<int>(threadIdx.x) / kAcross;
    return (thread + i / kRowVector * kDown) * kRowVector + i % kRowVector;
  }
  __device__ static int col(int j) {
    const int thread = static_cast<int>(threadIdx.x) % kAcross;
    return (thread + j / kColVector * kAcross) * kColVector + j % kColVector;
  }
};

/// Lines that run along the depth: rows of the left factor, columns of the right one. What lies
/// beyond is 0. Strides in elements.
template <class T>
struct Factor {
  const T* data;
  std::int64_t lines, line_stride, depth, depth_stride;

  __device__ Factor from(std::int64_t line) const {
    return {data + line * line_stride, lines - line, line_stride, depth, depth_stride};
  }
  /// The same lines between two steps.
  __device__ Factor between(std::int64_t begin, std::int64_t end) const {
    return {data + begin * depth_stride, lines, line_stride, end - begin, depth_stride};
  }
};

/// Whether vectors of kCount may be read or written whose lines lie `stride` apart.
template <int kCount, class T>
__device__ bool is_aligned(const T* data, std::int64_t stride) {
  return stride % kCount == 0 &&
         reinterpret_cast<std::uintptr_t>(data) % alignof(Vector<T, kCount>) == 0;
}

/// Brings slices of kLines lines from memory to `staged`, element (step, line) at step · (kLines +
/// 4) + line: each thread some fours of neighbours in memory.
template <class T, int kLines, int kSteps, int kThreads>
class Stager {
 public:
  __device__ explicit Stager(const Factor<T>& from)
      : data_(from.data),
        depth_(from.depth),
        along_depth_(from.depth_stride <= from.line_stride),
        near_(along_depth_ ? from.depth_stride : from.line_stride),
        far_(along_depth_ ? from.line_stride : from.depth_stride),
        lines_(static_cast<int>(from.lines < kLines ? from.lines : kLines)) {
    by_vectors_ = near_ == 1 && is_aligned<4>(from.data, far_);
  }

  /// Steps [first, first + kSteps) into registers.
  __device__ void fetch(std::int64_t first) {
    const int steps = static_cast<int>(depth_ - first < kSteps ? depth_ - first : kSteps);
    const T* const slice = data_ + first * (along_depth_ ? near_ : far_);
    const int nears = along_depth_ ? steps : lines_, fars = along_depth_ ? lines_ : steps;
    TSR_UNROLL
    for (int i = 0; i < kEach; ++i) {
      held_[i] = {};
      const int four = static_cast<int>(threadIdx.x) + i * kThreads;
      if (kFours % kThreads != 0 && four >= kFours) continue;
      const int near = along_depth_ ? step_of(four) : line_of(four);
      const int far = along_depth_ ? line_of(four) : step_of(four);
      if (far >= fars) continue;
      const T* const data = slice + far * far_ + near * near_;
      if (by_vectors_ && near + 4 <= nears) {
        held_[i] = *reinterpret_cast<const Four<T>*>(data);
        continue;
      }
      TSR_UNROLL
      for (int e = 0; e < 4; ++e) {
        if (near + e < nears) held_[i].at[e] = data[e * near_];
      }
    }
  }

  template <class C>
  __device__ void put(C* staged) const {
    TSR_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const int four = static_cast<int>(threadIdx.x) + i * kThreads;
      if (kFours % kThreads != 0 && four >= kFours) continue;
      C* const to = staged + step_of(four) * kPitch + line_of(four);
      Four<C> values;
      TSR_UNROLL
      for (int e = 0; e < 4; ++e) values.at[e] = convert<C>(held_[i].at[e]);
      if (!along_depth_) {
        *reinterpret_cast<Four<C>*>(to) = values;
        continue;
      }
      TSR_UNROLL
      for (int e = 0; e < 4; ++e) to[e * kPitch] = values.at[e];
    }
  }

 private:
  static constexpr int kPitch = kLines + 4, kFours = kLines * kSteps / 4;
  static constexpr int kEach = (kFours + kThreads - 1) / kThreads;

  __device__ int line_of(int four) const {
    return along_depth_ ? four / (kSteps / 4) : four % (kLines / 4) * 4;
  }
  __device__ int step_of(int four) const {
    return along_depth_ ? four % (kSteps / 4) * 4 : four / (kLines / 4);
  }

  const T* data_;
  std::int64_t depth_;
  bool along_depth_, by_vectors_;
  std::int64_t near_, far_;  // strides of the neighbours in memory, and of what they form
  int lines_;                // of the tile
  Four<T> held_[kEach];
};

/// add(slice, first) for each slice of kSteps: fetch(first) brings it, put(slice) stages it. Slices
/// take turns, so that one barrier parts them; one more at the end frees what is staged.
template <int kSteps, class C, class Fetch, class Put, class Add>
__device__ void by_slices(C* staged, int slice_size, std::int64_t depth, const Fetch& fetch,
                          const Put& put, const Add& add) {
  if (depth <= 0) return;
  int slice = 0;
  fetch(std::int64_t{0});
  put(staged);
  __syncthreads();
  for (std::int64_t first = 0; first < depth; first += kSteps) {
    const bool has_next = first + kSteps < depth;
    if (has_next) fetch(first + kSteps);
    add(staged + slice * slice_size, first);
    slice ^= 1;
    if (has_next) put(staged + slice * slice_size);
    __syncthreads();
  }
}

/// values[i] = line_at(i) of a staged step.
template <int kVector, int kCount, class C, class LineAt>
__device__ void read_step(C (&values)[kCount], const C* step, const LineAt& line_at) {
  TSR_UNROLL
  for (int i = 0; i < kCount; i += kVector) {
    const auto lines = *reinterpret_cast<const Vector<C, kVector>*>(step + line_at(i));
    TSR_UNROLL
    for (int e = 0; e < kVector; ++e) values[i + e] = lines.at[e];
  }
}

/// sums[i][j] += Σ left[step][row] · right[step][col] over a slice, of those that take(i, step)
/// names.
template <class T, class C, class Take>
__device__ void add_steps(const C* left, const C* right, C (&sums)[T::kThreadRows][T::kThreadCols],
                          const Take& take) {
  TSR_UNROLL
  for (int step = 0; step < T::kSteps; ++step) {
    C rows[T::kThreadRows], cols[T::kThreadCols];
    read_step<T::kRowVector>(rows, left + step * T::kRowPitch, T::row);
    read_step<T::kColVector>(cols, right + step * T::kColPitch, T::col);
    TSR_UNROLL
    for (int i = 0; i < T::kThreadRows; ++i) {
      if (!take(i, step)) continue;
      TSR_UNROLL
      for (int j = 0; j < T::kThreadCols; ++j) sums[i][j] += rows[i] * cols[j];
    }
  }
}

struct TakeAll {
  __device__ bool operator()(int, int) const { return true; }
};

/// sums[i][j] += the products of the tile's rows of `left` and columns of `right`. `staged`: of
/// T::kStaged elements, shared, aligned to 16 bytes.
template <class T, class C, class Left, class Right>
__device__ void add_products(C* staged, const Factor<Left>& left, const Factor<Right>& right,
                             C (&sums)[T::kThreadRows][T::kThreadCols]) {
  constexpr int kRight = T::kSteps * T::kRowPitch;
  Stager<Left, T::kRows, T::kSteps, T::kThreads> rows(left);
  Stager<Right, T::kCols, T::kSteps, T::kThreads> cols(right);
  by_slices<T::kSteps>(
      staged, T::kSlice, left.depth,
      [&](std::int64_t first) {
        rows.fetch(first);
        cols.fetch(first);
      },
      [&](C* slice) {
        rows.put(slice);
        cols.put(slice + kRight);
      },
      [&](const C* slice, std::int64_t) { add_steps<T>(slice, slice + kRight, sums, TakeAll{}); });
}

/// Where a tile's results go: its first element, strides in elements.
template <class T>
struct Plane {
  T* data;
  std::int64_t row_stride, col_stride;
};

/// Element (row, col) = value(i, j, row, col) for each sum of this thread that lies in a rows x
/// cols matrix.
template <class Tile, class T, class Value>
__device__ void store_tile(const Plane<T>& to, std::int64_t rows, std::int64_t cols,
                           const Value& value) {
  constexpr int kVector = Tile::kColVector;
  const bool by_vectors = to.col_stride == 1 && is_aligned<kVector>(to.data, to.row_stride);
  TSR_UNROLL
  for (int i = 0; i < Tile::kThreadRows; ++i) {
    const int row = Tile::row(i);
    if (row >= rows) continue;
    TSR_UNROLL
    for (int j = 0; j < Tile::kThreadCols; j += kVector) {
      const int col = Tile::col(j);
      T* const at = to.data + row * to.row_stride + col * to.col_stride;
      if (by_vectors && col + kVector <= cols) {
        Vector<T, kVector> values;
        TSR_UNROLL
        for (int e = 0; e < kVector; ++e) {
          values.at[e] = convert<T>(value(i, j + e, row, col + e));
        }
        *reinterpret_cast<Vector<T, kVector>*>(at) = values;
        continue;
      }
      TSR_UNROLL
      for (int e = 0; e < kVector; ++e) {
        if (col + e < cols) at[e * to.col_stride] = convert<T>(value(i, j + e, row, col + e));
      }
    }
  }
}

/// Sums as elements of T, or of F32 where the matrix is of that; `at` is the tile's first element.
template <class Tile, class T, class C>
__device__ void store_sums(const BatchMatrix& to, std::int64_t at, std::int64_t rows,
                           std::int64_t cols,
                           const C (&sums)[Tile::kThreadRows][Tile::kThreadCols]) {
  const auto store_as = [&]<class Out>(Out* data) {
    store_tile<Tile>(Plane<Out>{data + at, to.row_stride, to.col_stride}, rows, cols,
                     [&](int i, int j, int, int) { return sums[i][j]; });
  };
  if constexpr (sizeof(T) == 2) {
    if (to.dtype == DType::kF32) return store_as(reinterpret_cast<float*>(to.data));
  }
  store_as(reinterpret_cast<T*>(to.data));
}

/// The tiles of dense products, in F32 and half as wide in F64; a few elements in the emulation.
/// The small one, of 64 x 64, is for results that too few large ones of 128 x 128 would cover.
#ifdef __CUDACC__
template <class C>
inline constexpr int kProductEach = sizeof(C) == 8 ? 4 : 8;
template <class C>
using ProductTile = Tile<16, 16, kProductEach<C>, kProductEach<C>, 8>;
template <class C>
using SmallTile = Tile<8, 16, kProductEach<C>, kProductEach<C> / 2, 16>;
#else
template <class C>
using ProductTile = Tile<8, 4, 4, 3, 8>;
template <class C>
using SmallTile = Tile<8, 4, 2, 4, 4>;
#endif

constexpr std::int64_t tiles_of(std::int64_t size, int tile) { return (size + tile - 1) / tile; }

}  // namespace tessera::kernels::TSR_CUDA
