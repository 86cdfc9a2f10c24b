#include "kernels/row_sums.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/host/row_sum_strips.h"
#include "kernels/kernel_table.h"
#include "kernels/parallel_loop.h"
#include "kernels/row_sums_checks.h"
#include "placement/status.h"

namespace tessera::kernels {
namespace {

void check_places(const char* kernel, const Array& places, std::int64_t limit) {
  check_place_list(kernel, places);
  const auto* place = places.data<std::int64_t>();
  for (std::int64_t i = 0; i < places.num_elements(); ++i) {
    if (place[i] < -1 || place[i] >= limit) throw Error(place_outside(kernel, place[i], i, limit));
  }
}

template <class T, class Out>
void sum_rows(KernelContext& ctx, const Array& rows, const Array& weights, const Array& places,
              const Array& out) {
  const OneBuffer<T> from{rows.data<T>(), rows.size(1), rows.num_bytes()};
  const RowSums<T, Out, OneBuffer<T>> sums(from, weights, places, out);
  parallel_ranges(ctx.threads, out.size(0), 1, places.size(1) * rows.size(1),
                  [&](std::int64_t begin, std::int64_t end) { sums.sum_range(begin, end); });
}

template <class T, class Grad>
void grad_rows(KernelContext& ctx, const Array& rows, const Array& weights, const Array& slots,
               const Array& grad, const RowSumGrads& grads) {
  using Sum = ComputeType<T>;
  const std::int64_t dim = rows.size(1), top_k = weights.size(1);
  parallel_ranges(ctx.threads, rows.size(0), 1, dim, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      const std::int64_t slot = slots.data<std::int64_t>()[n];
      T* to = grads.rows_ND.data<T>() + n * dim;
      if (slot < 0) {
        std::fill_n(to, dim, T{});
        continue;
      }
      const T* row = rows.data<T>() + n * dim;
      const Grad* token = grad.data<Grad>() + slot / top_k * dim;
      grads.weights_TK.data<Sum>()[slot] =
          dot_and_put<true, T, Grad>(row, token, dim, weights.data<Sum>()[slot], to);
    }
  });
}

}  // namespace

void cpu::weighted_row_sum(KernelContext& ctx, const Array& rows_ND, const Array& weights_TK,
                           const Array& place_TK, const Array& out_TD) {
  check_row_sum_operands("weighted_row_sum", rows_ND, weights_TK, out_TD);
  check_places("weighted_row_sum", place_TK, rows_ND.size(0));
  check_row_sum_places(weights_TK, place_TK, out_TD);
  visit_row_sum_types("weighted_row_sum", rows_ND.dtype(), out_TD.dtype(), [&](auto row, auto out) {
    sum_rows<typename decltype(row)::type, typename decltype(out)::type>(ctx, rows_ND, weights_TK,
                                                                         place_TK, out_TD);
  });
}

void cpu::weighted_row_sum_grad(KernelContext& ctx, const Array& rows_ND, const Array& weights_TK,
                                const Array& slot_N, const Array& grad_TD,
                                const RowSumGrads& grads) {
  check_row_sum_operands("weighted_row_sum_grad", rows_ND, weights_TK, grad_TD);
  check_places("weighted_row_sum_grad", slot_N, weights_TK.num_elements());
  check_row_sum_grads(rows_ND, weights_TK, slot_N, grads);
  cpu::fill(ctx, 0.0, grads.weights_TK);
  visit_row_sum_types("weighted_row_sum_grad", rows_ND.dtype(), grad_TD.dtype(),
                      [&](auto row, auto grad) {
                        grad_rows<typename decltype(row)::type, typename decltype(grad)::type>(
                            ctx, rows_ND, weights_TK, slot_N, grad_TD, grads);
                      });
}

}  // namespace tessera::kernels
