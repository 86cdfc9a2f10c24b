#include "kernels/row_fold.h"

#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/lines.h"
#include "kernels/parallel_loop.h"
#include "kernels/row_folds.h"
#include "kernels/row_moments.h"

namespace tessera::kernels {
namespace {

/// f(first element of a row of x, place of its result in row-major order of the rows).
template <class T, class F>
void for_rows(int threads, const Array& x, const F& f) {
  const int last = x.ndim() - 1;
  const LineOffsets<1> lines(without_dim(x.shape(), last), {without_dim(x.strides(), last)});
  parallel_ranges(threads, lines.count(), 1, std::max<std::int64_t>(1, x.size(last)),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t line = begin; line < end; ++line) {
                      f(x.data<T>() + lines.at(line)[0], line);
                    }
                  });
}

/// One row with what its elements start from and how each joins.
template <class T, class Step>
double fold_row(const T* row, std::int64_t stride, std::int64_t n, double start, const Step& step) {
  double result = start;
  for (std::int64_t i = 0; i < n; ++i) result = step(result, convert<double>(row[i * stride]));
  return result;
}

template <class T, class Step>
void fold_all(KernelContext& ctx, const Array& x, double* out, double start, const Step& step) {
  const int last = x.ndim() - 1;
  const std::int64_t stride = x.strides()[static_cast<std::size_t>(last)];
  for_rows<T>(ctx.threads, x, [&](const T* row, std::int64_t line) {
    out[line] = fold_row(row, stride, x.size(last), start, step);
  });
}

template <class T>
void fold_typed(KernelContext& ctx, RowFolding folding, const Array& x, double* out) {
  row_folds::visit(folding, [&](const auto& fold) {
    fold_all<T>(ctx, x, out, fold.kStart, [fold](double a, double v) { return fold.step(a, v); });
  });
}

/// Blocks keep the mean's error small and are joined in order.
template <class T>
Moments moments_of(const T* row, std::int64_t stride, std::int64_t n) {
  constexpr std::int64_t kBlock = 1024;
  Moments whole;
  for (std::int64_t begin = 0; begin < n; begin += kBlock) {
    const std::int64_t end = std::min(n, begin + kBlock);
    Moments block{.count = static_cast<double>(end - begin)};
    double sum = 0.0;
    for (std::int64_t i = begin; i < end; ++i) sum += convert<double>(row[i * stride]);
    block.mean = sum / block.count;
    for (std::int64_t i = begin; i < end; ++i) {
      const double gap = convert<double>(row[i * stride]) - block.mean;
      block.deviations += gap * gap;
    }
    whole = combined(whole, block);
  }
  return whole;
}

}  // namespace

void cpu::fold_rows(KernelContext& ctx, RowFolding folding, const Array& x, const Array& out) {
  const Shape kept = without_dim(x.shape(), x.ndim() - 1);
  check_shape("fold_rows", "out", out, kept);
  const bool direct = out.dtype() == DType::kF64 && out.is_contiguous();
  const Array results = direct ? out : Array::empty(kept, DType::kF64, ctx.allocator);
  visit_dtype(x.dtype(),
              [&]<class T>(TypeTag<T>) { fold_typed<T>(ctx, folding, x, results.data<double>()); });
  if (!direct) cpu::copy(ctx, results, out);
}

void cpu::products_of_others(KernelContext& ctx, const Array& x, const Array& others,
                             const Array& totals) {
  const int last = x.ndim() - 1;
  const std::int64_t n = x.size(last), stride = x.strides()[static_cast<std::size_t>(last)];
  visit_dtype(x.dtype(), [&]<class T>(TypeTag<T>) {
    for_rows<T>(ctx.threads, x, [&](const T* row, std::int64_t line) {
      double* const to = others.data<double>() + line * n;
      double before = 1.0;
      for (std::int64_t i = 0; i < n; ++i) {
        to[i] = before;
        before *= convert<double>(row[i * stride]);
      }
      totals.data<double>()[line] = before;
      double after = 1.0;
      for (std::int64_t i = n; i-- > 0;) {
        to[i] *= after;
        after *= convert<double>(row[i * stride]);
      }
    });
  });
}

void cpu::row_moments(KernelContext& ctx, const Array& x, const Array& out) {
  const int last = x.ndim() - 1;
  const Shape kept = without_dim(x.shape(), last);
  check_moments("row_moments", out, with_first(3, kept));
  require_floating("row_moments", x.dtype());
  const std::int64_t rows = num_elements(kept);
  double* to = out.data<double>();
  visit_floating(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::int64_t stride = x.strides()[static_cast<std::size_t>(last)];
    for_rows<T>(ctx.threads, x, [&](const T* row, std::int64_t line) {
      const Moments moments = moments_of(row, stride, x.size(last));
      to[line] = moments.count;
      to[rows + line] = moments.mean;
      to[2 * rows + line] = moments.deviations;
    });
  });
}

void cpu::combine_moments(KernelContext& ctx, const Array& parts, const Array& out) {
  check_combine_moments(parts, out);
  const Array dense = contiguous(ctx, parts);
  const std::int64_t rows = out.num_elements() / 3;
  const double* from = dense.data<double>();
  double* to = out.data<double>();
  for (std::int64_t row = 0; row < rows; ++row) {
    Moments whole;
    for (std::int64_t part = 0; part < dense.size(0); ++part) {
      const double* at = from + part * 3 * rows + row;
      whole = combined(whole, {at[0], at[rows], at[2 * rows]});
    }
    to[row] = whole.count;
    to[rows + row] = whole.mean;
    to[2 * rows + row] = whole.deviations;
  }
}

}  // namespace tessera::kernels
