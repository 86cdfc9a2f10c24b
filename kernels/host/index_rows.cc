#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/host/dim_lines.h"
#include "kernels/host/row_order.h"
#include "kernels/index.h"
#include "kernels/index_checks.h"
#include "kernels/kernel_table.h"
#include "kernels/parallel_loop.h"
#include "kernels/stream_row.h"

namespace tessera::kernels {
namespace {

/// An array cut at `dim`: dims before it, the dim, and dense inner elements.
struct Rows {
  std::int64_t outer = 1, inner = 1;
  std::int64_t outer_stride = 0, row_stride = 0;
};

/// False where dims before `dim`, or those after it, do not each form one run (the latter dense).
bool describe_rows(const Array& x, int dim, Rows& rows) {
  for (int d = x.ndim() - 1; d > dim; --d) {
    if (x.size(d) != 1 && x.strides()[d] != rows.inner) return false;
    rows.inner *= x.size(d);
  }
  rows.row_stride = x.strides()[dim];
  for (int d = dim - 1; d >= 0; --d) {
    if (x.size(d) == 1) continue;
    if (rows.outer == 1) {
      rows.outer_stride = x.strides()[d];
    } else if (x.strides()[d] != rows.outer_stride * rows.outer) {
      return false;
    }
    rows.outer *= x.size(d);
  }
  return true;
}

/// A 1-D index as an index of `shape` that is the same everywhere outside `dim`.
Array expand_index(const Array& index, int dim, const Shape& shape) {
  Shape strides(shape.size(), 0);
  strides[static_cast<std::size_t>(dim)] = index.strides()[0];
  return index.as_strided(shape, strides, index.offset());
}

/// Positions of a 1-D index as a dense I64 array.
Array dense_positions(KernelContext& ctx, const Array& index) {
  if (index.dtype() == DType::kI64 && index.is_contiguous()) return index;
  Array dense = Array::empty(index.shape(), DType::kI64, ctx.allocator);
  cpu::copy(ctx, index, dense);
  return dense;
}

/// The rows of one array that become those of another.
class RowCopies {
 public:
  RowCopies(const Array& x, const Array& positions, const Array& out, std::pair<Rows, Rows> rows)
      : from_(x.bytes()),
        to_(out.bytes()),
        position_(positions.data<std::int64_t>()),
        count_(positions.num_elements()),
        rows_(rows),
        bytes_(size_of(x.dtype())),
        row_bytes_(rows.first.inner * bytes_),
        dtype_(x.dtype()),
        ahead_(ahead_for(x.num_bytes())),
        writer_(out.num_bytes(), row_bytes_) {}

  /// Reading every source row once pays where the targets are long and, in any order, written past
  /// the caches.
  bool suits_order_by_row(std::int64_t num_rows) const {
    constexpr std::int64_t kLongBytes = 1024;
    return rows_.first.outer == 1 && writer_.streams() && row_bytes_ >= kLongBytes &&
           ahead_ == Ahead::kNextRows && orders_by_row(count_, num_rows);
  }
  /// Targets [begin, end) in memory's order.
  void copy_range(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t i = begin; i < end; ++i) {
      if (ahead_ == Ahead::kNextRows && i + 1 < end && position_[(i + 1) % count_] >= 0) {
        bring_near(source(i + 1), row_bytes_);
      }
      copy(i);
    }
    RowWriter::finish();
  }
  void copy_listed(const std::int32_t* begin, const std::int32_t* end) const {
    for (; begin != end; ++begin) copy(*begin);
    RowWriter::finish();
  }

 private:
  const std::byte* source(std::int64_t i) const {
    const Rows& rows = rows_.first;
    return from_ +
           (i / count_ * rows.outer_stride + position_[i % count_] * rows.row_stride) * bytes_;
  }
  void copy(std::int64_t i) const {
    const Rows& rows = rows_.second;
    std::byte* to = to_ + (i / count_ * rows.outer_stride + i % count_ * rows.row_stride) * bytes_;
    if (position_[i % count_] < 0) {
      visit_dtype(dtype_, [&]<class T>(TypeTag<T>) {
        std::fill_n(reinterpret_cast<T*>(to), row_bytes_ / bytes_, absent_value<T>());
      });
    } else {
      writer_.copy(source(i), to);
    }
  }

  const std::byte* from_;
  std::byte* to_;
  const std::int64_t* position_;
  std::int64_t count_;
  std::pair<Rows, Rows> rows_;
  std::int64_t bytes_, row_bytes_;
  DType dtype_;
  Ahead ahead_;
  RowWriter writer_;
};

void select_rows(KernelContext& ctx, const Array& x, const Array& positions, const Array& out,
                 std::pair<Rows, Rows> rows) {
  const RowCopies copies(x, positions, out, rows);
  const std::int64_t total = rows.first.outer * positions.num_elements();
  const std::int64_t inner = rows.first.inner;
  const std::int64_t num_rows = inner == 0 ? 0 : x.num_elements() / inner;
  if (total == 0 || !copies.suits_order_by_row(num_rows)) {
    return parallel_ranges(ctx.threads, total, 1, inner, [&](std::int64_t begin, std::int64_t end) {
      copies.copy_range(begin, end);
    });
  }
  const Array order = by_row(ctx, positions, num_rows);
  const auto* entry = order.data<std::int32_t>();
  parallel_ranges(ctx.threads, total, 1, inner, [&](std::int64_t begin, std::int64_t end) {
    copies.copy_listed(entry + begin, entry + end);
  });
}

/// Threads share the inner elements, never the rows: each target element gets its terms in operand
/// order.
template <class T>
void add_rows(KernelContext& ctx, const Array& out, const Array& positions, const Array& src,
              std::pair<Rows, Rows> rows) {
  constexpr std::int64_t kStrip = 512;
  const Rows &to_rows = rows.first, &from_rows = rows.second;
  const std::int64_t inner = to_rows.inner;
  const std::int64_t strips = (inner + kStrip - 1) / kStrip;
  const std::int64_t count = positions.num_elements();
  const std::int64_t* position = positions.data<std::int64_t>();
  parallel_ranges(ctx.threads, to_rows.outer * strips, 1, count * std::min(kStrip, inner),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t item = begin; item < end; ++item) {
                      const std::int64_t outer = item / strips;
                      const std::int64_t first = item % strips * kStrip;
                      const std::int64_t n = std::min(kStrip, inner - first);
                      T* target = out.data<T>() + outer * to_rows.outer_stride + first;
                      const T* terms = src.data<T>() + outer * from_rows.outer_stride + first;
                      for (std::int64_t i = 0; i < count; ++i) {
                        if (position[i] < 0) continue;
                        T* to = target + position[i] * to_rows.row_stride;
                        const T* from = terms + i * from_rows.row_stride;
#pragma omp simd
                        for (std::int64_t c = 0; c < n; ++c) to[c] += from[c];
                      }
                    }
                  });
}

/// The index is checked already. BF16 goes through scatter_add's sums in F32.
void add_checked_rows(KernelContext& ctx, const Array& out, int dim, const Array& index,
                      const Array& src) {
  Rows to_rows;
  Rows from_rows;
  const bool by_rows = describe_rows(out, dim, to_rows) && describe_rows(src, dim, from_rows);
  const Array positions = dense_positions(ctx, index);
  if (by_rows && out.dtype() == DType::kF32) {
    return add_rows<float>(ctx, out, positions, src, {to_rows, from_rows});
  }
  if (by_rows && out.dtype() == DType::kF64) {
    return add_rows<double>(ctx, out, positions, src, {to_rows, from_rows});
  }
  if (is_half(out.dtype())) {
    const Array wide = Array::empty(out.shape(), DType::kF32, ctx.allocator);
    const Array wide_src = Array::empty(src.shape(), DType::kF32, ctx.allocator);
    cpu::copy(ctx, out, wide);
    cpu::copy(ctx, src, wide_src);
    add_checked_rows(ctx, wide, dim, positions, wide_src);
    return cpu::copy(ctx, wide, out);
  }
  cpu::scatter_add(ctx, out, dim, expand_index(positions, dim, src.shape()), src, Absent::kSkip);
}

/// Ids of any shape as one dense dim.
Array flat_ids(KernelContext& ctx, const Array& ids) {
  return contiguous(ctx, ids).try_view({ids.num_elements()});
}

}  // namespace

void cpu::index_select(KernelContext& ctx, const Array& x, int dim, const Array& index,
                       Absent absent, const Array& out) {
  check_rows("index_select", x, dim, index, out);
  check_index(index, {"index_select", x.size(dim), absent});
  Rows from_rows;
  Rows to_rows;
  if (describe_rows(x, dim, from_rows) && describe_rows(out, dim, to_rows)) {
    return select_rows(ctx, x, dense_positions(ctx, index), out, {from_rows, to_rows});
  }
  cpu::gather(ctx, x, dim, expand_index(index, dim, out.shape()), absent, out);
}

void cpu::index_add(KernelContext& ctx, const Array& out, int dim, const Array& index,
                    const Array& src, Absent absent) {
  check_rows("index_add", out, dim, index, src);
  check_index(index, {"index_add", out.size(dim), absent});
  add_checked_rows(ctx, out, dim, index, src);
}

void cpu::embedding(KernelContext& ctx, const Array& weight_VD, const Array& ids, Absent absent,
                    const Array& out) {
  check_embedding("embedding", weight_VD, ids, out);
  check_index(ids, {"embedding", weight_VD.size(0), absent});
  const Shape flat_shape = {ids.num_elements(), weight_VD.size(1)};
  const Array flat = out.try_view(flat_shape);
  const Array target = flat.is_null() ? Array::empty(flat_shape, out.dtype(), ctx.allocator) : flat;
  cpu::index_select(ctx, weight_VD, 0, flat_ids(ctx, ids), absent, target);
  if (flat.is_null()) cpu::copy(ctx, target.try_view(out.shape()), out);
}

void cpu::embedding_grad(KernelContext& ctx, const Array& grad, const Array& ids, Absent absent,
                         const Array& grad_weight_VD) {
  check_embedding("embedding_grad", grad_weight_VD, ids, grad);
  check_index(ids, {"embedding_grad", grad_weight_VD.size(0), absent});
  cpu::fill(ctx, 0.0, grad_weight_VD);
  const Array rows = contiguous(ctx, grad).try_view({ids.num_elements(), grad_weight_VD.size(1)});
  cpu::index_add(ctx, grad_weight_VD, 0, flat_ids(ctx, ids), rows, absent);
}

void cpu::permute_rows(KernelContext& ctx, const Array& x_TD, const Array& tok_N,
                       const Array& out_ND) {
  check_permute_rows(x_TD, tok_N, out_ND);
  check_index(tok_N, {"permute_rows", x_TD.size(0), Absent::kError});
  cpu::index_select(ctx, x_TD, 0, tok_N, Absent::kError, out_ND);
}

}  // namespace tessera::kernels
