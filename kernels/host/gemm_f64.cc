#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/host/gemm.h"
#include "kernels/parallel_tasks.h"

namespace tessera::kernels {
namespace {

// The micro-kernel keeps a kTileRows x kTileCols piece of c in registers: 24 of AVX-512's 32, 12 of
// the 16 of AVX and SSE. Its vectors are registers, narrower than Vec where those are: GCC 12 moves
// each step on wider ones through the stack. An element of c is the same sum in any of them.
#ifdef __AVX512F__
constexpr int kRegisterBytes = 64;
constexpr int kTileRows = 8;
constexpr int kTileVecs = 3;
#else
#ifdef __AVX__
constexpr int kRegisterBytes = 32;
#else
constexpr int kRegisterBytes = 16;
#endif
constexpr int kTileRows = 6;
constexpr int kTileVecs = 2;
#endif
typedef double Register __attribute__((vector_size(kRegisterBytes)));
constexpr std::int64_t kRegisterLanes = kRegisterBytes / sizeof(double);
constexpr std::int64_t kTileCols = kTileVecs * kRegisterLanes;
// A block of c is one task; its packed operands (kBlockRows + kBlockCols) x kDepth stay in the L2
// cache.
constexpr std::int64_t kBlockRows = 192;
constexpr std::int64_t kBlockCols = 384;
constexpr std::int64_t kDepth = 192;
static_assert(kBlockRows % kTileRows == 0 && kBlockCols % kTileCols == 0);

struct Packed {
  std::unique_ptr<double[]> a{new double[kBlockRows * kDepth]};
  std::unique_ptr<double[]> b{new double[kBlockCols * kDepth]};
};

/// Panels of `width` columns, each depth x width row-major, zeros beyond `cols`.
void pack_panels(MatrixView<const double> m, std::int64_t depth, std::int64_t cols,
                 std::int64_t width, double* packed) {
  for (std::int64_t col = 0; col < cols; col += width, packed += depth * width) {
    const std::int64_t used = std::min(width, cols - col);
    if (used < width) std::fill_n(packed, depth * width, 0.0);
    if (m.row_stride == 1) {
      for (std::int64_t j = 0; j < used; ++j) {
        const double* line = m.at(0, col + j);
        for (std::int64_t p = 0; p < depth; ++p) packed[p * width + j] = line[p];
      }
      continue;
    }
    for (std::int64_t p = 0; p < depth; ++p) {
      const double* line = m.at(p, col);
      for (std::int64_t j = 0; j < used; ++j) packed[p * width + j] = line[j * m.col_stride];
    }
  }
}

/// tile (kTileRows x kTileCols) = Σ_p a[p] ⊗ b[p].
void multiply_tile(std::int64_t depth, const double* a, const double* b, double* tile) {
  Register acc[kTileRows][kTileVecs] = {};
  for (std::int64_t p = 0; p < depth; ++p, a += kTileRows, b += kTileCols) {
    Register line[kTileVecs];
#pragma GCC unroll 8
    for (int j = 0; j < kTileVecs; ++j) {
      std::memcpy(&line[j], b + j * kRegisterLanes, sizeof line[j]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < kTileRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kTileVecs; ++j) acc[i][j] += a[i] * line[j];
    }
  }
  std::memcpy(tile, acc, sizeof acc);
}

struct TileTarget {
  MatrixView<double> c;
  std::int64_t rows, cols;
  double alpha, beta;
};

void store_tile(const double* tile, const TileTarget& target) {
  for (std::int64_t i = 0; i < target.rows; ++i, tile += kTileCols) {
    double* line = target.c.at(i);
    const std::int64_t step = target.c.col_stride;
    for (std::int64_t j = 0; j < target.cols; ++j) {
      double& out = line[j * step];
      const double product = target.alpha * tile[j];
      out = target.beta == 0.0 ? product : target.beta * out + product;
    }
  }
}

/// The block of c whose corner is (row, col), over the whole of k in fixed pieces.
void multiply_block(const GemmCall& call, MatrixView<const double> a, MatrixView<const double> b,
                    MatrixView<double> c) {
  thread_local const Packed packed;
  alignas(64) double tile[kTileRows * kTileCols];
  for (std::int64_t p = 0; p < call.k; p += kDepth) {
    const std::int64_t depth = std::min(kDepth, call.k - p);
    // Panels of a are columns of its transpose.
    pack_panels(a.transposed().from_row(p), depth, call.m, kTileRows, packed.a.get());
    pack_panels(b.from_row(p), depth, call.n, kTileCols, packed.b.get());
    const double beta = p == 0 ? call.beta : 1.0;
    for (std::int64_t col = 0; col < call.n; col += kTileCols) {
      for (std::int64_t row = 0; row < call.m; row += kTileRows) {
        multiply_tile(depth, packed.a.get() + row * depth, packed.b.get() + col * depth, tile);
        store_tile(tile, {.c = {c.at(row, col), c.row_stride, c.col_stride},
                          .rows = std::min<std::int64_t>(kTileRows, call.m - row),
                          .cols = std::min(kTileCols, call.n - col),
                          .alpha = call.alpha,
                          .beta = beta});
      }
    }
  }
}

void scale_in_place(const GemmCall& call, MatrixView<double> c) {
  for (std::int64_t i = 0; i < call.m; ++i) {
    for (std::int64_t j = 0; j < call.n; ++j) {
      double& out = *c.at(i, j);
      out = call.beta == 0.0 ? 0.0 : call.beta * out;
    }
  }
}

}  // namespace

void gemm(const GemmCall& call, MatrixView<const double> a, MatrixView<const double> b,
          MatrixView<double> c) {
  if (call.k == 0) {
    scale_in_place(call, c);
    return;
  }
  const std::int64_t row_blocks = (call.m + kBlockRows - 1) / kBlockRows;
  const std::int64_t col_blocks = (call.n + kBlockCols - 1) / kBlockCols;
  parallel_tasks(call.threads, row_blocks * col_blocks, [&](std::int64_t task) {
    const std::int64_t row = task / col_blocks * kBlockRows;
    const std::int64_t col = task % col_blocks * kBlockCols;
    GemmCall block = call;
    block.m = std::min(kBlockRows, call.m - row);
    block.n = std::min(kBlockCols, call.n - col);
    multiply_block(block, a.from_row(row), {b.at(0, col), b.row_stride, b.col_stride},
                   {c.at(row, col), c.row_stride, c.col_stride});
  });
}

}  // namespace tessera::kernels
