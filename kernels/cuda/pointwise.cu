// Pointwise functions: a kernel for each list of them and number of operands, which picks one.
#include <span>
#include <string>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/map.h"
#include "kernels/next_value.h"
#include "kernels/pointwise_activation.h"
#include "kernels/pointwise_elementary.h"
#include "kernels/pointwise_integers.h"
#include "kernels/pointwise_losses.h"
#include "kernels/pointwise_operands.h"
#include "kernels/pointwise_pairs.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

constexpr int kMaxParams = 4;

template <class Family>
using ListOf = std::remove_cv_t<decltype(Family::kEntries)>;

template <class Entry, int N, class C>
constexpr bool kFits = Entry::kOperands == N&& kHasForm<Entry, C>;

/// Function `index` of a list, of N operands.
template <class Family, int N>
struct OfList {
  using List = ListOf<Family>;

  int index;
  double params[kMaxParams];
  FaultWord fault;  // of an integer divided by 0

  template <class C>
  __device__ void operator()(std::int64_t i, const C* in, C* out) const {
    out[0] = pick<0, List::kSize>(i, in);
  }
  template <int first, int last, class C>
  __device__ C pick(std::int64_t i, const C* in) const {
    if constexpr (last - first > 1) {
      constexpr int kMiddle = (first + last) / 2;
      return index < kMiddle ? pick<first, kMiddle>(i, in) : pick<kMiddle, last>(i, in);
    } else if constexpr (kFits<typename List::template Entry<first>, N, C>) {
      using Entry = typename List::template Entry<first>;
      if constexpr (kDivides<PointwiseForm<Entry, C>>) {
        if (PointwiseForm<Entry, C>::divisor(in, params) == 0) {
          fault.note(i);
          return C{0};
        }
      }
      return evaluate<Entry, C>(in, params);
    } else {
      return C{0};
    }
  }
};

struct Call {
  KernelContext& ctx;
  const Pointwise& function;
  std::span<const Array> operands;
  std::span<const double> params;
  const Array& out;
};

template <class Family, int N, class C>
void run_list(const Call& call) {
  OfList<Family, N> function{.index = call.function.index, .params = {}, .fault = {}};
  std::copy_n(call.params.begin(), std::min<std::size_t>(call.params.size(), kMaxParams),
              function.params);
  if (std::is_integral_v<C> && call.function.divides_integers) {
    function.fault =
        device_of(call.ctx).next_fault_word([](std::int64_t) { return no_remainder(); });
  }
  std::array<const Array*, N + 1> arrays{&call.out};
  for (std::size_t k = 0; k < N; ++k) arrays[k + 1] = &call.operands[k];
  map<C, 1, N>(call.ctx, std::string(call.function.name).c_str(), arrays, function);
}

template <class Family, int N, class C>
constexpr bool has_functions() {
  using List = ListOf<Family>;
  return []<int... at>(std::integer_sequence<int, at...>) {
    return (kFits<typename List::template Entry<at>, N, C> || ...);
  }
  (std::make_integer_sequence<int, List::kSize>());
}

template <class Family, class C, int N = 1>
void run_operands(const Call& call) {
  if constexpr (has_functions<Family, N, C>()) {
    if (call.function.num_operands == N) return run_list<Family, N, C>(call);
  }
  if constexpr (N < 4) run_operands<Family, C, N + 1>(call);
}

template <class C>
void run(const Call& call) {
  switch (call.function.family) {
    case PointwiseFamily::kElementary:
      return run_operands<scalar::ElementaryFunctions, C>(call);
    case PointwiseFamily::kElementarySlopes:
      return run_operands<scalar::ElementarySlopes, C>(call);
    case PointwiseFamily::kActivation:
      return run_operands<scalar::ActivationFunctions, C>(call);
    case PointwiseFamily::kActivationSlopes:
      return run_operands<scalar::ActivationSlopes, C>(call);
    case PointwiseFamily::kPairs:
      return run_operands<scalar::PairFunctions, C>(call);
    case PointwiseFamily::kPairSlopes:
      return run_operands<scalar::PairSlopes, C>(call);
    case PointwiseFamily::kIntegers:
      return run_operands<scalar::IntegerFunctions, C>(call);
    case PointwiseFamily::kLosses:
      return run_operands<scalar::LossFunctions, C>(call);
  }
}

/// F32 holds all that comes and goes.
bool fits_float(std::span<const Array> operands, const Array& out) {
  const auto is_narrow = [](const Array& each) {
    return is_floating(each.dtype()) && each.dtype() != DType::kF64;
  };
  return out.dtype() != DType::kF64 && std::all_of(operands.begin(), operands.end(), is_narrow);
}

template <class C>
struct Next {
  __device__ void operator()(std::int64_t, const C* in, C* out) const {
    out[0] = std::nextafter(in[0], in[1]);
  }
};
template <class Half>
struct NextHalf {
  __device__ void operator()(std::int64_t, const float* in, float* out) const {
    out[0] = next_half<Half>(in[0], in[1]);
  }
};

}  // namespace

void pointwise(KernelContext& ctx, const Pointwise& function, std::span<const Array> operands,
               std::span<const double> params, const Array& out) {
  if (takes_integers(function, operands, out)) {
    return run<std::int64_t>({ctx, function, operands, params, out});
  }
  const std::vector<Array> promoted = promoted_integers(ctx, operands);
  if (!promoted.empty()) operands = promoted;
  if (fits_float(operands, out)) return run<float>({ctx, function, operands, params, out});
  run<double>({ctx, function, operands, params, out});
}

void nextafter(KernelContext& ctx, const Array& a, const Array& b, const Array& out) {
  switch (out.dtype()) {
    case DType::kF64:
      return map<double, 1, 2>(ctx, "nextafter", {&out, &a, &b}, Next<double>{});
    case DType::kF32:
      return map<float, 1, 2>(ctx, "nextafter", {&out, &a, &b}, Next<float>{});
    case DType::kBF16:
      return map<float, 1, 2>(ctx, "nextafter", {&out, &a, &b}, NextHalf<BFloat16>{});
    case DType::kF16:
      return map<float, 1, 2>(ctx, "nextafter", {&out, &a, &b}, NextHalf<Float16>{});
    default:
      throw_dtype("nextafter", out.dtype(), "F64, F32, BF16, F16");
  }
}

}  // namespace tessera::kernels::TSR_CUDA
