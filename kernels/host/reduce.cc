#include "kernels/reduce.h"

#include <memory>
#include <optional>

#include "absl/strings/str_format.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/parallel_loop.h"
#include "kernels/reduce_folds.h"
#include "kernels/strided_loop.h"
#include "placement/reduce_op.h"

namespace tessera::kernels {
namespace {

// Blocks depend on shapes alone and fold in order, so sums have the same bits for any number of
// threads.
constexpr std::int64_t kBlockElements = 32768;
constexpr std::int64_t kBlockColumns = 1024;
constexpr int kLanes = 32;

struct Dim {
  std::int64_t size = 1, stride = 1;
};

/// x as outer dims (kept) x reduced dim x dense inner columns (kept; 1 where the reduced dim is the
/// dense one).
struct Geometry {
  absl::InlinedVector<Dim, 6> outer;
  std::int64_t outer_count = 1;
  Dim reduced;
  std::int64_t columns = 1;

  std::int64_t offset_of(std::int64_t index) const {
    std::int64_t offset = 0;
    for (std::size_t d = outer.size(); d-- > 0;) {
      offset += index % outer[d].size * outer[d].stride;
      index /= outer[d].size;
    }
    return offset;
  }
};

void append_merged(absl::InlinedVector<Dim, 6>& dims, Dim dim) {
  if (dim.size == 1) return;
  if (!dims.empty() && dims.back().stride == dim.size * dim.stride) {
    dims.back() = {dims.back().size * dim.size, dim.stride};
  } else {
    dims.push_back(dim);
  }
}

/// Nothing where x has to be copied first: several reduced runs, or no dense dim.
std::optional<Geometry> describe(const Array& x, const absl::InlinedVector<bool, 6>& marks) {
  Geometry geometry;
  absl::InlinedVector<Dim, 6> reduced;
  for (std::size_t d = 0; d < marks.size(); ++d) {
    const Dim dim{x.shape()[d], x.strides()[d]};
    append_merged(marks[d] ? reduced : geometry.outer, dim);
    if (!marks[d]) geometry.outer_count *= dim.size;
  }
  if (reduced.size() > 1) return std::nullopt;
  if (!reduced.empty()) geometry.reduced = reduced[0];
  const bool dense_inner = !geometry.outer.empty() && geometry.outer.back().stride == 1;
  if (dense_inner && (geometry.reduced.stride != 1 || geometry.reduced.size == 1)) {
    geometry.columns = geometry.outer.back().size;
    geometry.outer.pop_back();
    geometry.outer_count = geometry.columns == 0 ? 0 : geometry.outer_count / geometry.columns;
    return geometry;
  }
  if (geometry.reduced.stride != 1) return std::nullopt;
  return geometry;
}

/// A dense copy whose reduced dims stand last.
Array reduced_last(KernelContext& ctx, const Array& x, absl::InlinedVector<bool, 6>& marks) {
  Shape shape;
  Shape strides;
  for (const bool wanted : {false, true}) {
    for (std::size_t d = 0; d < marks.size(); ++d) {
      if (marks[d] != wanted) continue;
      shape.push_back(x.shape()[d]);
      strides.push_back(x.strides()[d]);
    }
  }
  std::stable_sort(marks.begin(), marks.end());
  Array dense = Array::empty(shape, x.dtype(), ctx.allocator);
  cpu::copy(ctx, x.as_strided(shape, strides, x.offset()), dense);
  return dense;
}

template <class Fold, class T>
typename Fold::Value fold_row(const T* x, std::int64_t n) {
  using Value = typename Fold::Value;
  Value result = Fold::kIdentity;
  std::int64_t i = 0;
  if (n >= kLanes) {
    Value lanes[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = convert<Value>(x[lane]);
    for (i = kLanes; i + kLanes <= n; i += kLanes) {
#pragma omp simd
      for (int lane = 0; lane < kLanes; ++lane) {
        lanes[lane] = Fold::apply(lanes[lane], convert<Value>(x[i + lane]));
      }
    }
    for (int width = kLanes / 2; width > 0; width /= 2) {
      for (int lane = 0; lane < width; ++lane) {
        lanes[lane] = Fold::apply(lanes[lane], lanes[lane + width]);
      }
    }
    result = lanes[0];
  }
  for (; i < n; ++i) result = Fold::apply(result, convert<Value>(x[i]));
  return result;
}

template <class Fold, class T>
void fold_columns(const T* x, std::int64_t rows, std::int64_t row_stride, std::int64_t columns,
                  typename Fold::Value* out) {
  using Value = typename Fold::Value;
  std::fill_n(out, columns, Fold::kIdentity);
  for (std::int64_t r = 0; r < rows; ++r, x += row_stride) {
#pragma omp simd
    for (std::int64_t c = 0; c < columns; ++c) out[c] = Fold::apply(out[c], convert<Value>(x[c]));
  }
}

/// Folds blocks of the reduced dim, then the blocks in order; `out` gets outer_count x columns
/// values.
template <class Fold, class T>
void fold_all(int threads, const Geometry& geometry, const T* x, typename Fold::Value* out) {
  using Value = typename Fold::Value;
  const std::int64_t columns = geometry.columns;
  const Dim reduced = geometry.reduced;
  const std::int64_t strip = std::min(columns, kBlockColumns);
  const std::int64_t block_rows =
      std::max<std::int64_t>(16, kBlockElements / std::max<std::int64_t>(1, strip));
  const std::int64_t blocks =
      std::max<std::int64_t>(1, (reduced.size + block_rows - 1) / block_rows);
  const std::int64_t strips = strip == 0 ? 0 : (columns + strip - 1) / strip;
  const std::int64_t results = geometry.outer_count * columns;
  std::unique_ptr<Value[]> partial_storage;
  if (blocks > 1)
    partial_storage =
        std::make_unique_for_overwrite<Value[]>(static_cast<std::size_t>(results * blocks));
  Value* partials = blocks > 1 ? partial_storage.get() : out;
  const std::int64_t items = geometry.outer_count * blocks * strips;
  const std::int64_t item_elements = std::min(reduced.size, block_rows) * strip;
  parallel_ranges(threads, items, 1, item_elements, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t column = item % strips * strip;
      const std::int64_t first_row = item / strips % blocks * block_rows;
      const std::int64_t outer = item / strips / blocks;
      const std::int64_t rows = std::min(block_rows, reduced.size - first_row);
      const T* from = x + geometry.offset_of(outer) + first_row * reduced.stride + column;
      Value* to = partials + item / strips * columns + column;
      if (columns == 1 && reduced.stride == 1) {
        *to = fold_row<Fold>(from, rows);
      } else {
        fold_columns<Fold>(from, rows, reduced.stride, std::min(strip, columns - column), to);
      }
    }
  });
  if (blocks == 1) return;
  parallel_ranges(threads, geometry.outer_count, 1, blocks * columns,
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t outer = begin; outer < end; ++outer) {
                      fold_columns<Fold>(partials + outer * blocks * columns, blocks, columns,
                                         columns, out + outer * columns);
                    }
                  });
}

/// Writes row-major results to `out`, divided by `count` for averages.
template <class Value>
void store_results(const Value* results, ReduceOp op, std::int64_t count, const Array& out) {
  visit_dtype(out.dtype(), [&]<class To>(TypeTag<To>) {
    To* to = out.data<To>();
    const std::int64_t total = out.num_elements();
    for (std::int64_t i = 0; i < total; ++i) {
      std::int64_t rest = i;
      std::int64_t offset = 0;
      for (std::size_t d = out.shape().size(); d-- > 0;) {
        offset += rest % out.shape()[d] * out.strides()[d];
        rest /= out.shape()[d];
      }
      to[offset] = divides(op)
                       ? convert<To>(static_cast<double>(results[i]) / static_cast<double>(count))
                       : convert<To>(results[i]);
    }
  });
}

struct Reduction {
  ReduceOp op;
  int threads;
  std::int64_t count;
  const Geometry& geometry;
};

template <class Fold, class T>
void fold_and_store(const Reduction& reduction, const Array& x, const Array& out) {
  using Value = typename Fold::Value;
  constexpr std::int64_t kOnStack = 64;
  const std::int64_t results = out.num_elements();
  Value few[kOnStack];
  std::unique_ptr<Value[]> many;
  const bool direct =
      dtype_of<Value>() == out.dtype() && !divides(reduction.op) && out.is_contiguous();
  Value* values = direct ? out.data<Value>() : few;
  if (!direct && results > kOnStack) {
    many = std::make_unique_for_overwrite<Value[]>(static_cast<std::size_t>(results));
    values = many.get();
  }
  fold_all<Fold>(reduction.threads, reduction.geometry, x.data<T>(), values);
  if (!direct) store_results(values, reduction.op, reduction.count, out);
}

}  // namespace

void cpu::reduce(KernelContext& ctx, ReduceOp op, const Array& x, std::span<const int> dims,
                 const Array& out) {
  absl::InlinedVector<bool, 6> marks = reduced_marks(x, dims);
  check_output(x, marks, out);
  if (out.num_elements() == 0) return;
  std::int64_t count = 1;
  for (std::size_t d = 0; d < marks.size(); ++d) count *= marks[d] ? x.shape()[d] : 1;
  Array source = x;
  std::optional<Geometry> geometry = describe(x, marks);
  if (!geometry.has_value()) {
    source = reduced_last(ctx, x, marks);
    geometry = describe(source, marks);
  }
  const Reduction reduction{op, ctx.threads, count, *geometry};
  visit_dtype(x.dtype(), [&]<class T>(TypeTag<T>) {
    with_reduce_fold(op, [&]<template <class> class Fold>() {
      fold_and_store<Fold<T>, T>(reduction, source, out);
    });
  });
}

}  // namespace tessera::kernels
