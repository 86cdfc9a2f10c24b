#include "kernels/cuda/kernels.h"
#include "kernels/cuda/map.h"
#include "kernels/optimizer_update.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

template <class C>
struct AdamWValues {
  C param, m, v;
};
template <class C>
__device__ AdamWValues<C> updated(const AdamWFactors<C>& f, const AdamWValues<C>& old, C raw_grad) {
  const C decay = f.in_gradient == C{0} ? C{0} : f.in_gradient * old.param;
  const C grad = raw_grad * f.grad_scale + decay;
  AdamWValues<C> now;
  now.m = f.beta1 * old.m + f.one_minus_beta1 * grad;
  now.v = f.beta2 * old.v + f.one_minus_beta2 * grad * grad;
  const C denominator = std::sqrt(now.v) * f.root_correction + f.eps;
  now.param = old.param * f.keep - f.step_size * (now.m / denominator);
  return now;
}

template <class C>
struct AdamWStep {
  AdamWFactors<C> f;
  __device__ void operator()(std::int64_t, const C* in, C* out) const {
    const AdamWValues<C> now = updated(f, {in[0], in[2], in[3]}, in[1]);
    out[0] = now.param;
    out[1] = now.m;
    out[2] = now.v;
  }
};
/// Of operands that are not dense.
template <class C>
struct SteeredAdamWStep {
  AdamWOptions options;
  const double* steering;
  __device__ void operator()(std::int64_t i, const C* in, C* out) const {
    if (steering[Steering::kGo] == 0.0) {
      out[0] = in[0];
      out[1] = in[2];
      out[2] = in[3];
      return;
    }
    AdamWStep<C>{AdamWFactors<C>(steered(options, steering))}(i, in, out);
  }
};

constexpr std::int64_t kListTensors = 60;
#ifdef __CUDACC__
constexpr int kUpdateThreads = 256;
constexpr std::int64_t kTile = 4096, kMostTiles = 8192;
#else
constexpr int kUpdateThreads = 32;
constexpr std::int64_t kTile = 96, kMostTiles = 3;
#endif

/// Dense tensors whose tiles of elements count on from one to the next.
struct AdamWList {
  struct Tensor {
    std::byte* arrays[4];  // param, grad, m, v
    std::int64_t first_tile, size;
    DType dtypes[4];
    bool has_vectors;  // all of the computation's type, and aligned
  };
  int count = 0;
  std::int64_t tiles = 0;
  AdamWOptions options;
  const double* steering = nullptr;
  Tensor tensors[kListTensors] = {};
};
static_assert(sizeof(AdamWList) <= 4000);

template <class C>
struct alignas(16) UpdateVector {
  static constexpr std::int64_t kSize = 16 / sizeof(C);
  C values[kSize];
};

/// Elements [begin, end) of a tensor, by the block's threads.
template <class C>
__device__ void update_tile(const AdamWFactors<C>& f, const AdamWList::Tensor& tensor,
                            std::int64_t begin, std::int64_t end) {
  using Vector = UpdateVector<C>;
  const auto update_one = [&](std::int64_t i) {
    const auto value = [&](int which) {
      return load<C>({.data = tensor.arrays[which], .dtype = tensor.dtypes[which], .strides = {}},
                     i);
    };
    const auto keep = [&](int which, C of) {
      store(MapOperand{.data = tensor.arrays[which], .dtype = tensor.dtypes[which], .strides = {}},
            i, of);
    };
    const AdamWValues<C> now = updated(f, {value(0), value(2), value(3)}, value(1));
    keep(0, now.param);
    keep(2, now.m);
    keep(3, now.v);
  };
  const std::int64_t whole =
      tensor.has_vectors ? begin + (end - begin) / Vector::kSize * Vector::kSize : begin;
  const std::int64_t step = blockDim.x * Vector::kSize;
  for (std::int64_t i = begin + threadIdx.x * Vector::kSize; i < whole; i += step) {
    const auto vector = [&](int which) -> Vector& {
      return *reinterpret_cast<Vector*>(reinterpret_cast<C*>(tensor.arrays[which]) + i);
    };
    Vector param = vector(0), m = vector(2), v = vector(3);
    const Vector grad = vector(1);
    for (int k = 0; k < Vector::kSize; ++k) {
      const AdamWValues<C> now =
          updated(f, {param.values[k], m.values[k], v.values[k]}, grad.values[k]);
      param.values[k] = now.param;
      m.values[k] = now.m;
      v.values[k] = now.v;
    }
    vector(0) = param;
    vector(2) = m;
    vector(3) = v;
  }
  for (std::int64_t i = whole + threadIdx.x; i < end; i += blockDim.x) update_one(i);
}

template <class C>
__global__ void update_list(const __grid_constant__ AdamWList list) {
  TSR_SHARED(AdamWFactors<C>, factors, [1]);
  if (list.steering[Steering::kGo] == 0.0) return;
  if (threadIdx.x == 0) factors[0] = AdamWFactors<C>(steered(list.options, list.steering));
  __syncthreads();
  for (std::int64_t tile = blockIdx.x; tile < list.tiles; tile += gridDim.x) {
    int low = 0, high = list.count;  // the tensor is in [low, high)
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (list.tensors[middle].first_tile <= tile ? low : high) = middle;
    }
    const AdamWList::Tensor& tensor = list.tensors[low];
    const std::int64_t begin = (tile - tensor.first_tile) * kTile;
    const std::int64_t end = begin + kTile < tensor.size ? begin + kTile : tensor.size;
    update_tile(factors[0], tensor, begin, end);
  }
}

template <class C>
void launch_list(KernelContext& ctx, AdamWList& list) {
  if (list.tiles == 0) return;
  const Grid grid = {.blocks = static_cast<unsigned>(std::min(list.tiles, kMostTiles)),
                     .threads = kUpdateThreads};
  check(launch<update_list<C>>(grid, stream_of(ctx), list), *ctx.device, "adamw_all");
  list.count = 0;
  list.tiles = 0;
}

template <class C>
void add_to_list(AdamWList& list, const AdamWArrays& each) {
  AdamWList::Tensor& tensor = list.tensors[list.count++];
  tensor.first_tile = list.tiles;
  tensor.size = each.param.num_elements();
  tensor.has_vectors = true;
  const Array* arrays[] = {&each.param, &each.grad, &each.m, &each.v};
  for (int k = 0; k < 4; ++k) {
    tensor.arrays[k] = arrays[k]->bytes();
    tensor.dtypes[k] = arrays[k]->dtype();
    const bool is_aligned = reinterpret_cast<std::uintptr_t>(arrays[k]->bytes()) % 16 == 0;
    tensor.has_vectors &= arrays[k]->dtype() == dtype_of<C>() && is_aligned;
  }
  list.tiles += (tensor.size + kTile - 1) / kTile;
}

template <class C>
struct SgdStep {
  SgdFactors<C> f;
  __device__ void operator()(std::int64_t, const C* in, C* out) const {
    out[0] = in[0] - f.lr * (in[1] * f.grad_scale + taken(f.decay, in[0]));
  }
};
template <class C, class Step, int kOutputs>
struct SteeredSgdStep {
  SgdOptions options;
  const double* steering;
  __device__ void operator()(std::int64_t i, const C* in, C* out) const {
    if (steering[Steering::kGo] != 0.0)
      return Step{SgdFactors<C>(steered(options, steering))}(i, in, out);
    out[0] = in[0];
    if (kOutputs > 1) out[1] = in[2];
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

void adamw_all(KernelContext& ctx, const AdamWOptions& options, std::span<const AdamWArrays> all,
               const Array& steering) {
  require_f64_list("adamw_all", "steering", steering, Steering::kSize);
  for (const AdamWArrays& each : all) check_adamw(each.param, each.grad, each.m, each.v);
  const auto* steer = device_data<const double>(steering);
  const Current current(*ctx.device);
  for (const DType compute : {DType::kF32, DType::kF64}) {
    visit_float_type(compute, [&]<class C>(TypeTag<C>) {
      AdamWList list;
      list.options = options;
      list.steering = steer;
      for (const AdamWArrays& each : all) {
        if ((each.param.dtype() == DType::kF64) != (compute == DType::kF64)) continue;
        const auto& [param, grad, m, v] = each;
        const bool is_dense =
            param.is_contiguous() && grad.is_contiguous() && m.is_contiguous() && v.is_contiguous();
        if (!is_dense) {
          map<C, 3, 4>(ctx, "adamw_all", {&param, &m, &v, &param, &grad, &m, &v},
                       SteeredAdamWStep<C>{options, steer});
          continue;
        }
        add_to_list<C>(list, each);
        if (list.count == kListTensors) launch_list<C>(ctx, list);
      }
      launch_list<C>(ctx, list);
    });
  }
}

void sgd_all(KernelContext& ctx, const SgdOptions& options, std::span<const SgdArrays> all,
             const Array& steering) {
  require_f64_list("sgd_all", "steering", steering, Steering::kSize);
  for (const SgdArrays& each : all) check_sgd(each.param, each.grad, each.buffer);
  const auto* steer = device_data<const double>(steering);
  for (const auto& [param, grad, buffer] : all) {
    visit_float_type(param.dtype(), [&]<class C>(TypeTag<C>) {
      if (buffer.is_null()) {
        map<C, 1, 2>(ctx, "sgd_all", {&param, &param, &grad},
                     SteeredSgdStep<C, SgdStep<C>, 1>{options, steer});
      } else {
        map<C, 2, 3>(ctx, "sgd_all", {&param, &buffer, &param, &grad, &buffer},
                     SteeredSgdStep<C, MomentumStep<C>, 2>{options, steer});
      }
    });
  }
}

namespace {

__global__ void steer(StepSteering step) { step(); }

template <class C>
__global__ void add_to_bias(LoadGaps gaps, const double* steering, C* bias) {
  if (steering[Steering::kGo] == 0.0) return;
  const double mean = gaps.total() / static_cast<double>(gaps.num_experts);
  const double centre = gaps.centre(mean);
  for (std::int64_t e = threadIdx.x; e < gaps.num_experts; e += blockDim.x) {
    bias[e] += static_cast<C>(gaps.update.coefficient * gaps.sign(e, mean) - centre);
  }
}

}  // namespace

void steer_step(KernelContext& ctx, const StepLimits& limits, const StepSums& sums,
                const Array& norm, const Array& steering) {
  check_steer_step(sums, norm, steering);
  const bool bounded = !sums.rows_needed.is_null();
  const StepSteering step = {
      .limits = limits,
      .schedule = device_data<const double>(sums.schedule),
      .sums = device_data<const double>(sums.sums),
      .rows_needed = bounded ? device_data<const double>(sums.rows_needed) : nullptr,
      .layers = bounded ? sums.rows_needed.num_elements() : 0,
      .norm = device_data<double>(norm),
      .steering = device_data<double>(steering)};
  const Current current(*ctx.device);
  check(launch<steer>({1, 1, 0}, stream_of(ctx), step), *ctx.device, "steer_step");
}

void balance_bias(KernelContext& ctx, const BiasUpdate& update, const Array& counts_E,
                  const Array& steering, const Array& bias_E) {
  check_balance_bias(counts_E, steering, bias_E);
  const LoadGaps gaps = {update, device_data<const std::int64_t>(counts_E),
                         counts_E.num_elements()};
  const Current current(*ctx.device);
  visit_float_type(bias_E.dtype(), [&]<class C>(TypeTag<C>) {
    check(launch<add_to_bias<C>>({1, kUpdateThreads, 0}, stream_of(ctx), gaps,
                                 device_data<const double>(steering), device_data<C>(bias_E)),
          *ctx.device, "balance_bias");
  });
}

}  // namespace tessera::kernels::TSR_CUDA
