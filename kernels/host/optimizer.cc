#include "kernels/optimizer.h"

#include "kernels/host/block_map.h"
#include "kernels/host/vector_sqrt.h"
#include "kernels/kernel_table.h"
#include "kernels/optimizer_update.h"
#include "kernels/parallel_loop.h"

namespace tessera::kernels {
namespace {

/// One piece of at most kStagedElements: everything stays in the first-level cache between the two
/// loops.
template <class C>
void update_piece(const AdamWFactors<C>& f, const C* const* in, C* const* out, std::int64_t n) {
  alignas(64) C roots[kStagedElements];
  const C* param = in[0];
  const C* grad = in[1];
  const C* old_m = in[2];
  const C* old_v = in[3];
  C* new_param = out[0];
  C* m = out[1];
  C* v = out[2];
  const auto update_moments = [&](const auto& decay) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      const C g = grad[i] * f.grad_scale + decay(param[i]);
      m[i] = f.beta1 * old_m[i] + f.one_minus_beta1 * g;
      v[i] = f.beta2 * old_v[i] + f.one_minus_beta2 * g * g;
    }
  };
  if (f.in_gradient == C{0}) {
    update_moments([](C) { return C{0}; });
  } else {
    update_moments([&f](C p) { return f.in_gradient * p; });
  }
  square_roots(v, roots, n);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const C denominator = roots[i] * f.root_correction + f.eps;
    new_param[i] = param[i] * f.keep - f.step_size * (m[i] / denominator);
  }
}

template <class C>
void update_dense(const AdamWFactors<C>& f, C* const* arrays, std::int64_t begin,
                  std::int64_t end) {
  for (std::int64_t i = begin; i < end; i += kStagedElements) {
    C* out[] = {arrays[0] + i, arrays[2] + i, arrays[3] + i};
    const C* in[] = {arrays[0] + i, arrays[1] + i, arrays[2] + i, arrays[3] + i};
    update_piece(f, in, out, std::min(kStagedElements, end - i));
  }
}

template <class C>
void run_sgd(KernelContext& ctx, const SgdFactors<C>& f, const Array& param, const Array& grad) {
  BlockMap<C, 1, 2>("sgd", {&param, &param, &grad})
      .run(ctx.threads, [&f](const C* const* in, C* const* out, std::int64_t n) {
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) {
          const C g = in[1][i] * f.grad_scale + taken(f.decay, in[0][i]);
          out[0][i] = in[0][i] - f.lr * g;
        }
      });
}

template <class C>
void run_sgd_with_momentum(KernelContext& ctx, const SgdFactors<C>& f, const Array& param,
                           const Array& grad, const Array& buffer) {
  BlockMap<C, 2, 3>("sgd", {&param, &buffer, &param, &grad, &buffer})
      .run(ctx.threads, [&f](const C* const* in, C* const* out, std::int64_t n) {
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) {
          const C p = in[0][i];
          const C g = in[1][i] * f.grad_scale + taken(f.decay, p);
          const C b = taken(f.momentum, in[2][i]) + f.take * g;
          out[1][i] = b;
          out[0][i] = p - f.lr * (taken(f.of_grad, g) + f.of_buffer * b);
        }
      });
}

}  // namespace

void cpu::sgd(KernelContext& ctx, const SgdOptions& options, const Array& param, const Array& grad,
              const Array& buffer) {
  check_sgd(param, grad, buffer);
  const DType compute = param.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  visit_compute_type(compute, [&]<class C>(TypeTag<C>) {
    if constexpr (std::is_floating_point_v<C>) {
      const SgdFactors<C> factors(options);
      if (buffer.is_null()) return run_sgd(ctx, factors, param, grad);
      run_sgd_with_momentum(ctx, factors, param, grad, buffer);
    }
  });
}

void cpu::adamw(KernelContext& ctx, const AdamWOptions& options, const Array& param,
                const Array& grad, const Array& m, const Array& v) {
  check_adamw(param, grad, m, v);
  const DType state = param.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  visit_compute_type(state, [&]<class C>(TypeTag<C>) {
    if constexpr (std::is_floating_point_v<C>) {
      const AdamWFactors<C> factors(options);
      const bool dense = param.dtype() == state && same_dense(grad, param) &&
                         same_dense(m, param) && same_dense(v, param);
      if (dense) {
        C* arrays[] = {param.data<C>(), grad.data<C>(), m.data<C>(), v.data<C>()};
        parallel_ranges(ctx.threads, param.num_elements(), 8192, 1,
                        [&](std::int64_t begin, std::int64_t end) {
                          update_dense(factors, arrays, begin, end);
                        });
        return;
      }
      const auto update = [&](const C* const* in, C* const* out, std::int64_t n) {
        for (std::int64_t i = 0; i < n; i += kStagedElements) {
          const C* inputs[] = {in[0] + i, in[1] + i, in[2] + i, in[3] + i};
          C* outputs[] = {out[0] + i, out[1] + i, out[2] + i};
          update_piece(factors, inputs, outputs, std::min(kStagedElements, n - i));
        }
      };
      BlockMap<C, 3, 4>("adamw", {&param, &m, &v, &param, &grad, &m, &v}).run(ctx.threads, update);
    }
  });
}

namespace {

const double* steering_of(const char* kernel, const Array& steering) {
  require_f64_list(kernel, "steering", steering, Steering::kSize);
  return steering.data<double>();
}

}  // namespace

void cpu::adamw_all(KernelContext& ctx, const AdamWOptions& options,
                    std::span<const AdamWArrays> all, const Array& steering) {
  const double* steer = steering_of("adamw_all", steering);
  for (const AdamWArrays& each : all) check_adamw(each.param, each.grad, each.m, each.v);
  if (steer[Steering::kGo] == 0.0) return;
  const AdamWOptions of_step = steered(options, steer);
  for (const AdamWArrays& each : all)
    cpu::adamw(ctx, of_step, each.param, each.grad, each.m, each.v);
}

void cpu::sgd_all(KernelContext& ctx, const SgdOptions& options, std::span<const SgdArrays> all,
                  const Array& steering) {
  const double* steer = steering_of("sgd_all", steering);
  for (const SgdArrays& each : all) check_sgd(each.param, each.grad, each.buffer);
  if (steer[Steering::kGo] == 0.0) return;
  const SgdOptions of_step = steered(options, steer);
  for (const SgdArrays& each : all) cpu::sgd(ctx, of_step, each.param, each.grad, each.buffer);
}

void cpu::steer_step(KernelContext&, const StepLimits& limits, const StepSums& sums,
                     const Array& norm, const Array& steering) {
  check_steer_step(sums, norm, steering);
  const bool bounded = !sums.rows_needed.is_null();
  StepSteering{.limits = limits,
               .schedule = sums.schedule.data<double>(),
               .sums = sums.sums.data<double>(),
               .rows_needed = bounded ? sums.rows_needed.data<double>() : nullptr,
               .layers = bounded ? sums.rows_needed.num_elements() : 0,
               .norm = norm.data<double>(),
               .steering = steering.data<double>()}();
}

void cpu::balance_bias(KernelContext&, const BiasUpdate& update, const Array& counts_E,
                       const Array& steering, const Array& bias_E) {
  check_balance_bias(counts_E, steering, bias_E);
  if (steering.data<double>()[Steering::kGo] == 0.0) return;
  const LoadGaps gaps = {update, counts_E.data<std::int64_t>(), counts_E.num_elements()};
  const double mean = gaps.total() / static_cast<double>(gaps.num_experts);
  const double centre = gaps.centre(mean);
  visit_compute_type(bias_E.dtype(), [&]<class C>(TypeTag<C>) {
    if constexpr (std::is_floating_point_v<C>) {
      C* bias = bias_E.data<C>();
      for (std::int64_t e = 0; e < gaps.num_experts; ++e) {
        bias[e] += static_cast<C>(update.coefficient * gaps.sign(e, mean) - centre);
      }
    }
  });
}

}  // namespace tessera::kernels
