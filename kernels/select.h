// kernels/select.h: sorting, selection and permutations.
#pragma once

#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

enum class Order : std::uint8_t { kAscending, kDescending };

/// The k largest (kDescending) or smallest along `dim`, sorted, I64 indices; the lower index wins
/// ties. NaN counts as largest.
void topk(KernelContext& ctx, const Array& x, int dim, Order order, const Array& values,
          const Array& indices);
/// Stable sort along `dim` with I64 indices.
void sort(KernelContext& ctx, const Array& x, int dim, Order order, const Array& values,
          const Array& indices);
/// Stable counting sort of integer keys in [0, num_keys): permutation_N (I64: position → source
/// index) and counts_E (I64). Errors: OutOfRange naming the position of a key outside.
void sort_by_key(KernelContext& ctx, const Array& keys_N, std::int64_t num_keys,
                 const Array& permutation_N, const Array& counts_E);

}  // namespace kernels
}  // namespace tessera
