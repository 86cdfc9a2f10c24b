#include "kernels/row_sums.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_format.h"
#include "kernels/dtype_switch.h"
#include "kernels/elementwise.h"
#include "kernels/parallel_loop.h"
#include "placement/status.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t kStrip = 512;  // columns whose sums stay in the first cache

/// Calls f with tags of the rows' type and that of sums or cotangents, which is the same or the
/// type of computation.
template <class F>
void visit_types(const char* kernel, DType rows, DType other, F&& f) {
  const auto with_rows = [&](auto row_tag) {
    using T = typename decltype(row_tag)::type;
    if (other == rows) return f(row_tag, row_tag);
    if (other == dtype_of<ComputeType<T>>()) return f(row_tag, TypeTag<ComputeType<T>>{});
    throw_dtype(kernel, other, "the rows' own, or F32 beside half precision");
  };
  if (rows == DType::kF64) return with_rows(TypeTag<double>{});
  if (rows == DType::kF32) return with_rows(TypeTag<float>{});
  if (rows == DType::kBF16) return with_rows(TypeTag<BFloat16>{});
  if (rows == DType::kF16) return with_rows(TypeTag<Float16>{});
  throw_dtype(kernel, rows, "F64, F32, BF16, F16");
}

void check_operands(const char* kernel, const Array& rows, const Array& weights,
                    const Array& tokens) {
  const bool fits = rows.ndim() == 2 && tokens.ndim() == 2 && rows.size(1) == tokens.size(1) &&
                    rows.is_contiguous() && tokens.is_contiguous();
  const DType sums = rows.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  const bool weighs =
      weights.is_null() || (weights.ndim() == 2 && weights.size(0) == tokens.size(0) &&
                            weights.dtype() == sums && weights.is_contiguous());
  if (fits && weighs) return;
  throw Error(invalid_argument(absl::StrFormat(
      "%s: rows %s %s, weights %s, tokens %s; wanted contiguous [N, D], [T, K] of %s and [T, D]",
      kernel, name_of(rows.dtype()), to_string(rows.shape()),
      weights.is_null() ? "none" : to_string(weights.shape()), to_string(tokens.shape()),
      name_of(sums))));
}

void check_places(const char* kernel, const Array& places, std::int64_t limit) {
  const bool fits = places.dtype() == DType::kI64 && places.is_contiguous();
  if (!fits) {
    throw Error(
        invalid_argument(absl::StrFormat("%s: places %s %s; wanted contiguous I64", kernel,
                                         name_of(places.dtype()), to_string(places.shape()))));
  }
  const auto* place = places.data<std::int64_t>();
  for (std::int64_t i = 0; i < places.num_elements(); ++i) {
    if (place[i] >= -1 && place[i] < limit) continue;
    throw Error(out_of_range(absl::StrFormat("%s: place %d at position [%d] lies outside [-1, %d)",
                                             kernel, place[i], i, limit)));
  }
}

/// One token: acc = Σ weight · row over `width` columns.
template <class T, class Sum>
void sum_strip(const T* rows, std::int64_t dim, const std::int64_t* place, const Sum* weight,
               std::int64_t top_k, std::int64_t width, Sum* acc) {
  std::fill_n(acc, width, Sum{0});
  for (std::int64_t k = 0; k < top_k; ++k) {
    if (place[k] < 0) continue;
    const T* row = rows + place[k] * dim;
    const Sum w = weight == nullptr ? Sum{1} : weight[k];
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) acc[c] += w * static_cast<Sum>(row[c]);
  }
}

template <class T, class Out>
void sum_rows(KernelContext& ctx, const Array& rows, const Array& weights, const Array& places,
              const Array& out) {
  using Sum = ComputeType<T>;
  const std::int64_t dim = rows.size(1), top_k = places.size(1);
  const Sum* weight = weights.is_null() ? nullptr : weights.data<Sum>();
  parallel_ranges(ctx.threads, out.size(0), 1, top_k * dim,
                  [&](std::int64_t begin, std::int64_t end) {
                    std::array<Sum, kStrip> acc;
                    for (std::int64_t t = begin; t < end; ++t) {
                      const std::int64_t* place = places.data<std::int64_t>() + t * top_k;
                      const Sum* w = weight == nullptr ? nullptr : weight + t * top_k;
                      for (std::int64_t first = 0; first < dim; first += kStrip) {
                        const std::int64_t width = std::min(kStrip, dim - first);
                        sum_strip(rows.data<T>() + first, dim, place, w, top_k, width, acc.data());
                        Out* to = out.data<Out>() + t * dim + first;
#pragma omp simd
                        for (std::int64_t c = 0; c < width; ++c) to[c] = convert<Out>(acc[c]);
                      }
                    }
                  });
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
      const Sum w = weights.data<Sum>()[slot];
      Sum dot = 0;
#pragma omp simd reduction(+ : dot)
      for (std::int64_t c = 0; c < dim; ++c) {
        const Sum g = static_cast<Sum>(token[c]);
        to[c] = convert<T>(w * g);
        dot += static_cast<Sum>(row[c]) * g;
      }
      grads.weights_TK.data<Sum>()[slot] = dot;
    }
  });
}

}  // namespace

void weighted_row_sum(KernelContext& ctx, const Array& rows_ND, const Array& weights_TK,
                      const Array& place_TK, const Array& out_TD) {
  check_operands("weighted_row_sum", rows_ND, weights_TK, out_TD);
  check_places("weighted_row_sum", place_TK, rows_ND.size(0));
  if (place_TK.ndim() != 2 || place_TK.size(0) != out_TD.size(0) ||
      (!weights_TK.is_null() && weights_TK.shape() != place_TK.shape())) {
    throw Error(invalid_argument(
        absl::StrFormat("weighted_row_sum: places %s do not fit weights or %d tokens",
                        to_string(place_TK.shape()), out_TD.size(0))));
  }
  visit_types("weighted_row_sum", rows_ND.dtype(), out_TD.dtype(), [&](auto row, auto out) {
    sum_rows<typename decltype(row)::type, typename decltype(out)::type>(ctx, rows_ND, weights_TK,
                                                                         place_TK, out_TD);
  });
}

void weighted_row_sum_grad(KernelContext& ctx, const Array& rows_ND, const Array& weights_TK,
                           const Array& slot_N, const Array& grad_TD, const RowSumGrads& grads) {
  check_operands("weighted_row_sum_grad", rows_ND, weights_TK, grad_TD);
  check_places("weighted_row_sum_grad", slot_N, weights_TK.num_elements());
  if (slot_N.num_elements() != rows_ND.size(0) || grads.rows_ND.shape() != rows_ND.shape() ||
      grads.weights_TK.shape() != weights_TK.shape()) {
    throw Error(
        invalid_argument("weighted_row_sum_grad: gradients and slots must fit their operands"));
  }
  fill(ctx, 0.0, grads.weights_TK);
  visit_types("weighted_row_sum_grad", rows_ND.dtype(), grad_TD.dtype(), [&](auto row, auto grad) {
    grad_rows<typename decltype(row)::type, typename decltype(grad)::type>(ctx, rows_ND, weights_TK,
                                                                           slot_N, grad_TD, grads);
  });
}

}  // namespace tessera::kernels
