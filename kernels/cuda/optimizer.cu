#include <algorithm>
#include <array>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/map.h"
#include "kernels/optimizer_update.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

// An update of one element: of `values`, the gradient is the second, and the only one that stays.

template <class C>
struct AdamWRule {
  static constexpr int kArrays = 4;  // param, grad, m, v
  using Options = AdamWOptions;
  using Factors = AdamWFactors<C>;
  __device__ static void apply(const Factors& f, C* values) {
    const C decay = f.in_gradient == C{0} ? C{0} : f.in_gradient * values[0];
    const C grad = values[1] * f.grad_scale + decay;
    values[2] = f.beta1 * values[2] + f.one_minus_beta1 * grad;
    values[3] = f.beta2 * values[3] + f.one_minus_beta2 * grad * grad;
    const C denominator = std::sqrt(values[3]) * f.root_correction + f.eps;
    values[0] = values[0] * f.keep - f.step_size * (values[2] / denominator);
  }
};
template <class C>
struct SgdRule {
  static constexpr int kArrays = 2;  // param, grad
  using Options = SgdOptions;
  using Factors = SgdFactors<C>;
  __device__ static void apply(const Factors& f, C* values) {
    values[0] -= f.lr * (values[1] * f.grad_scale + taken(f.decay, values[0]));
  }
};
template <class C>
struct MomentumRule {
  static constexpr int kArrays = 3;  // param, grad, buffer
  using Options = SgdOptions;
  using Factors = SgdFactors<C>;
  __device__ static void apply(const Factors& f, C* values) {
    const C grad = values[1] * f.grad_scale + taken(f.decay, values[0]);
    values[2] = taken(f.momentum, values[2]) + f.take * grad;
    values[0] -= f.lr * (taken(f.of_grad, grad) + f.of_buffer * values[2]);
  }
};

/// As map() calls it: reads a rule's arrays, writes all but the gradient.
template <class C, class Rule>
struct RuleStep {
  typename Rule::Factors f;
  __device__ void operator()(std::int64_t, const C* in, C* out) const {
    C values[Rule::kArrays];
    for (int k = 0; k < Rule::kArrays; ++k) values[k] = in[k];
    Rule::apply(f, values);
    out[0] = values[0];
    for (int k = 2; k < Rule::kArrays; ++k) out[k - 1] = values[k];
  }
};
/// Of operands that are not dense.
template <class C, class Rule>
struct SteeredRuleStep {
  typename Rule::Options options;
  const double* steering;
  __device__ void operator()(std::int64_t i, const C* in, C* out) const {
    if (steering[Steering::kGo] != 0.0) {
      using Factors = typename Rule::Factors;
      return RuleStep<C, Rule>{Factors(steered(options, steering))}(i, in, out);
    }
    out[0] = in[0];
    for (int k = 2; k < Rule::kArrays; ++k) out[k - 1] = in[k];
  }
};

template <int kArrays>
using RuleArrays = std::array<const Array*, kArrays>;
template <class C, class Rule, class Step>
void map_rule(KernelContext& ctx, const char* op, const RuleArrays<Rule::kArrays>& arrays,
              const Step& step) {
  constexpr int kArrays = Rule::kArrays;
  std::array<const Array*, 2 * kArrays - 1> operands;  // what is written, then what is read
  operands[0] = arrays[0];
  std::copy(arrays.begin() + 2, arrays.end(), operands.begin() + 1);
  std::copy(arrays.begin(), arrays.end(), operands.begin() + kArrays - 1);
  map<C, kArrays - 1, kArrays>(ctx, op, operands, step);
}

constexpr std::int64_t kListTensors = 60;
#ifdef __CUDACC__
constexpr int kUpdateThreads = 256;
constexpr std::int64_t kTile = 4096, kMostTiles = 8192;
#else
constexpr int kUpdateThreads = 32;
constexpr std::int64_t kTile = 96, kMostTiles = 3;
#endif

/// Dense tensors whose tiles of elements count on from one to the next.
template <class Rule>
struct UpdateList {
  struct Tensor {
    std::byte* arrays[Rule::kArrays];
    std::int64_t first_tile, size;
    DType dtypes[Rule::kArrays];
    bool has_vectors;  // all of the computation's type, and aligned
  };
  int count = 0;
  std::int64_t tiles = 0;
  typename Rule::Options options;
  const double* steering = nullptr;
  Tensor tensors[kListTensors] = {};
};
static_assert(sizeof(UpdateList<AdamWRule<float>>) <= 4000);  // of a kernel's 4 KiB of parameters

template <class C>
struct alignas(16) UpdateVector {
  static constexpr std::int64_t kSize = 16 / sizeof(C);
  C values[kSize];
};

/// Elements [begin, end) of a tensor, by the block's threads.
template <class C, class Rule>
__device__ void update_tile(const typename Rule::Factors& f,
                            const typename UpdateList<Rule>::Tensor& tensor, std::int64_t begin,
                            std::int64_t end) {
  using Vector = UpdateVector<C>;
  constexpr int kArrays = Rule::kArrays;
  const std::int64_t whole =
      tensor.has_vectors ? begin + (end - begin) / Vector::kSize * Vector::kSize : begin;
  const std::int64_t step = blockDim.x * Vector::kSize;
  for (std::int64_t i = begin + threadIdx.x * Vector::kSize; i < whole; i += step) {
    Vector vectors[kArrays];
    const auto vector = [&](int which) -> Vector& {
      return *reinterpret_cast<Vector*>(reinterpret_cast<C*>(tensor.arrays[which]) + i);
    };
    for (int k = 0; k < kArrays; ++k) vectors[k] = vector(k);
    for (int lane = 0; lane < Vector::kSize; ++lane) {
      C values[kArrays];
      for (int k = 0; k < kArrays; ++k) values[k] = vectors[k].values[lane];
      Rule::apply(f, values);
      for (int k = 0; k < kArrays; ++k) vectors[k].values[lane] = values[k];
    }
    for (int k = 0; k < kArrays; ++k) {
      if (k != 1) vector(k) = vectors[k];
    }
  }
  for (std::int64_t i = whole + threadIdx.x; i < end; i += blockDim.x) {
    const auto operand = [&](int which) {
      return MapOperand{.data = tensor.arrays[which], .dtype = tensor.dtypes[which], .strides = {}};
    };
    C values[kArrays];
    for (int k = 0; k < kArrays; ++k) values[k] = load<C>(operand(k), i);
    Rule::apply(f, values);
    for (int k = 0; k < kArrays; ++k) {
      if (k != 1) store(operand(k), i, values[k]);
    }
  }
}

template <class C, class Rule>
__global__ void update_list(const __grid_constant__ UpdateList<Rule> list) {
  using Factors = typename Rule::Factors;
  TSR_SHARED(Factors, factors, [1]);
  if (list.steering[Steering::kGo] == 0.0) return;
  if (threadIdx.x == 0) factors[0] = Factors(steered(list.options, list.steering));
  __syncthreads();
  for (std::int64_t tile = blockIdx.x; tile < list.tiles; tile += gridDim.x) {
    int low = 0, high = list.count;  // the tensor is in [low, high)
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (list.tensors[middle].first_tile <= tile ? low : high) = middle;
    }
    const auto& tensor = list.tensors[low];
    const std::int64_t begin = (tile - tensor.first_tile) * kTile;
    const std::int64_t end = begin + kTile < tensor.size ? begin + kTile : tensor.size;
    update_tile<C, Rule>(factors[0], tensor, begin, end);
  }
}

/// Updates of one rule and type: those of dense tensors gather into a launch.
template <class C, class Rule>
class Updates {
 public:
  Updates(KernelContext& ctx, const char* op, const typename Rule::Options& options,
          const double* steering)
      : ctx_(ctx), op_(op) {
    list_.options = options;
    list_.steering = steering;
  }

  void add(const RuleArrays<Rule::kArrays>& arrays) {
    const bool is_dense =
        std::ranges::all_of(arrays, [](const Array* array) { return array->is_contiguous(); });
    if (!is_dense) {
      return map_rule<C, Rule>(ctx_, op_, arrays,
                               SteeredRuleStep<C, Rule>{list_.options, list_.steering});
    }
    auto& tensor = list_.tensors[list_.count++];
    tensor.first_tile = list_.tiles;
    tensor.size = arrays[0]->num_elements();
    tensor.has_vectors = true;
    for (int k = 0; k < Rule::kArrays; ++k) {
      const Array& array = *arrays[static_cast<std::size_t>(k)];
      tensor.arrays[k] = array.bytes();
      tensor.dtypes[k] = array.dtype();
      const bool is_aligned = reinterpret_cast<std::uintptr_t>(array.bytes()) % 16 == 0;
      tensor.has_vectors &= array.dtype() == dtype_of<C>() && is_aligned;
    }
    list_.tiles += (tensor.size + kTile - 1) / kTile;
    if (list_.count == kListTensors) launch_list();
  }

  void launch_list() {
    if (list_.tiles > 0) {
      const Grid grid = {.blocks = static_cast<unsigned>(std::min(list_.tiles, kMostTiles)),
                         .threads = kUpdateThreads};
      check(launch<update_list<C, Rule>>(grid, stream_of(ctx_), list_), *ctx_.device, op_);
    }
    list_.count = 0;
    list_.tiles = 0;
  }

 private:
  KernelContext& ctx_;
  const char* op_;
  UpdateList<Rule> list_;
};

}  // namespace

void adamw(KernelContext& ctx, const AdamWOptions& options, const Array& param, const Array& grad,
           const Array& m, const Array& v) {
  check_adamw(param, grad, m, v);
  visit_float_type(param.dtype(), [&]<class C>(TypeTag<C>) {
    using Rule = AdamWRule<C>;
    map_rule<C, Rule>(ctx, "adamw", {&param, &grad, &m, &v},
                      RuleStep<C, Rule>{AdamWFactors<C>(options)});
  });
}

void sgd(KernelContext& ctx, const SgdOptions& options, const Array& param, const Array& grad,
         const Array& buffer) {
  check_sgd(param, grad, buffer);
  visit_float_type(param.dtype(), [&]<class C>(TypeTag<C>) {
    const SgdFactors<C> factors(options);
    if (buffer.is_null()) {
      using Rule = SgdRule<C>;
      map_rule<C, Rule>(ctx, "sgd", {&param, &grad}, RuleStep<C, Rule>{factors});
    } else {
      using Rule = MomentumRule<C>;
      map_rule<C, Rule>(ctx, "sgd", {&param, &grad, &buffer}, RuleStep<C, Rule>{factors});
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
      Updates<C, AdamWRule<C>> updates(ctx, "adamw_all", options, steer);
      for (const auto& [param, grad, m, v] : all) {
        if ((param.dtype() == DType::kF64) != (compute == DType::kF64)) continue;
        updates.add({&param, &grad, &m, &v});
      }
      updates.launch_list();
    });
  }
}

void sgd_all(KernelContext& ctx, const SgdOptions& options, std::span<const SgdArrays> all,
             const Array& steering) {
  require_f64_list("sgd_all", "steering", steering, Steering::kSize);
  for (const SgdArrays& each : all) check_sgd(each.param, each.grad, each.buffer);
  const auto* steer = device_data<const double>(steering);
  const Current current(*ctx.device);
  for (const DType compute : {DType::kF32, DType::kF64}) {
    visit_float_type(compute, [&]<class C>(TypeTag<C>) {
      Updates<C, SgdRule<C>> plain(ctx, "sgd_all", options, steer);
      Updates<C, MomentumRule<C>> with_momentum(ctx, "sgd_all", options, steer);
      for (const auto& [param, grad, buffer] : all) {
        if ((param.dtype() == DType::kF64) != (compute == DType::kF64)) continue;
        if (buffer.is_null()) {
          plain.add({&param, &grad});
        } else {
          with_momentum.add({&param, &grad, &buffer});
        }
      }
      plain.launch_list();
      with_momentum.launch_list();
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
