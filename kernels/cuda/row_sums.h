// kernels/cuda/row_sums.h: sums of rows that a list names, token by token, wherever the rows lie.
#pragma once

#include <initializer_list>

#include "kernels/cuda/rows.h"

namespace tessera::kernels::TSR_CUDA {

/// Calls f(how many elements of T are taken at once): those of a pack where rows of `dim` that
/// begin at `operands` are made of packs, else one.
template <class T, class Operands = std::initializer_list<const void*>, class F>
cudaError_t visit_pack(std::int64_t dim, const Operands& operands, F&& f) {
  constexpr int kCount = kPackBytes / sizeof(T);
  bool fits = dim % kCount == 0;
  for (const void* operand : operands) {
    fits = fits && reinterpret_cast<std::uintptr_t>(operand) % kPackBytes == 0;
  }
  if (fits) return f(std::integral_constant<int, kCount>{});
  return f(std::integral_constant<int, 1>{});
}

/// `Rows`: `dim` columns of type T, of which load<kCount>(place, pack) reads some; a slot's place
/// is place(slot, listed(slot)), negative where it has no row.
template <class Rows, class Out>
struct SumOperands {
  Rows rows;
  const ComputeType<typename Rows::T>* weights;  // null: all 1
  std::int64_t top_k;
  Out* out;
};

/// Some of a token's rows.
template <class Sum, int kMost>
struct TokenRows {
  std::int64_t places[kMost];
  Sum weights[kMost];

  /// What is listed is read before the first of it is judged.
  template <class Rows, class Out>
  __device__ TokenRows(const SumOperands<Rows, Out>& of, std::int64_t token, std::int64_t first) {
    const std::int64_t slot = token * of.top_k + first;
    TSR_UNROLL
    for (int k = 0; k < kMost; ++k) {
      const bool is_one = first + k < of.top_k;
      places[k] = is_one ? of.rows.listed(slot + k) : -1;
      weights[k] = is_one && of.weights != nullptr ? of.weights[slot + k] : Sum{1};
    }
    TSR_UNROLL
    for (int k = 0; k < kMost; ++k) {
      if (first + k < of.top_k) places[k] = of.rows.place(slot + k, places[k]);
    }
  }
};

/// A team's part of a token: the sum of its rows, in their order.
template <int kCount, class Rows, class Out>
__global__ void sum_rows(RowGrid grid, const __grid_constant__ SumOperands<Rows, Out> of) {
  using T = typename Rows::T;
  using Sum = ComputeType<T>;
  constexpr int kAhead = 8;  // rows that are read before the first is added
  for_each_piece(grid, [&](std::int64_t token, std::int64_t piece) {
    Sum sums[kPieces][kCount] = {};
    for (std::int64_t first = 0; first < of.top_k; first += kAhead) {
      const TokenRows<Sum, kAhead> rows(of, token, first);
      TSR_UNROLL
      for (int p = 0; p < kPieces; ++p) {
        const std::int64_t pack = piece + std::int64_t{p} * grid.lanes;
        if (pack >= grid.packs) continue;
        Pack<T, kCount> terms[kAhead];
        TSR_UNROLL
        for (int k = 0; k < kAhead; ++k) {
          if (rows.places[k] >= 0) terms[k] = of.rows.template load<kCount>(rows.places[k], pack);
        }
        TSR_UNROLL
        for (int k = 0; k < kAhead; ++k) {
          for (int c = 0; rows.places[k] >= 0 && c < kCount; ++c) {
            sums[p][c] += rows.weights[k] * static_cast<Sum>(terms[k].of[c]);
          }
        }
      }
    }
    TSR_UNROLL
    for (int p = 0; p < kPieces; ++p) {
      const std::int64_t pack = piece + std::int64_t{p} * grid.lanes;
      if (pack >= grid.packs) continue;
      Pack<Out, kCount> all;
      for (int c = 0; c < kCount; ++c) all.of[c] = convert<Out>(sums[p][c]);
      reinterpret_cast<Pack<Out, kCount>*>(of.out + token * of.rows.dim)[pack] = all;
    }
  });
}

/// `operands`: where rows and sums begin.
template <class Rows, class Out, class Operands = std::initializer_list<const void*>>
cudaError_t launch_row_sums(const SumOperands<Rows, Out>& of, std::int64_t tokens,
                            const Operands& operands, cudaStream_t stream) {
  return visit_pack<typename Rows::T>(
      of.rows.dim, operands, [&]<int kCount>(std::integral_constant<int, kCount>) {
        const RowGrid grid = row_grid(tokens, of.rows.dim / kCount);
        return launch<sum_rows<kCount, Rows, Out>>(grid_for(grid.threads()), stream, grid, of);
      });
}

}  // namespace tessera::kernels::TSR_CUDA
