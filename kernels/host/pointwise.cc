#include "kernels/pointwise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "absl/strings/str_format.h"
#include "kernels/dtype_switch.h"
#include "kernels/elementwise.h"
#include "kernels/host/block_map.h"
#include "kernels/host/pointwise_table.h"
#include "kernels/kernel_table.h"
#include "kernels/next_value.h"

namespace tessera::kernels {
namespace {

const PointwiseCode& code_of(const Pointwise& function) {
  const auto code = [&]() -> std::span<const PointwiseCode> {
    switch (function.family) {
      case PointwiseFamily::kElementary:
        return elementary_functions();
      case PointwiseFamily::kElementarySlopes:
        return elementary_slopes();
      case PointwiseFamily::kActivation:
        return activation_functions();
      case PointwiseFamily::kActivationSlopes:
        return activation_slopes();
      case PointwiseFamily::kPairs:
        return pair_functions();
      case PointwiseFamily::kPairSlopes:
        return pair_slopes();
      case PointwiseFamily::kIntegers:
        return integer_functions();
      case PointwiseFamily::kLosses:
        return loss_functions();
    }
    return {};
  };
  return code()[static_cast<std::size_t>(function.index)];
}

template <class C, int N>
void run_map(KernelContext& ctx, const Pointwise& function, PointwiseBlock<C> block,
             std::span<const Array> operands, const double* params, const Array& out) {
  std::array<const Array*, N + 1> arrays;
  arrays[0] = &out;
  for (std::size_t i = 0; i < N; ++i) arrays[i + 1] = &operands[i];
  // Integer division may throw, which must not happen inside a parallel region.
  const int threads = std::is_integral_v<C> ? 1 : ctx.threads;
  BlockMap<C, 1, N>(function.name, arrays)
      .run(threads, [block, params](const C* const* in, C* const* to, std::int64_t n) {
        block(in, to[0], n, params);
      });
}

template <class C>
void run_typed(KernelContext& ctx, const Pointwise& function, PointwiseBlock<C> block,
               std::span<const Array> operands, const double* params, const Array& out) {
  switch (function.num_operands) {
    case 1:
      return run_map<C, 1>(ctx, function, block, operands, params, out);
    case 2:
      return run_map<C, 2>(ctx, function, block, operands, params, out);
    case 3:
      return run_map<C, 3>(ctx, function, block, operands, params, out);
    default:
      return run_map<C, 4>(ctx, function, block, operands, params, out);
  }
}

template <class Half>
void run_next_half(KernelContext& ctx, const Array& a, const Array& b, const Array& out) {
  BlockMap<float, 1, 2>("nextafter", {&out, &a, &b})
      .run(ctx.threads, [](const float* const* in, float* const* to, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) to[0][i] = next_half<Half>(in[0][i], in[1][i]);
      });
}

template <class C>
void run_nextafter(KernelContext& ctx, const Array& a, const Array& b, const Array& out) {
  BlockMap<C, 1, 2>("nextafter", {&out, &a, &b})
      .run(ctx.threads, [](const C* const* in, C* const* to, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) to[0][i] = std::nextafter(in[0][i], in[1][i]);
      });
}

}  // namespace

void cpu::pointwise(KernelContext& ctx, const Pointwise& function, std::span<const Array> operands,
                    std::span<const double> params, const Array& out) {
  if (takes_integers(function, operands, out)) {
    return run_typed<std::int64_t>(ctx, function, code_of(function).integer, operands,
                                   params.data(), out);
  }
  const std::vector<Array> promoted = promoted_integers(ctx, operands);
  if (!promoted.empty()) operands = promoted;
  run_typed<double>(ctx, function, code_of(function).floating, operands, params.data(), out);
}

void cpu::nextafter(KernelContext& ctx, const Array& a, const Array& b, const Array& out) {
  switch (out.dtype()) {
    case DType::kF64:
      return run_nextafter<double>(ctx, a, b, out);
    case DType::kF32:
      return run_nextafter<float>(ctx, a, b, out);
    case DType::kBF16:
      return run_next_half<BFloat16>(ctx, a, b, out);
    case DType::kF16:
      return run_next_half<Float16>(ctx, a, b, out);
    default:
      throw_dtype("nextafter", out.dtype(), "F64, F32, BF16, F16");
  }
}

}  // namespace tessera::kernels
