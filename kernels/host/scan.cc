#include "kernels/scan.h"

#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/host/dim_lines.h"
#include "kernels/kernel_table.h"
#include "kernels/scan_folds.h"

namespace tessera::kernels {
namespace {

/// An alias of lines (other dims...) of parts, with a dim of size 1 where `dim` stands.
Array part_of(const Array& parts, std::int64_t k, int dim) {
  const Array one = parts.slice(0, k, k + 1);
  Shape shape(one.shape().begin() + 1, one.shape().end());
  Shape strides(one.strides().begin() + 1, one.strides().end());
  shape.insert(shape.begin() + dim, 1);
  strides.insert(strides.begin() + dim, 1);
  return one.as_strided(shape, strides, one.offset());
}

/// `out`, or where its dtype is neither x's nor that in which x's values join, an array of the
/// latter, from which finish() fills it: so that two dtypes of results have code, not each.
Array joined_in(KernelContext& ctx, const Array& x, const Array& out) {
  const DType wide = is_floating(x.dtype()) ? DType::kF64 : DType::kI64;
  if (out.dtype() == x.dtype() || out.dtype() == wide) return out;
  return Array::empty(x.shape(), wide, ctx.allocator);
}
void finish(KernelContext& ctx, const Array& joined, const Array& out) {
  if (joined.dtype() != out.dtype()) copy(ctx, joined, out);
}

/// f(the type of `joined`), which is T or Value.
template <class T, class Value, class F>
void visit_joined(const Array& joined, const F& f) {
  if (joined.dtype() == dtype_of<Value>()) return f(TypeTag<Value>());
  f(TypeTag<T>());
}

}  // namespace

void cpu::scan(KernelContext& ctx, Scan fold, const Array& x, int dim, const Array& out) {
  require_dim("scan", x, dim);
  require_shape("scan", "output", out, x.shape());
  const Array joined = joined_in(ctx, x, out);
  const DimLines lines(dim, {&joined, &x});
  visit_dtype(x.dtype(), [&]<class T>(TypeTag<T>) {
    using Value = SumType<T>;
    visit_scan_fold<Value>(x.dtype(), fold, [&]<class Fold>(Fold) {
      visit_joined<T, Value>(joined, [&]<class To>(TypeTag<To>) {
        lines.for_each(ctx.threads, [&](const Offsets& offsets) {
          const T* from = x.data<T>() + offsets[1];
          To* to = joined.data<To>() + offsets[0];
          auto value = static_cast<Value>(Fold::kIdentity);
          for (std::int64_t i = 0; i < x.size(dim); ++i) {
            value = Fold::apply(value, convert<Value>(from[i * lines.stride(1)]));
            to[i * lines.stride(0)] = convert<To>(value);
          }
        });
      });
    });
  });
  finish(ctx, joined, out);
}

void cpu::sum_back(KernelContext& ctx, const Array& x, int dim, const Array& out) {
  require_dim("sum_back", x, dim);
  require_shape("sum_back", "output", out, x.shape());
  const Array joined = joined_in(ctx, x, out);
  const DimLines lines(dim, {&joined, &x});
  visit_dtype(x.dtype(), [&]<class T>(TypeTag<T>) {
    using Value = SumType<T>;
    visit_joined<T, Value>(joined, [&]<class To>(TypeTag<To>) {
      lines.for_each(ctx.threads, [&](const Offsets& offsets) {
        const T* from = x.data<T>() + offsets[1];
        To* to = joined.data<To>() + offsets[0];
        Value value = SumFold<Value>::kIdentity;
        for (std::int64_t i = x.size(dim); i-- > 0;) {
          value = SumFold<Value>::apply(value, convert<Value>(from[i * lines.stride(1)]));
          to[i * lines.stride(0)] = convert<To>(value);
        }
      });
    });
  });
  finish(ctx, joined, out);
}

void cpu::carry_scan(KernelContext& ctx, Scan fold, const Array& parts, std::int64_t count, int dim,
                     const Array& out) {
  if (count == 0 || out.num_elements() == 0) return;
  visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    using Value = SumType<T>;
    visit_scan_fold<Value>(out.dtype(), fold, [&]<class Fold>(Fold) {
      const Array first = part_of(parts, 0, dim);
      const DimLines lines(dim, {&out, &first});
      lines.for_each(ctx.threads, [&](const Offsets& offsets) {
        auto carry = static_cast<Value>(Fold::kIdentity);
        for (std::int64_t k = 0; k < count; ++k) {
          const T* part = first.data<T>() + offsets[1] + k * parts.strides()[0];
          carry = Fold::apply(carry, convert<Value>(*part));
        }
        T* to = out.data<T>() + offsets[0];
        for (std::int64_t i = 0; i < out.size(dim); ++i) {
          T& value = to[i * lines.stride(0)];
          value = convert<T>(Fold::apply(carry, convert<Value>(value)));
        }
      });
    });
  });
}

void cpu::scan_extreme(KernelContext& ctx, Extreme which, const Array& x, int dim,
                       const Array& values, const Array& indices) {
  require_dim("scan_extreme", x, dim);
  require_shape("scan_extreme", "values", values, x.shape());
  require_shape("scan_extreme", "indices", indices, x.shape());
  const DimLines lines(dim, {&values, &x, &indices});
  visit_dtype(x.dtype(), [&]<class T>(TypeTag<T>) {
    using C = ComputeType<T>;
    lines.for_each(ctx.threads, [&](const Offsets& offsets) {
      const T* from = x.data<T>() + offsets[1];
      std::int64_t best = 0;
      for (std::int64_t i = 0; i < x.size(dim); ++i) {
        const T value = from[i * lines.stride(1)];
        if (takes_over(which, convert<C>(value), convert<C>(from[best * lines.stride(1)]))) {
          best = i;
        }
        values.data<T>()[offsets[0] + i * lines.stride(0)] = from[best * lines.stride(1)];
        indices.data<std::int64_t>()[offsets[2] + i * lines.stride(2)] = best;
      }
    });
  });
}

void cpu::carry_extreme(KernelContext& ctx, Extreme which, const ExtremeParts& parts, int dim,
                        const Array& values, const Array& indices) {
  if (parts.count == 0 || values.num_elements() == 0) return;
  const Array first = part_of(parts.values, 0, dim);
  const Array first_index = part_of(parts.indices, 0, dim);
  const DimLines lines(dim, {&values, &indices, &first, &first_index});
  visit_dtype(values.dtype(), [&]<class T>(TypeTag<T>) {
    using C = ComputeType<T>;
    lines.for_each(ctx.threads, [&](const Offsets& offsets) {
      T carry{};
      std::int64_t carry_index = -1;
      for (std::int64_t k = 0; k < parts.count; ++k) {
        const T value = first.data<T>()[offsets[2] + k * parts.values.strides()[0]];
        const std::int64_t index =
            first_index.data<std::int64_t>()[offsets[3] + k * parts.indices.strides()[0]];
        if (index < 0) continue;
        if (carry_index < 0 || takes_over(which, convert<C>(value), convert<C>(carry))) {
          carry = value;
          carry_index = index;
        }
      }
      if (carry_index < 0) return;
      for (std::int64_t i = 0; i < values.size(dim); ++i) {
        T& value = values.data<T>()[offsets[0] + i * lines.stride(0)];
        if (takes_over(which, convert<C>(value), convert<C>(carry))) continue;
        value = carry;
        indices.data<std::int64_t>()[offsets[1] + i * lines.stride(1)] = carry_index;
      }
    });
  });
}

void cpu::log_scan_sums(KernelContext& ctx, const Array& grad, const Array& result, int dim,
                        const Array& sums) {
  check_log_scan_sums(grad, result, sums);
  const DimLines lines(dim, {&sums, &grad, &result});
  visit_dtype(result.dtype(), [&]<class T>(TypeTag<T>) {
    lines.for_each(ctx.threads, [&](const Offsets& offsets) {
      const T* g = grad.data<T>() + offsets[1];
      const T* y = result.data<T>() + offsets[2];
      double* s = sums.data<double>() + offsets[0];
      double after = 0.0, after_result = 0.0;
      for (std::int64_t i = grad.size(dim); i-- > 0;) {
        const double here = convert<double>(y[i * lines.stride(2)]);
        after = convert<double>(g[i * lines.stride(1)]) + log_scan_carry(here, after, after_result);
        after_result = here;
        s[i * lines.stride(0)] = after;
      }
    });
  });
}

void cpu::log_scan_grad(KernelContext& ctx, const LogScan& scan, const LogScanParts& parts, int dim,
                        const Array& sums) {
  if (sums.num_elements() == 0) return;
  const Array first_result = part_of(parts.results, 0, dim);
  const Array first_sum = part_of(parts.sums, 0, dim);
  const DimLines lines(dim, {&sums, &scan.x, &scan.result, &first_result, &first_sum});
  visit_dtype(scan.result.dtype(), [&]<class T>(TypeTag<T>) {
    lines.for_each(ctx.threads, [&](const Offsets& offsets) {
      double after = 0.0, after_result = 0.0;
      for (std::int64_t k = parts.results.size(0); k-- > parts.next;) {
        const double here =
            first_result.data<double>()[offsets[3] + k * parts.results.strides()[0]];
        const double own = first_sum.data<double>()[offsets[4] + k * parts.sums.strides()[0]];
        if (own == 0.0 && std::signbit(own)) continue;
        after = own + log_scan_carry(here, after, after_result);
        after_result = here;
      }
      for (std::int64_t i = 0; i < sums.size(dim); ++i) {
        const double y = convert<double>(scan.result.data<T>()[offsets[2] + i * lines.stride(2)]);
        const double x = convert<double>(scan.x.data<T>()[offsets[1] + i * lines.stride(1)]);
        double& s = sums.data<double>()[offsets[0] + i * lines.stride(0)];
        if (after != 0.0) s += std::exp(y - after_result) * after;
        s *= std::exp(x - y);
      }
    });
  });
}

}  // namespace tessera::kernels
