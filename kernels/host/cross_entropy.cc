#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/host/exp_line.h"
#include "kernels/host/simd.h"
#include "kernels/kernel_table.h"
#include "kernels/lines.h"
#include "kernels/norm.h"
#include "kernels/norm_checks.h"
#include "kernels/parallel_loop.h"
#include "placement/status.h"

namespace tessera::kernels {
namespace {

std::int64_t classes_of(const Array& logits) { return logits.size(logits.ndim() - 1); }
std::int64_t class_stride(const Array& logits) {
  return logits.strides()[static_cast<std::size_t>(logits.ndim() - 1)];
}

/// Ids as contiguous I64. Errors: OutOfRange naming the position unless −1 <= id < classes.
Array read_targets(KernelContext& ctx, const char* op, const Array& target, std::int64_t classes) {
  check_target_dtype(op, target);
  const Array ids = contiguous(ctx, as_dtype(ctx, target, DType::kI64));
  const std::int64_t* id = ids.data<std::int64_t>();
  for (std::int64_t i = 0; i < ids.num_elements(); ++i) {
    if (id[i] >= -1 && id[i] < classes) continue;
    throw Error(bad_target(op, id[i], i, classes));
  }
  return ids;
}

template <class C>
C sum_exp_line(const C* x, std::int64_t n, C max) {
  constexpr std::int64_t kPiece = 1024;
  C exps[kPiece];
  C sum = 0;
  for (std::int64_t i = 0; i < n; i += kPiece) {
    const std::int64_t count = std::min(kPiece, n - i);
    exp_line(x + i, count, max, exps);
    sum += sum_of(exps, count);
  }
  return sum;
}

/// Calls function(line of logits, its value in `rows`, its number) for every row of an array of T.
template <class T, class RowFunction>
void for_each_row(int threads, const Array& logits, const Array& rows,
                  const RowFunction& function) {
  using C = ComputeType<T>;
  const int last = logits.ndim() - 1;
  const std::int64_t n = classes_of(logits);
  const LineOffsets<2> lines(rows.shape(), {without_dim(logits.strides(), last), rows.strides()});
  parallel_ranges(threads, lines.count(), 1, 4 * std::max<std::int64_t>(n, 1),
                  [&](std::int64_t begin, std::int64_t end) {
                    std::vector<C> buffer(n);
                    for (std::int64_t line = begin; line < end; ++line) {
                      const auto at = lines.at(line);
                      const T* row = logits.data<T>() + at[0];
                      function(load_line(row, class_stride(logits), n, buffer.data()),
                               rows.data<C>()[at[1]], line);
                    }
                  });
}

struct GradArrays {
  const Array& grad;
  const Array& logits;
  const Array& ids;
  const Array& lse;
  const Array& grad_logits;
};

template <class T>
void write_grad(int threads, const GradArrays& arrays) {
  using C = ComputeType<T>;
  const Array &logits = arrays.logits, &out = arrays.grad_logits;
  const int last = logits.ndim() - 1;
  const std::int64_t n = classes_of(logits), step = class_stride(out);
  const LineOffsets<4> lines(arrays.lse.shape(),
                             {arrays.grad.strides(), without_dim(logits.strides(), last),
                              arrays.lse.strides(), without_dim(out.strides(), last)});
  const std::int64_t* ids = arrays.ids.data<std::int64_t>();
  parallel_ranges(threads, lines.count(), 1, 4 * n, [&](std::int64_t begin, std::int64_t end) {
    std::vector<C> buffer(n), out_buffer(n);
    for (std::int64_t line = begin; line < end; ++line) {
      const auto at = lines.at(line);
      const C* x = load_line(logits.data<T>() + at[1], class_stride(logits), n, buffer.data());
      T* const target = out.data<T>() + at[3];
      C* const result = line_target(target, step, out_buffer.data());
      const C grad = arrays.grad.data<C>()[at[0]];
      exp_line(x, n, arrays.lse.data<C>()[at[2]], result);
      if (ids[line] >= 0) result[ids[line]] -= C(1);
      for (std::int64_t i = 0; i < n; ++i) result[i] *= grad;
      store_line(result, n, target, step);
    }
  });
}

}  // namespace

void cpu::row_max(KernelContext& ctx, const Array& logits, const Array& max) {
  check_shape("row_max", "max", max, rows_shape("row_max", logits));
  const StagedOutput staged(ctx, max, line_dtype(logits.dtype()));
  visit_floating(logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_row<T>(ctx.threads, logits, staged.array(), [&](const auto* x, auto& result, auto) {
      result = max_or_nan_of(x, classes_of(logits));
    });
  });
  staged.finish(ctx);
}

void cpu::row_sum_exp(KernelContext& ctx, const Array& logits, const Array& max, const Array& sum) {
  const Shape rows = rows_shape("row_sum_exp", logits);
  check_shape("row_sum_exp", "max", max, rows);
  check_shape("row_sum_exp", "sum", sum, rows);
  const DType dtype = line_dtype(logits.dtype());
  const StagedOutput staged(ctx, sum, dtype);
  const Array maxima = contiguous(ctx, as_dtype(ctx, max, dtype));
  visit_floating(logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    for_each_row<T>(ctx.threads, logits, staged.array(),
                    [&](const C* x, C& result, std::int64_t row) {
                      result = sum_exp_line(x, classes_of(logits), maxima.data<C>()[row]);
                    });
  });
  staged.finish(ctx);
}

void cpu::row_target(KernelContext& ctx, const Array& logits, const Array& target,
                     const Array& out) {
  const Shape rows = rows_shape("row_target", logits);
  check_shape("row_target", "target", target, rows);
  check_shape("row_target", "out", out, rows);
  const Array ids = read_targets(ctx, "row_target", target, classes_of(logits));
  const StagedOutput staged(ctx, out, line_dtype(logits.dtype()));
  const int last = logits.ndim() - 1;
  const LineOffsets<2> lines(rows, {without_dim(logits.strides(), last), staged.array().strides()});
  visit_floating(logits.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    for (std::int64_t line = 0; line < lines.count(); ++line) {
      const auto at = lines.at(line);
      const std::int64_t id = ids.data<std::int64_t>()[line];
      staged.array().data<C>()[at[1]] =
          id < 0 ? C(0) : convert<C>(logits.data<T>()[at[0] + id * class_stride(logits)]);
    }
  });
  staged.finish(ctx);
}

void cpu::cross_entropy_grad(KernelContext& ctx, const Array& grad, const Array& logits,
                             const Array& target, const Array& lse, const Array& grad_logits) {
  const Shape rows = rows_shape("cross_entropy_grad", logits);
  check_shape("cross_entropy_grad", "target", target, rows);
  check_shape("cross_entropy_grad", "lse", lse, rows);
  check_shape("cross_entropy_grad", "grad_logits", grad_logits, logits.shape());
  const Array ids = read_targets(ctx, "cross_entropy_grad", target, classes_of(logits));
  const DType dtype = common_floating("cross_entropy_grad", {logits.dtype(), grad_logits.dtype()});
  const Array row_lse = as_dtype(ctx, lse, line_dtype(dtype));
  Array row_grad = as_dtype(ctx, grad, line_dtype(dtype));
  if (grad.ndim() == 0)
    row_grad = row_grad.as_strided(rows, Shape(rows.size(), 0), row_grad.offset());
  check_shape("cross_entropy_grad", "grad", row_grad, rows);
  const StagedOutput staged(ctx, grad_logits, dtype);
  const Array in = as_dtype(ctx, logits, dtype);
  visit_floating(dtype, [&](auto tag) {
    write_grad<typename decltype(tag)::type>(ctx.threads,
                                             {row_grad, in, ids, row_lse, staged.array()});
  });
  staged.finish(ctx);
}

}  // namespace tessera::kernels
