// kernels/index.h: reads and writes addressed by an index operand (I64 or I32).
// An index of −1 where `absent` is kSkip means "held by another rank": reads give what changes no
// sum, −0.0 or an integer 0, and writes are skipped. Any other index outside [0, size) throws
// OutOfRange naming the position. Scatter-adds run in operand order.
#pragma once

#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

enum class Absent : std::uint8_t { kError, kSkip };

/// out[..., i, ...] = x[..., index[..., i, ...], ...] along `dim`; index may be smaller than x
/// elsewhere.
void gather(KernelContext& ctx, const Array& x, int dim, const Array& index, Absent absent,
            const Array& out);
/// out[..., index[..., i, ...], ...] = src (later positions win).
void scatter(KernelContext& ctx, const Array& out, int dim, const Array& index, const Array& src,
             Absent absent);
void scatter_value(KernelContext& ctx, const Array& out, int dim, const Array& index, double value,
                   Absent absent);
void scatter_add(KernelContext& ctx, const Array& out, int dim, const Array& index,
                 const Array& src, Absent absent);
/// What is written where a source meets an element that is there already.
enum class Combine : std::uint8_t { kAssign, kAdd, kProduct, kMax, kMin };
/// out[..., index[..., i, ...], ...] = combine(it, src), in operand order; NaN wins max and min.
void scatter_combine(KernelContext& ctx, const Array& out, int dim, const Array& index,
                     const Array& src, Combine combine, Absent absent);
/// Whole slices of `dim` by a 1-D (index_select, index_add) or any-shape index (embedding: rows of
/// dim 0).
void index_select(KernelContext& ctx, const Array& x, int dim, const Array& index, Absent absent,
                  const Array& out);
void index_add(KernelContext& ctx, const Array& out, int dim, const Array& index, const Array& src,
               Absent absent);
void embedding(KernelContext& ctx, const Array& weight_VD, const Array& ids, Absent absent,
               const Array& out);
/// grad_weight_VD (zeroed here) += rows of grad by id.
void embedding_grad(KernelContext& ctx, const Array& grad, const Array& ids, Absent absent,
                    const Array& grad_weight_VD);
/// Rows x_TD[tok_N[n]] → out_ND, non-temporal where large.
void permute_rows(KernelContext& ctx, const Array& x_TD, const Array& tok_N, const Array& out_ND);

}  // namespace kernels
}  // namespace tessera
