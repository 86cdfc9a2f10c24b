// Whole rows by an index: selected, embedded, permuted, and added back.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/rows.h"
#include "kernels/index_checks.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// What is checked of the rows already.
void add_rows(KernelContext& ctx, const char* name, const Array& out, int dim,
              const Positions& positions, const Array& src) {
  const Array keys = keys_of(ctx, positions);
  combine_rows(ctx, name, Combine::kAdd,
               {.keys_N = keys,
                .num_keys = out.size(dim),
                .out_row = first_elements(ctx, out, dim),
                .src_row = first_elements(ctx, src, dim),
                .to_step = out.strides()[static_cast<std::size_t>(dim)],
                .from_step = src.strides()[static_cast<std::size_t>(dim)]});
}

void require_countable(const KernelContext& ctx, const char* name, const Array& out, int dim,
                       std::int64_t entries) {
  if (combines_rows(entries, out.size(dim))) return;
  throw Error(unimplemented(std::string(name) + " of 2^31 rows has no kernel on " +
                            to_string(ctx.device->id())));
}

}  // namespace

void index_select(KernelContext& ctx, const Array& x, int dim, const Array& index, Absent absent,
                  const Array& out) {
  check_rows("index_select", x, dim, index, out);
  const Positions positions =
      checked_positions(ctx, contiguous(ctx, index), {"index_select", x.size(dim), absent});
  take_rows(ctx, "index_select", x, dim, positions, absent_word(x.dtype()), out);
}

void permute_rows(KernelContext& ctx, const Array& x_TD, const Array& tok_N, const Array& out_ND) {
  check_permute_rows(x_TD, tok_N, out_ND);
  const Positions positions = checked_positions(ctx, contiguous(ctx, tok_N),
                                                {"permute_rows", x_TD.size(0), Absent::kError});
  take_rows(ctx, "permute_rows", x_TD, 0, positions, absent_word(x_TD.dtype()), out_ND);
}

void embedding(KernelContext& ctx, const Array& weight_VD, const Array& ids, Absent absent,
               const Array& out) {
  check_embedding("embedding", weight_VD, ids, out);
  const Positions positions =
      checked_positions(ctx, contiguous(ctx, ids), {"embedding", weight_VD.size(0), absent});
  const Shape flat_shape = {ids.num_elements(), weight_VD.size(1)};
  const Array flat = out.try_view(flat_shape);
  const Array target = flat.is_null() ? Array::empty(flat_shape, out.dtype(), ctx.allocator) : flat;
  check_rows("index_select", weight_VD, 0, positions.index.try_view({flat_shape[0]}), target);
  take_rows(ctx, "embedding", weight_VD, 0, positions, absent_word(weight_VD.dtype()), target);
  if (flat.is_null()) copy(ctx, target.try_view(out.shape()), out);
}

void index_add(KernelContext& ctx, const Array& out, int dim, const Array& index, const Array& src,
               Absent absent) {
  check_rows("index_add", out, dim, index, src);
  require_countable(ctx, "index_add", out, dim, index.num_elements());
  const Positions positions =
      checked_positions(ctx, contiguous(ctx, index), {"index_add", out.size(dim), absent});
  add_rows(ctx, "index_add", out, dim, positions, src);
}

void embedding_grad(KernelContext& ctx, const Array& grad, const Array& ids, Absent absent,
                    const Array& grad_weight_VD) {
  check_embedding("embedding_grad", grad_weight_VD, ids, grad);
  require_countable(ctx, "embedding_grad", grad_weight_VD, 0, ids.num_elements());
  const Positions positions = checked_positions(ctx, contiguous(ctx, ids),
                                                {"embedding_grad", grad_weight_VD.size(0), absent});
  const Array rows = contiguous(ctx, grad).try_view({ids.num_elements(), grad_weight_VD.size(1)});
  check_rows("index_add", grad_weight_VD, 0, positions.index.try_view({rows.size(0)}), rows);
  fill(ctx, 0.0, grad_weight_VD);
  add_rows(ctx, "embedding_grad", grad_weight_VD, 0, positions, rows);
}

}  // namespace tessera::kernels::TSR_CUDA
