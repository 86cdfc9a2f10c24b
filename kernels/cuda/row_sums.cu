// Rows of several experts become one token again, and the gradient of that.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/row_sums.h"
#include "kernels/elementwise.h"
#include "kernels/row_sums.h"
#include "kernels/row_sums_checks.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// Rows of one array.
template <class Row>
struct ListedRows {
  using T = Row;
  const T* rows;
  PositionReader places;
  std::int64_t dim;

  __device__ std::int64_t listed(std::int64_t slot) const { return places.value(slot); }
  __device__ std::int64_t place(std::int64_t slot, std::int64_t listed) const {
    return places.judged(slot, listed);
  }
  template <int kCount>
  __device__ Pack<T, kCount> load(std::int64_t place, std::int64_t pack) const {
    return reinterpret_cast<const Pack<T, kCount>*>(rows + place * dim)[pack];
  }
};

template <class T, class Grad>
struct GradOperands {
  const T* rows;
  const ComputeType<T>* weights;
  PositionReader slots;
  const Grad* grad;
  std::int64_t count, dim, top_k;
  T* grad_rows;
  ComputeType<T>* grad_weights;
};

/// A warp a row.
template <class T, class Grad, int kCount>
__global__ void grad_of_rows(GradOperands<T, Grad> of) {
  using Sum = ComputeType<T>;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * blockDim.x / kLanes;
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
  const int lane = threadIdx.x % kLanes;
  for (std::int64_t n = first; n < of.count; n += warps) {
    const std::int64_t slot = of.slots.read(n);
    const bool is_held = slot >= 0;
    const Sum weight = is_held ? of.weights[slot] : Sum{0};
    const std::int64_t token = is_held ? slot / of.top_k : 0;
    Sum dot = 0;
    for (std::int64_t pack = lane; pack < of.dim / kCount; pack += kLanes) {
      Pack<T, kCount> to;
      if (is_held) {
        const auto grad =
            reinterpret_cast<const Pack<Grad, kCount>*>(of.grad + token * of.dim)[pack];
        const auto row = reinterpret_cast<const Pack<T, kCount>*>(of.rows + n * of.dim)[pack];
        for (int c = 0; c < kCount; ++c) {
          const Sum g = static_cast<Sum>(grad.of[c]);
          to.of[c] = convert<T>(weight * g);
          dot += static_cast<Sum>(row.of[c]) * g;
        }
      } else {
        for (int c = 0; c < kCount; ++c) to.of[c] = convert<T>(Sum{0});
      }
      reinterpret_cast<Pack<T, kCount>*>(of.grad_rows + n * of.dim)[pack] = to;
    }
    dot = warp_sum(dot);
    if (is_held && lane == 0) of.grad_weights[slot] = dot;
  }
}

PositionReader read_places(KernelContext& ctx, const char* kernel, const Array& places,
                           std::int64_t limit) {
  check_place_list(kernel, places);
  PositionReader reader = trusted_positions(places).reader;
  reader.size = limit;
  reader.fault =
      device_of(ctx).next_fault_word([kernel, places, limit](std::int64_t position) -> Status {
        return place_outside(kernel, integer_at(places, position), position, limit);
      });
  return reader;
}

}  // namespace

void weighted_row_sum(KernelContext& ctx, const Array& rows_ND, const Array& weights_TK,
                      const Array& place_TK, const Array& out_TD) {
  constexpr const char* kName = "weighted_row_sum";
  check_row_sum_operands(kName, rows_ND, weights_TK, out_TD);
  const PositionReader places = read_places(ctx, kName, place_TK, rows_ND.size(0));
  check_row_sum_places(weights_TK, place_TK, out_TD);
  const Current current(*ctx.device);
  visit_row_sum_types(kName, rows_ND.dtype(), out_TD.dtype(), [&](auto row_tag, auto out_tag) {
    using T = typename decltype(row_tag)::type;
    using Out = typename decltype(out_tag)::type;
    using Sum = ComputeType<T>;
    if (out_TD.num_elements() == 0) return read_positions(ctx, places, place_TK.num_elements());
    const SumOperands<ListedRows<T>, Out> of{
        .rows = {.rows = device_data<T>(rows_ND), .places = places, .dim = rows_ND.size(1)},
        .weights = weights_TK.is_null() ? nullptr : device_data<Sum>(weights_TK),
        .top_k = place_TK.size(1),
        .out = device_data<Out>(out_TD)};
    check(launch_row_sums(of, out_TD.size(0), {of.rows.rows, of.out}, stream_of(ctx)), *ctx.device,
          kName);
  });
}

void weighted_row_sum_grad(KernelContext& ctx, const Array& rows_ND, const Array& weights_TK,
                           const Array& slot_N, const Array& grad_TD, const RowSumGrads& grads) {
  constexpr const char* kName = "weighted_row_sum_grad";
  check_row_sum_operands(kName, rows_ND, weights_TK, grad_TD);
  const PositionReader slots = read_places(ctx, kName, slot_N, weights_TK.num_elements());
  check_row_sum_grads(rows_ND, weights_TK, slot_N, grads);
  fill(ctx, 0.0, grads.weights_TK);
  const Current current(*ctx.device);
  visit_row_sum_types(kName, rows_ND.dtype(), grad_TD.dtype(), [&](auto row_tag, auto grad_tag) {
    using T = typename decltype(row_tag)::type;
    using Grad = typename decltype(grad_tag)::type;
    using Sum = ComputeType<T>;
    if (rows_ND.size(0) == 0) return;
    const GradOperands<T, Grad> of{.rows = device_data<T>(rows_ND),
                                   .weights = device_data<Sum>(weights_TK),
                                   .slots = slots,
                                   .grad = device_data<Grad>(grad_TD),
                                   .count = rows_ND.size(0),
                                   .dim = rows_ND.size(1),
                                   .top_k = weights_TK.size(1),
                                   .grad_rows = device_data<T>(grads.rows_ND),
                                   .grad_weights = device_data<Sum>(grads.weights_TK)};
    check(visit_pack<T>(of.dim, {of.rows, of.grad, of.grad_rows},
                        [&]<int kCount>(std::integral_constant<int, kCount>) {
                          return launch<grad_of_rows<T, Grad, kCount>>(grid_for(of.count * kLanes),
                                                                       stream_of(ctx), of);
                        }),
          *ctx.device, kName);
  });
}

}  // namespace tessera::kernels::TSR_CUDA
