#include <cmath>
#include <limits>

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/host/attention_head.h"
#include "kernels/kernel_table.h"
#include "kernels/parallel_tasks.h"

namespace tessera::kernels {
namespace {

/// The mask as what is added to scores, in the type of computation, with strides over (B, H, Lq,
/// Lk) that are 0 where it repeats.
struct Addend {
  Array values;
  Shape strides{0, 0, 0, 0};

  Addend(KernelContext& ctx, const Array& mask, DType dtype, const Shape& wanted) {
    values = Array::empty(mask.shape(), dtype, ctx.allocator);
    if (mask.dtype() == DType::kBool) {
      const Array seen = Array::empty({}, dtype, ctx.allocator);
      const Array hidden = Array::empty({}, dtype, ctx.allocator);
      cpu::fill(ctx, 0.0, seen);
      cpu::fill(ctx, -std::numeric_limits<double>::infinity(), hidden);
      cpu::where(ctx, mask, seen, hidden, values);
    } else {
      cpu::copy(ctx, mask, values);
    }
    const std::size_t lead = wanted.size() - mask.shape().size();
    for (std::size_t d = 0; d < mask.shape().size(); ++d) {
      if (mask.shape()[d] == wanted[lead + d]) strides[lead + d] = values.strides()[d];
    }
  }
};

template <class T, class C>
class MaskedHead {
 public:
  MaskedHead(const Array& q, const Array& k, const Array& v, double scale, const Array& out)
      : q_(q, HeadMemory::kAsItLies),
        k_(k, HeadMemory::kAsItLies),
        v_(v, HeadMemory::kAsItLies),
        out_(out, HeadMemory::kAsItLies),
        scale_(scale) {
    scores_ = uninitialised<C>(q_.rows() * k_.rows());
  }

  /// `mask` and `lse` are those of this head.
  void run(std::int64_t b, std::int64_t h, const C* mask, const Shape& mask_strides, C* lse,
           std::int64_t lse_stride) {
    const std::int64_t rows = q_.rows(), keys = k_.rows(), cols = v_.cols();
    const MatrixView<C> scores{scores_.get(), std::max<std::int64_t>(keys, 1), 1};
    const MatrixView<C> out = out_.target(b, h);
    if (keys > 0) {
      gemm({.m = rows, .n = keys, .k = q_.cols(), .alpha = scale_}, input(q_.load(b, h)),
           input(k_.load(b, h)).transposed(), scores);
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      lse[i * lse_stride] = weigh(scores.at(i), mask + i * mask_strides[2], mask_strides[3], keys);
    }
    if (keys > 0) {
      gemm({.m = rows, .n = cols, .k = keys}, input(scores), input(v_.load(b, h)), out);
    } else {
      for (std::int64_t i = 0; i < rows; ++i) std::fill_n(out.at(i), cols, C(0));
    }
    out_.store(b, h, 0, rows);
  }

 private:
  static MatrixView<const C> input(MatrixView<C> m) { return {m.data, m.row_stride, m.col_stride}; }

  /// Scores to weights that add up to 1 (all 0 where no key is seen, all NaN where a score is).
  /// Returns the log-sum.
  static C weigh(C* line, const C* mask, std::int64_t mask_stride, std::int64_t keys) {
    C most = -std::numeric_limits<C>::infinity();
    bool hidden = true;
    for (std::int64_t j = 0; j < keys; ++j) {
      line[j] += mask[j * mask_stride];
      hidden = hidden && line[j] == -std::numeric_limits<C>::infinity();
      most = std::max(most, line[j]);
    }
    if (hidden) {
      std::fill_n(line, keys, C(0));
      return most;
    }
    C sum = 0;
    for (std::int64_t j = 0; j < keys; ++j) {
      line[j] = std::exp(line[j] - most);
      sum += line[j];
    }
    for (std::int64_t j = 0; j < keys; ++j) line[j] /= sum;
    return most + std::log(sum);
  }

  HeadMatrices<T, C> q_, k_, v_, out_;
  double scale_;
  std::unique_ptr<C[]> scores_;
};

}  // namespace

void cpu::masked_attention(KernelContext& ctx, const Array& q, const Array& k, const Array& v,
                           const Array& mask, double scale, const Array& out, const Array& lse) {
  check_attention("masked_attention", q, k, v, out, lse);
  const std::int64_t heads = q.size(1), all_heads = q.size(0) * heads;
  if (out.num_elements() == 0 && lse.num_elements() == 0) return;
  const Addend addend(ctx, mask, lse.dtype(), {q.size(0), heads, q.size(2), k.size(2)});
  const int threads =
      product_threads(ctx.threads, {all_heads, q.size(2), k.size(2), q.size(3) + v.size(3)});
  visit_dtype(q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    if constexpr (std::is_floating_point_v<C>) {
      parallel_tasks(threads, all_heads, [&](std::int64_t index) {
        const std::int64_t b = index / heads, h = index % heads;
        MaskedHead<T, C>(q, k, v, scale, out)
            .run(b, h,
                 addend.values.template data<C>() + b * addend.strides[0] + h * addend.strides[1],
                 addend.strides, lse.data<C>() + b * lse.strides()[0] + h * lse.strides()[1],
                 lse.strides()[2]);
      });
    }
  });
}

}  // namespace tessera::kernels
