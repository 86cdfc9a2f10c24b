// kernels/cuda/product_tile.h: products of matrices by a block of threads, one tile of the result
// at a time. Each thread sums some rows and columns of the tile, as far apart as there are threads
// along them. Factors are staged in shared memory, a few steps of the sum at a time: its depth.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/dtype_switch.h"
#include "kernels/product_plan.h"

namespace tessera::kernels::TSR_CUDA {

template <int kDownThreads, int kAcrossThreads, int kRowsEach, int kColsEach, int kDepth>
struct Tile {
  static constexpr int kDown = kDownThreads, kAcross = kAcrossThreads;
  static constexpr int kThreads = kDown * kAcross;
  static constexpr int kThreadRows = kRowsEach, kThreadCols = kColsEach;
  static constexpr int kRows = kDown * kRowsEach, kCols = kAcross * kColsEach;
  static constexpr int kSteps = kDepth;
  /// Lines of one step, and one more, which spreads steps over the memory's banks.
  static constexpr int kRowPitch = kRows + 1, kColPitch = kCols + 1;
  static constexpr int kStaged = kSteps * (kRowPitch + kColPitch);

  __device__ static int row(int i) { return static_cast<int>(threadIdx.x) / kAcross + i * kDown; }
  __device__ static int col(int i) { return static_cast<int>(threadIdx.x) % kAcross + i * kAcross; }
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
};

/// Steps [first, first + kSteps) of kLines lines: read, then put into shared memory, where element
/// (step, line) lies at step · (kLines + 1) + line.
template <int kLines, int kSteps, int kThreads, class C>
class Slice {
 public:
  template <class T>
  __device__ void read(const Factor<T>& from, std::int64_t first) {
    along_depth_ = from.depth_stride <= from.line_stride;
    TSR_UNROLL
    for (int i = 0; i < kEach; ++i) {
      const int line = line_of(i), step = step_of(i);
      values_[i] = C{0};
      if (at(i) < kLines * kSteps && line < from.lines && first + step < from.depth) {
        values_[i] =
            convert<C>(from.data[line * from.line_stride + (first + step) * from.depth_stride]);
      }
    }
  }
  __device__ void put(C* staged) const {
    TSR_UNROLL
    for (int i = 0; i < kEach; ++i) {
      if (at(i) < kLines * kSteps) staged[step_of(i) * (kLines + 1) + line_of(i)] = values_[i];
    }
  }

 private:
  static constexpr int kEach = (kLines * kSteps + kThreads - 1) / kThreads;
  // Neighbours in memory by neighbouring threads.
  __device__ static int at(int i) { return static_cast<int>(threadIdx.x) + i * kThreads; }
  __device__ int line_of(int i) const { return along_depth_ ? at(i) / kSteps : at(i) % kLines; }
  __device__ int step_of(int i) const { return along_depth_ ? at(i) % kSteps : at(i) / kLines; }

  C values_[kEach];
  bool along_depth_;
};
template <int kLines, int kSteps, int kThreads, class C, class T>
__device__ void stage(C* staged, const Factor<T>& from, std::int64_t first) {
  Slice<kLines, kSteps, kThreads, C> slice;
  slice.read(from, first);
  slice.put(staged);
}

/// sums[i][j] += Σ left[step][row] · right[step][col] over kSteps staged steps, of those that
/// take(i, step) names.
template <class T, int kSteps, int kThreadCols, class C, class Take>
__device__ void add_steps(const C* left, const C* right, int right_pitch,
                          C (&sums)[T::kThreadRows][kThreadCols], const Take& take) {
  TSR_UNROLL
  for (int step = 0; step < kSteps; ++step) {
    C factors[kThreadCols];
    TSR_UNROLL
    for (int j = 0; j < kThreadCols; ++j) {
      factors[j] = right[step * right_pitch + T::col(j)];
    }
    TSR_UNROLL
    for (int i = 0; i < T::kThreadRows; ++i) {
      if (!take(i, step)) continue;
      const C factor = left[step * T::kRowPitch + T::row(i)];
      TSR_UNROLL
      for (int j = 0; j < kThreadCols; ++j) sums[i][j] += factor * factors[j];
    }
  }
}

struct TakeAll {
  __device__ bool operator()(int, int) const { return true; }
};

/// sums[i][j] += the products of the tile's rows of `left` and columns of `right`. `staged`: of
/// T::kStaged elements, shared.
template <class T, class C, class Left, class Right>
__device__ void add_products(C* staged, const Factor<Left>& left, const Factor<Right>& right,
                             C (&sums)[T::kThreadRows][T::kThreadCols]) {
  C* const staged_right = staged + T::kSteps * T::kRowPitch;
  Slice<T::kRows, T::kSteps, T::kThreads, C> left_slice;
  Slice<T::kCols, T::kSteps, T::kThreads, C> right_slice;
  left_slice.read(left, 0);
  right_slice.read(right, 0);
  for (std::int64_t first = 0; first < left.depth; first += T::kSteps) {
    left_slice.put(staged);
    right_slice.put(staged_right);
    __syncthreads();
    // The next are on their way while these are multiplied.
    left_slice.read(left, first + T::kSteps);
    right_slice.read(right, first + T::kSteps);
    add_steps<T, T::kSteps>(staged, staged_right, T::kColPitch, sums, TakeAll{});
    __syncthreads();
  }
}

/// f(i, j, row, col) for each sum of this thread that lies in a rows x cols matrix.
template <class T, class F>
__device__ void for_each_sum(std::int64_t rows, std::int64_t cols, const F& f) {
  TSR_UNROLL
  for (int i = 0; i < T::kThreadRows; ++i) {
    TSR_UNROLL
    for (int j = 0; j < T::kThreadCols; ++j) {
      if (T::row(i) < rows && T::col(j) < cols) f(i, j, T::row(i), T::col(j));
    }
  }
}

/// A sum as an element of T, or of F32 where the matrix is of that.
template <class T, class C>
__device__ void store_sum(const BatchMatrix& to, std::int64_t at, C value) {
  if (to.dtype == DType::kF32) {
    reinterpret_cast<float*>(to.data)[at] = convert<float>(value);
  } else {
    reinterpret_cast<T*>(to.data)[at] = convert<T>(value);
  }
}

/// The tile of dense products: 128 x 128 in F32, 64 x 64 in F64; a few elements in the emulation.
#ifdef __CUDACC__
template <class C>
inline constexpr int kProductEach = sizeof(C) == 8 ? 4 : 8;
template <class C>
using ProductTile = Tile<16, 16, kProductEach<C>, kProductEach<C>, 16>;
/// Of grouped ones, 64 x 64 in F32: a group has few rows, or its gradient few tiles.
template <class C>
using GroupTile = Tile<16, 8, 4, kProductEach<C>, 16>;
#else
template <class C>
using ProductTile = Tile<8, 4, 2, 3, 4>;
template <class C>
using GroupTile = ProductTile<C>;
#endif

inline std::int64_t tiles_of(std::int64_t size, int tile) { return (size + tile - 1) / tile; }

}  // namespace tessera::kernels::TSR_CUDA
