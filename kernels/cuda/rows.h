// kernels/cuda/rows.h: rows of an array, which one index along a dim addresses, as teams of lanes
// move and combine them. A row is a slice of any strides; its elements go in packs of 16 bytes
// where both sides lie so.
#pragma once

#include <bit>

#include "kernels/cuda/index_positions.h"
#include "kernels/cuda/lines.h"
#include "kernels/cuda/quotient.h"
#include "kernels/index.h"

namespace tessera::kernels::TSR_CUDA {

/// Elements that are loaded and stored at once.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount > 16 ? 16 : sizeof(T) * kCount) Pack {
  T of[kCount];
};
inline constexpr int kPackBytes = 16;

/// Rows of two arrays: `row` of both sides' elements, and how far apart the rows lie.
struct RowPair {
  MapLayout<2> row;
  std::int64_t to_step, from_step;
};

/// Cuts both sides into packs of `count` elements. False, and nothing is changed, where they do not
/// lie so.
bool cut_into_packs(RowPair& rows, int count);

/// Rows are cut into pieces of kPieces packs for each lane of a team.
struct RowGrid {
  std::int64_t rows, packs, pieces;
  int lanes;  // a power of two
  std::int64_t threads() const { return rows * pieces * lanes; }
};
inline constexpr int kPieces = 4;
inline RowGrid row_grid(std::int64_t rows, std::int64_t packs) {
  const auto lanes = static_cast<int>(
      std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(packs, 1, kLanes))));
  const std::int64_t piece = std::int64_t{kPieces} * lanes;
  return {rows, packs, (packs + piece - 1) / piece, lanes};
}

/// f(row, first) for each piece that falls to this thread, whose packs are first, first + lanes, ….
template <class F>
__device__ void for_each_piece(const RowGrid& grid, F&& f) {
  const std::int64_t teams = static_cast<std::int64_t>(gridDim.x) * blockDim.x / grid.lanes;
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t lane = thread % grid.lanes;
  for (std::int64_t at = thread / grid.lanes; at < grid.rows * grid.pieces; at += teams) {
    const std::int64_t row = quotient(at, grid.pieces);
    f(row, (at - row * grid.pieces) * kPieces * grid.lanes + lane);
  }
}

/// The bits of `value` as an element of `dtype`.
std::uint64_t word_of(double value, DType dtype);

/// Element i of `out` = the element of x `position · step` from x's, or `otherwise` for a position
/// of none. Positions and x broadcast to out. Requires: one dtype. Errors: as run_layouts().
void take_elements(KernelContext& ctx, const char* name, const Array& x, std::int64_t step,
                   const Positions& positions, std::uint64_t otherwise, const Array& out);
/// Row i of `out` along `dim` = row positions[i] of x, or `otherwise`. Requires: one dtype; as many
/// dense positions as rows. Errors: as run_layouts().
void take_rows(KernelContext& ctx, const char* name, const Array& x, int dim,
               const Positions& positions, std::uint64_t otherwise, const Array& out);
/// The first elements of x's lines along `dim`, as an array of one element there, and of `shape`
/// elsewhere; of lines without elements as first_elements() has them.
Array line_starts(KernelContext& ctx, const Array& x, int dim, Shape shape);

/// Rows that go into others: entry i is row i of `src`, which goes into the row of `out` that
/// begins keys_N[i] · to_step elements from its first; entries of key num_keys go nowhere.
struct RowTargets {
  Array keys_N;  ///< I32, dense
  std::int64_t num_keys;
  Array out_row, src_row;  ///< the first row of each
  std::int64_t to_step, from_step;
};
/// out = combine(out, src) for each entry, those of one row in order: the last one wins, or BF16
/// and F16 are added in F32 and rounded once.
void combine_rows(KernelContext& ctx, const char* name, Combine combine, const RowTargets& rows);
/// The keys of a dense index: its positions, and `size` where it has none.
Array keys_of(KernelContext& ctx, const Positions& positions);
/// Whether combine_rows() takes so many entries and keys.
constexpr bool combines_rows(std::int64_t entries, std::int64_t num_keys) noexcept {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  return entries < kMost && num_keys + 1 < kMost;
}

}  // namespace tessera::kernels::TSR_CUDA
