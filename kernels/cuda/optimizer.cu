#include "kernels/cuda/kernels.h"
#include "kernels/cuda/map.h"
#include "kernels/optimizer_update.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

template <class C>
struct AdamWStep {
  AdamWFactors<C> f;
  __device__ void operator()(std::int64_t, const C* in, C* out) const {
    const C param = in[0], m = in[2], v = in[3];
    const C decay = f.in_gradient == C{0} ? C{0} : f.in_gradient * param;
    const C grad = in[1] * f.grad_scale + decay;
    out[1] = f.beta1 * m + f.one_minus_beta1 * grad;
    out[2] = f.beta2 * v + f.one_minus_beta2 * grad * grad;
    const C denominator = std::sqrt(out[2]) * f.root_correction + f.eps;
    out[0] = param * f.keep - f.step_size * (out[1] / denominator);
  }
};

template <class C>
struct SgdStep {
  SgdFactors<C> f;
  __device__ void operator()(std::int64_t, const C* in, C* out) const {
    out[0] = in[0] - f.lr * (in[1] * f.grad_scale + taken(f.decay, in[0]));
  }
};
template <class C>
struct MomentumStep {
  SgdFactors<C> f;
  __device__ void operator()(std::int64_t, const C* in, C* out) const {
    const C grad = in[1] * f.grad_scale + taken(f.decay, in[0]);
    out[1] = taken(f.momentum, in[2]) + f.take * grad;
    out[0] = in[0] - f.lr * (taken(f.of_grad, grad) + f.of_buffer * out[1]);
  }
};

}  // namespace

void adamw(KernelContext& ctx, const AdamWOptions& options, const Array& param, const Array& grad,
           const Array& m, const Array& v) {
  check_adamw(param, grad, m, v);
  visit_float_type(param.dtype(), [&]<class C>(TypeTag<C>) {
    map<C, 3, 4>(ctx, "adamw", {&param, &m, &v, &param, &grad, &m, &v},
                 AdamWStep<C>{AdamWFactors<C>(options)});
  });
}

void sgd(KernelContext& ctx, const SgdOptions& options, const Array& param, const Array& grad,
         const Array& buffer) {
  check_sgd(param, grad, buffer);
  visit_float_type(param.dtype(), [&]<class C>(TypeTag<C>) {
    const SgdFactors<C> factors(options);
    if (buffer.is_null()) {
      map<C, 1, 2>(ctx, "sgd", {&param, &param, &grad}, SgdStep<C>{factors});
    } else {
      map<C, 2, 3>(ctx, "sgd", {&param, &buffer, &param, &grad, &buffer}, MomentumStep<C>{factors});
    }
  });
}

}  // namespace tessera::kernels::TSR_CUDA
