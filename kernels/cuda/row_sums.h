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

/// `Rows`: `dim` columns of type T, of which load<kCount>(place, pack) reads some; place(slot) is
/// negative where a slot has no row.
template <class Rows, class Out>
struct SumOperands {
  Rows rows;
  const ComputeType<typename Rows::T>* weights;  // null: all 1
  std::int64_t top_k;
  Out* out;
};

/// kCount neighbouring columns of a token, its rows in order.
template <int kCount, class Rows, class Out>
__device__ void sum_columns(const SumOperands<Rows, Out>& of, std::int64_t token,
                            std::int64_t pack) {
  using T = typename Rows::T;
  using Sum = ComputeType<T>;
  constexpr int kAhead = 4;  // rows that are read before the first is added
  Sum sums[kCount] = {};
  for (std::int64_t first = 0; first < of.top_k; first += kAhead) {
    Pack<T, kCount> terms[kAhead];
    Sum weights[kAhead];
    bool held[kAhead];
    TSR_UNROLL
    for (int k = 0; k < kAhead; ++k) {
      const std::int64_t slot = token * of.top_k + first + k;
      const std::int64_t place = first + k < of.top_k ? of.rows.place(slot) : -1;
      held[k] = place >= 0;
      if (!held[k]) continue;
      terms[k] = of.rows.template load<kCount>(place, pack);
      weights[k] = of.weights == nullptr ? Sum{1} : of.weights[slot];
    }
    TSR_UNROLL
    for (int k = 0; k < kAhead; ++k) {
      for (int c = 0; held[k] && c < kCount; ++c) {
        sums[c] += weights[k] * static_cast<Sum>(terms[k].of[c]);
      }
    }
  }
  Pack<Out, kCount> all;
  for (int c = 0; c < kCount; ++c) all.of[c] = convert<Out>(sums[c]);
  reinterpret_cast<Pack<Out, kCount>*>(of.out + token * of.rows.dim)[pack] = all;
}

template <int kCount, class Rows, class Out>
__global__ void sum_rows(RowGrid grid, const __grid_constant__ SumOperands<Rows, Out> of) {
  for_each_piece(grid, [&](std::int64_t token, std::int64_t first) {
    for (int p = 0; p < kPieces; ++p) {
      const std::int64_t pack = first + std::int64_t{p} * grid.lanes;
      if (pack < grid.packs) sum_columns<kCount>(of, token, pack);
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
