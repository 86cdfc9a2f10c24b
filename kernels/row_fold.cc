#include "kernels/row_fold.h"

#include <cmath>
#include <limits>

#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/lines.h"
#include "kernels/parallel_loop.h"

namespace tessera::kernels {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

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
  const auto fold = [&](double start, const auto& step) { fold_all<T>(ctx, x, out, start, step); };
  const double power = folding.power;
  switch (folding.fold) {
    case RowFold::kSumNumbers:
      return fold(0.0, [](double a, double v) { return std::isnan(v) ? a : a + v; });
    case RowFold::kCountNumbers:
      return fold(0.0, [](double a, double v) { return std::isnan(v) ? a : a + 1.0; });
    case RowFold::kCountNonzero:
      return fold(0.0, [](double a, double v) { return v != 0.0 ? a + 1.0 : a; });
    case RowFold::kAny:
      return fold(0.0, [](double a, double v) { return v != 0.0 ? 1.0 : a; });
    case RowFold::kAll:
      return fold(1.0, [](double a, double v) { return v != 0.0 ? a : 0.0; });
    case RowFold::kSumAbs:
      return fold(0.0, [](double a, double v) { return a + std::abs(v); });
    case RowFold::kSumSquares:
      return fold(0.0, [](double a, double v) { return a + v * v; });
    case RowFold::kSumAbsPower:
      return fold(0.0, [power](double a, double v) { return a + std::pow(std::abs(v), power); });
    case RowFold::kMaxAbs:
      return fold(0.0,
                  [](double a, double v) { return std::abs(v) <= a || a != a ? a : std::abs(v); });
    case RowFold::kMinAbs:
      return fold(kInfinity,
                  [](double a, double v) { return std::abs(v) >= a || a != a ? a : std::abs(v); });
  }
}

struct Moments {
  double count = 0.0;
  double mean = 0.0;
  double deviations = 0.0;  ///< sum of squares of x − mean
};

Moments combined(const Moments& a, const Moments& b) {
  if (a.count == 0.0) return b;
  if (b.count == 0.0) return a;
  const double count = a.count + b.count;
  const double gap = b.mean - a.mean;
  // Where a mean is infinite, or the gap too large for a double, the mean is no sum with the gap.
  const double mean = std::isfinite(gap) ? a.mean + gap * (b.count / count)
                                         : a.mean * (a.count / count) + b.mean * (b.count / count);
  return {count, mean, a.deviations + b.deviations + gap * gap * (a.count * b.count / count)};
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

void check_moments(const char* kernel, const Array& out, const Shape& wanted) {
  check_shape(kernel, "out", out, wanted);
  if (out.dtype() != DType::kF64 || !out.is_contiguous()) {
    throw_dtype(kernel, out.dtype(), "contiguous F64 for the moments");
  }
}

Shape with_first(std::int64_t size, Shape shape) {
  shape.insert(shape.begin(), size);
  return shape;
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
  check_shape("combine_moments", "parts", parts, with_first(parts.size(0), out.shape()));
  check_moments("combine_moments", out, with_first(3, without_dim(out.shape(), 0)));
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
