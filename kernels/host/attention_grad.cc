#include <limits>

#include "absl/strings/str_format.h"
#include "kernels/attention.h"
#include "kernels/host/attention_head.h"
#include "kernels/host/simd.h"
#include "kernels/kernel_table.h"
#include "kernels/parallel_tasks.h"
#include "placement/status.h"

namespace tessera::kernels {
namespace {

/// The arrays of one backward pass.
struct BackwardArrays {
  const Array &grad, &q, &k, &v, &out, &lse;
  const AttentionOptions& options;
  const AttentionGradients& grads;
};

/// The backward pass of one head. Weights are computed again from lse; blocks of query rows add to
/// the gradients of k and v in ascending order. Values are T, computed in C and multiplied in P.
template <class T, class C, class P>
class BackwardHead {
 public:
  /// `memory` is for the inputs of products; how their results lie makes no difference.
  BackwardHead(const BackwardArrays& arrays, HeadMemory memory)
      : grad_(arrays.grad, memory),
        q_(arrays.q, memory),
        k_(arrays.k, memory),
        v_(arrays.v, memory),
        out_(arrays.out, HeadMemory::kAsItLies),
        grad_q_(arrays.grads.q, HeadMemory::kAsItLies),
        grad_k_(arrays.grads.k, HeadMemory::kAsItLies),
        grad_v_(arrays.grads.v, HeadMemory::kAsItLies),
        lse_(arrays.lse),
        scale_(arrays.options.scale),
        bound_(arrays.options, arrays.k.size(2)),
        weights_(kBlockQueries * std::min(kChunkKeys, k_.rows())),
        slopes_(kBlockQueries * std::min(kChunkKeys, k_.rows())),
        line_(uninitialised<C>(v_.cols())) {}

  void run(std::int64_t b, std::int64_t h) {
    now_ = {.grad = grad_.load(b, h),
            .q = q_.load(b, h),
            .k = k_.load(b, h),
            .v = v_.load(b, h),
            .out = out_.load(b, h),
            .grad_q = grad_q_.target(b, h),
            .grad_k = grad_k_.target(b, h),
            .grad_v = grad_v_.target(b, h)};
    lse_now_ = lse_.template data<C>() + b * lse_.strides()[0] + h * lse_.strides()[1];
    set_zero(now_.grad_q, q_);
    set_zero(now_.grad_k, k_);
    set_zero(now_.grad_v, v_);
    for (std::int64_t row = 0; row < q_.rows(); row += kBlockQueries) {
      run_block(row, std::min(kBlockQueries, q_.rows() - row));
    }
    grad_q_.store(b, h, 0, q_.rows());
    grad_k_.store(b, h, 0, k_.rows());
    grad_v_.store(b, h, 0, k_.rows());
  }

 private:
  static void set_zero(MatrixView<C> m, const HeadMatrices<T, P>& like) {
    for (std::int64_t i = 0; i < like.rows(); ++i) std::fill_n(m.at(i), like.cols(), C(0));
  }

  void run_block(std::int64_t row, std::int64_t rows) {
    for (std::int64_t i = 0; i < rows; ++i) {
      const C* grad = load_line(now_.grad.at(row + i), 1, v_.cols(), line_.get());
      delta_[i] = dot_of(grad, now_.out.at(row + i), v_.cols());
    }
    const std::int64_t keys = bound_.seen(row + rows - 1);
    for (std::int64_t key = 0; key < keys; key += kChunkKeys) {
      run_chunk(row, rows, key, std::min(kChunkKeys, keys - key));
    }
  }

  void run_chunk(std::int64_t row, std::int64_t rows, std::int64_t key, std::int64_t width) {
    const MatrixView<C> weights = weights_.values(width), slopes = slopes_.values(width);
    const auto q = as_input(now_.q.from_row(row)), grad = as_input(now_.grad.from_row(row));
    const auto k = as_input(now_.k.from_row(key)), v = as_input(now_.v.from_row(key));
    gemm({.m = rows, .n = width, .k = q_.cols(), .alpha = scale_}, q, k.transposed(), weights);
    gemm({.m = rows, .n = width, .k = v_.cols()}, grad, v.transposed(), slopes);
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t seen = bound_.seen_in(row + i, key, width);
      weigh_line(weights.at(i), seen, width, lse_now_[(row + i) * lse_.strides()[2]]);
      set_slopes(weights.at(i), slopes.at(i), i, seen, width);
    }
    const MatrixView<const P> weight_factors = weights_.factors(rows, width);
    const MatrixView<const P> slope_factors = slopes_.factors(rows, width);
    gemm({.m = width, .n = v_.cols(), .k = rows, .beta = 1.0}, weight_factors.transposed(), grad,
         now_.grad_v.from_row(key));
    gemm({.m = rows, .n = q_.cols(), .k = width, .alpha = scale_, .beta = 1.0}, slope_factors, k,
         now_.grad_q.from_row(row));
    gemm({.m = width, .n = q_.cols(), .k = rows, .alpha = scale_, .beta = 1.0},
         slope_factors.transposed(), q, now_.grad_k.from_row(key));
  }

  /// The scores' gradient over the scale: weight · (grad · v − delta).
  void set_slopes(const C* weights, C* slopes, std::int64_t i, std::int64_t seen,
                  std::int64_t width) {
    const C delta = delta_[i];
    for (std::int64_t j = 0; j < seen; ++j) slopes[j] = weights[j] * (slopes[j] - delta);
    std::fill(slopes + seen, slopes + width, C(0));
  }

  HeadMatrices<T, P> grad_, q_, k_, v_;
  HeadMatrices<T, C> out_, grad_q_, grad_k_, grad_v_;
  const Array& lse_;
  double scale_;
  KeyBound bound_;
  struct {
    MatrixView<P> grad, q, k, v;
    MatrixView<C> out, grad_q, grad_k, grad_v;
  } now_;
  const C* lse_now_ = nullptr;
  Scores<C, P> weights_, slopes_;
  std::unique_ptr<C[]> line_;  // of grad, in the type of computation
  C delta_[kBlockQueries];
};

void check_like(const char* name, const Array& x, const Array& like) {
  if (x.shape() == like.shape() && x.dtype() == like.dtype()) return;
  throw Error(invalid_argument(absl::StrFormat("attention_grad: %s is %s %s; wanted %s %s", name,
                                               name_of(x.dtype()), to_string(x.shape()),
                                               name_of(like.dtype()), to_string(like.shape()))));
}

}  // namespace

void check_attention_grad(const Array& grad, const Array& q, const Array& k, const Array& v,
                          const Array& out, const Array& lse, const AttentionGradients& grads) {
  check_attention("attention_grad", q, k, v, out, lse);
  check_like("grad", grad, out);
  check_like("grads.q", grads.q, q);
  check_like("grads.k", grads.k, k);
  check_like("grads.v", grads.v, v);
}

void cpu::attention_grad(KernelContext& ctx, const Array& grad, const Array& q, const Array& k,
                         const Array& v, const Array& out, const Array& lse,
                         const AttentionOptions& options, const AttentionGradients& grads) {
  check_attention_grad(grad, q, k, v, out, lse, grads);
  const BackwardArrays arrays{grad, q, k, v, out, lse, options, grads};
  const std::int64_t heads = q.size(1), all_heads = q.size(0) * heads;
  const int threads =
      product_threads(ctx.threads, {all_heads, q.size(2), k.size(2), q.size(3) + v.size(3)});
  visit_dtype(q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    if constexpr (std::is_floating_point_v<C>) {
      visit_factor_type<T, C>([&](auto factor) {
        using P = typename decltype(factor)::type;
        parallel_workers(threads, all_heads, [&]() -> Worker {
          return [heads, head = BackwardHead<T, C, P>(arrays, head_memory(q.size(2)))](
                     std::int64_t index) mutable { head.run(index / heads, index % heads); };
        });
      });
    }
  });
}

}  // namespace tessera::kernels
