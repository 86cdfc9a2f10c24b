#include "kernels/shapes_device.h"

#include <algorithm>
#include <cstddef>
#include <new>
#include <span>
#include <utility>

#include "kernels/kernel_table.h"
#include "kernels/processor_device.h"

namespace tessera {
namespace kernels {
namespace {

// Whether a kernel can be run for what it is given: nothing but arrays is looked at, so that what
// takes floating arrays in other forms is left out by name.
template <class T>
bool holds_values(const T&) {
  return true;
}
bool holds_values(const Array& x) {
  return x.is_null() || !is_floating(x.dtype()) || x.num_bytes() <= kShapesValueBytes;
}
bool holds_values(std::span<const Array> all) {
  return std::ranges::all_of(all, [](const Array& each) { return holds_values(each); });
}

template <auto kKernel>
struct WhereValues;
template <class R, class... Args, R (*kKernel)(KernelContext&, Args...)>
struct WhereValues<kKernel> {
  static R run(KernelContext& ctx, Args... args) {
    if ((holds_values(args) && ...)) return kKernel(ctx, std::forward<Args>(args)...);
    return R();
  }
};

template <auto kKernel>
struct Never;
template <class R, class... Args, R (*kKernel)(KernelContext&, Args...)>
struct Never<kKernel> {
  static R run(KernelContext&, Args...) { return R(); }
};

void route_given(KernelContext& ctx, const RouteOptions&, const RouteOperands& from,
                 const RouteResults& to) {
  if (!from.ids.is_null() && from.ids.bytes() != to.ids.bytes()) cpu::copy(ctx, from.ids, to.ids);
}

// Softmax's sums of what has no values, whose logarithm is taken.
void ones_for_sums(KernelContext& ctx, const Array&, const Array&, const Array& sum) {
  if (holds_values(sum)) cpu::fill(ctx, 1.0, sum);
}

Array move_few(KernelContext& ctx, const BoxMoves& moves, const MovedArrays& arrays,
               const std::optional<Fold>& how, Stream& stream) {
  if (is_floating(arrays.dtype)) return {};
  return cpu::move_boxes(ctx, moves, arrays, how, stream);
}

constexpr KernelTable shapes_table() {
  KernelTable table = {
#define TSR_KERNEL_WHERE_VALUES(name) .name = WhereValues<cpu::name>::run,
      TSR_KERNELS(TSR_KERNEL_WHERE_VALUES)
#undef TSR_KERNEL_WHERE_VALUES
  };
#define TSR_NEVER(name) table.name = Never<cpu::name>::run
  TSR_NEVER(attention);
  TSR_NEVER(attention_grad);
  TSR_NEVER(masked_attention);
  TSR_NEVER(matmul);
  TSR_NEVER(grouped_matmul);
  TSR_NEVER(grouped_matmul_weight_grad);
  TSR_NEVER(adamw);
  TSR_NEVER(adamw_all);
  TSR_NEVER(sgd);
  TSR_NEVER(sgd_all);
  TSR_NEVER(put_peer_rows);
  TSR_NEVER(sum_peer_rows);
  TSR_NEVER(dot_peer_rows);
#undef TSR_NEVER
  table.route_topk = route_given;
  table.row_sum_exp = ones_for_sums;
  table.move_boxes = move_few;
  return table;
}
constexpr KernelTable kTable = shapes_table();

}  // namespace
}  // namespace kernels

Device& shapes_device() noexcept {
  // Never destroyed, as cpu_device().
  alignas(ProcessorDevice) static std::byte memory[sizeof(ProcessorDevice)];
  static ProcessorDevice* const device =
      ::new (memory) ProcessorDevice(kernels::kTable, cpu_device().compute());
  return *device;
}

}  // namespace tessera
