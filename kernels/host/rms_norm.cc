#include <algorithm>
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/host/simd.h"
#include "kernels/kernel_table.h"
#include "kernels/lines.h"
#include "kernels/norm.h"
#include "kernels/norm_checks.h"
#include "kernels/parallel_loop.h"

namespace tessera::kernels {
namespace {

/// A 1-D array of any stride in the computation type.
template <class C>
std::vector<C> read_weight(const Array& weight) {
  std::vector<C> values(static_cast<std::size_t>(weight.size(0)));
  visit_floating(weight.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const from = weight.data<T>();
    const std::int64_t stride = weight.strides()[0];
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = convert<C>(from[static_cast<std::int64_t>(i) * stride]);
    }
  });
  return values;
}

struct NormArrays {
  const Array& x;
  const Array& weight;
  const Array& out;
  const Array& rstd;
  double eps;
};

template <class T>
void normalise(int threads, const NormArrays& arrays) {
  using C = ComputeType<T>;
  const Array &x = arrays.x, &out = arrays.out;
  const int last = x.ndim() - 1;
  const std::int64_t n = x.size(last);
  const std::vector<C> weight = read_weight<C>(arrays.weight);
  const LineOffsets<3> lines(
      without_dim(x.shape(), last),
      {without_dim(x.strides(), last), without_dim(out.strides(), last), arrays.rstd.strides()});
  parallel_ranges(threads, lines.count(), 1, 2 * n, [&](std::int64_t begin, std::int64_t end) {
    std::vector<C> x_buffer(n), out_buffer(n);
    for (std::int64_t line = begin; line < end; ++line) {
      const auto at = lines.at(line);
      const C* in = load_line(x.data<T>() + at[0], x.strides()[last], n, x_buffer.data());
      const C mean = dot_of(in, in, n) / static_cast<C>(n);
      const C rstd = C(1) / std::sqrt(mean + static_cast<C>(arrays.eps));
      arrays.rstd.data<C>()[at[2]] = rstd;
      T* const target = out.data<T>() + at[1];
      C* const y = line_target(target, out.strides()[last], out_buffer.data());
#pragma omp simd
      for (std::int64_t i = 0; i < n; ++i) y[i] = in[i] * rstd * weight[i];
      store_line(y, n, target, out.strides()[last]);
    }
  });
}

struct NormGradArrays {
  const Array& grad;
  const Array& x;
  const Array& rstd;
  const Array& weight;
  const Array& grad_x;
};

// grad_weight adds rows in the computation type inside a bundle, bundles in F64 inside a task,
// tasks in order: the cuts depend on the number of rows only, so that the threads do not change the
// result.
constexpr std::int64_t kBundleRows = 64;
constexpr std::int64_t kMostTasks = 64;

template <class T>
class NormGrad {
 public:
  using C = ComputeType<T>;

  explicit NormGrad(const NormGradArrays& arrays)
      : arrays_(arrays),
        last_(arrays.x.ndim() - 1),
        n_(arrays.x.size(last_)),
        weight_(read_weight<C>(arrays.weight)),
        lines_(without_dim(arrays.x.shape(), last_),
               {without_dim(arrays.grad.strides(), last_), without_dim(arrays.x.strides(), last_),
                without_dim(arrays.grad_x.strides(), last_), arrays.rstd.strides()}) {}

  /// Writes grad_x; returns the sum for grad_weight.
  std::vector<double> run(int threads) const {
    const std::int64_t bundles = (lines_.count() + kBundleRows - 1) / kBundleRows;
    const std::int64_t step = std::max<std::int64_t>(1, (bundles + kMostTasks - 1) / kMostTasks);
    const std::int64_t tasks = (bundles + step - 1) / step;
    std::vector<double> sums(static_cast<std::size_t>(tasks * n_), 0.0);
    parallel_ranges(threads, tasks, 1, 4 * step * kBundleRows * n_,
                    [&](std::int64_t begin, std::int64_t end) {
                      Buffers buffers(n_);
                      for (std::int64_t task = begin; task < end; ++task) {
                        run_task(task * step, std::min(bundles, (task + 1) * step), buffers,
                                 sums.data() + task * n_);
                      }
                    });
    std::vector<double> total(static_cast<std::size_t>(n_), 0.0);
    for (std::int64_t task = 0; task < tasks; ++task) {
      for (std::int64_t i = 0; i < n_; ++i) total[i] += sums[task * n_ + i];
    }
    return total;
  }

 private:
  struct Buffers {
    explicit Buffers(std::int64_t n) : grad(n), x(n), grad_x(n), weight_sum(n) {}
    std::vector<C> grad, x, grad_x, weight_sum;
  };

  void run_task(std::int64_t first, std::int64_t last, Buffers& buffers, double* sums) const {
    for (std::int64_t bundle = first; bundle < last; ++bundle) {
      std::fill(buffers.weight_sum.begin(), buffers.weight_sum.end(), C(0));
      const std::int64_t end = std::min(lines_.count(), (bundle + 1) * kBundleRows);
      for (std::int64_t line = bundle * kBundleRows; line < end; ++line) run_line(line, buffers);
      for (std::int64_t i = 0; i < n_; ++i) sums[i] += static_cast<double>(buffers.weight_sum[i]);
    }
  }

  void run_line(std::int64_t line, Buffers& buffers) const {
    const auto at = lines_.at(line);
    const C* g = load_line(arrays_.grad.data<T>() + at[0], arrays_.grad.strides()[last_], n_,
                           buffers.grad.data());
    const C* x =
        load_line(arrays_.x.data<T>() + at[1], arrays_.x.strides()[last_], n_, buffers.x.data());
    const C* w = weight_.data();
    const C rstd = arrays_.rstd.data<C>()[at[3]];
    const C inner = sum_terms<C>(n_, [=](std::int64_t i, std::int64_t count) {
      return count == kLanes<C>
                 ? load_vec(g + i) * load_vec(w + i) * load_vec(x + i)
                 : load_vec_part(g + i, count, C(0)) * load_vec_part(w + i, count, C(0)) *
                       load_vec_part(x + i, count, C(0));
    });
    const C slope = rstd * rstd * rstd * inner / static_cast<C>(n_);
    const std::int64_t step = arrays_.grad_x.strides()[last_];
    T* const target = arrays_.grad_x.data<T>() + at[2];
    C* const out = line_target(target, step, buffers.grad_x.data());
    C* const sum = buffers.weight_sum.data();
#pragma omp simd
    for (std::int64_t i = 0; i < n_; ++i) {
      const C grad = g[i], value = x[i];
      sum[i] += grad * (value * rstd);
      out[i] = grad * w[i] * rstd - value * slope;
    }
    store_line(out, n_, target, step);
  }

  NormGradArrays arrays_;
  int last_;
  std::int64_t n_;
  std::vector<C> weight_;
  LineOffsets<4> lines_;
};

}  // namespace

void cpu::rms_norm(KernelContext& ctx, const Array& x, const Array& weight, double eps,
                   const Array& out, const Array& rstd) {
  check_norm("rms_norm", x, weight, rstd);
  check_shape("rms_norm", "out", out, x.shape());
  const DType dtype = common_floating("rms_norm", {x.dtype(), out.dtype()});
  common_floating("rms_norm", {weight.dtype(), rstd.dtype()});
  const StagedOutput y(ctx, out, dtype), scale(ctx, rstd, line_dtype(dtype));
  const Array in = as_dtype(ctx, x, dtype);
  visit_floating(dtype, [&](auto tag) {
    normalise<typename decltype(tag)::type>(ctx.threads,
                                            {in, weight, y.array(), scale.array(), eps});
  });
  y.finish(ctx);
  scale.finish(ctx);
}

void cpu::rms_norm_grad(KernelContext& ctx, const Array& grad, const Array& x, const Array& rstd,
                        const Array& weight, const Array& grad_x, const Array& grad_weight) {
  check_norm("rms_norm_grad", x, weight, rstd);
  check_shape("rms_norm_grad", "grad", grad, x.shape());
  check_shape("rms_norm_grad", "grad_x", grad_x, x.shape());
  check_shape("rms_norm_grad", "grad_weight", grad_weight, weight.shape());
  const DType dtype = common_floating("rms_norm_grad", {grad.dtype(), x.dtype(), grad_x.dtype()});
  common_floating("rms_norm_grad", {weight.dtype(), rstd.dtype(), grad_weight.dtype()});
  const StagedOutput staged(ctx, grad_x, dtype);
  const Array g = as_dtype(ctx, grad, dtype), in = as_dtype(ctx, x, dtype);
  const Array scale = as_dtype(ctx, rstd, line_dtype(dtype));
  visit_floating(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::vector<double> sum =
        NormGrad<T>({g, in, scale, weight, staged.array()}).run(ctx.threads);
    cpu::copy(ctx, Array::from_values(grad_weight.shape(), DType::kF64, sum), grad_weight);
  });
  staged.finish(ctx);
}

}  // namespace tessera::kernels
