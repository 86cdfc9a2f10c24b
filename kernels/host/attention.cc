#include "kernels/attention.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_format.h"
#include "kernels/host/attention_head.h"
#include "kernels/host/simd.h"
#include "kernels/kernel_table.h"
#include "kernels/parallel_tasks.h"
#include "placement/status.h"

namespace tessera::kernels {
namespace {

/// The forward pass of one head, block by block of query rows, with sums that run over chunks of
/// keys. Values are T, computed in C and multiplied in P.
template <class T, class C, class P>
class ForwardHead {
 public:
  ForwardHead(const Array& q, const Array& k, const Array& v, const AttentionOptions& options,
              const Array& out, const Array& lse)
      : q_(q, HeadMemory::kAsItLies),
        k_(k, head_memory(q.size(2))),
        v_(v, head_memory(q.size(2))),
        out_(out, HeadMemory::kAsItLies),
        lse_(lse),
        scale_(options.scale),
        bound_(options, k.size(2)),
        scores_(kBlockQueries * std::min(kChunkKeys, k.size(2))) {}

  /// Blocks [first, last) of kBlockQueries rows.
  void run(std::int64_t b, std::int64_t h, std::int64_t first, std::int64_t last) {
    q_now_ = q_.load(b, h);
    k_now_ = k_.load(b, h);
    v_now_ = v_.load(b, h);
    out_now_ = out_.target(b, h);
    lse_now_ = lse_.template data<C>() + b * lse_.strides()[0] + h * lse_.strides()[1];
    const std::int64_t end = std::min(q_.rows(), last * kBlockQueries);
    for (std::int64_t row = first * kBlockQueries; row < end; row += kBlockQueries) {
      run_block(row, std::min(kBlockQueries, end - row));
    }
    out_.store(b, h, first * kBlockQueries, end);
  }

 private:
  void run_block(std::int64_t row, std::int64_t rows) {
    std::fill_n(max_, rows, -kInf);
    std::fill_n(sum_, rows, C(0));
    const std::int64_t keys = bound_.seen(row + rows - 1);
    for (std::int64_t key = 0; key < keys; key += kChunkKeys) {
      const std::int64_t width = std::min(kChunkKeys, keys - key);
      gemm({.m = rows, .n = width, .k = q_.cols(), .alpha = scale_}, as_input(q_now_.from_row(row)),
           as_input(k_now_.from_row(key)).transposed(), scores_.values(width));
      for (std::int64_t i = 0; i < rows; ++i) add_line(row, i, key, width);
      add_values(row, rows, key, width);
    }
    for (std::int64_t i = 0; i < rows; ++i) finish_row(row + i, i);
  }

  /// Turns scores into weights e^(s − max) and rescales what earlier chunks gave where the maximum
  /// grew.
  void add_line(std::int64_t block_row, std::int64_t i, std::int64_t key, std::int64_t width) {
    C* line = scores_.values(width).at(i);
    const std::int64_t seen = bound_.seen_in(block_row + i, key, width);
    const C new_max = std::max(max_[i], max_of(line, seen));
    const C shift = new_max == -kInf ? C(0) : new_max;
    weigh_line(line, seen, width, shift);
    if (seen == 0) return;
    const C factor = key == 0 ? C(0) : std::exp(max_[i] - shift);
    if (key > 0 && factor != C(1)) scale_out(block_row + i, factor);
    sum_[i] = sum_[i] * factor + sum_of(line, seen);
    max_[i] = new_max;
  }

  /// out += weights · values. A weight of 0 for a key that a row does not see would make its
  /// infinite or NaN value a NaN: then rows take what they see one by one.
  void add_values(std::int64_t row, std::int64_t rows, std::int64_t key, std::int64_t width) {
    const std::int64_t seen_by_all = bound_.seen_in(row, key, width);
    const std::int64_t joint = all_finite(key + seen_by_all, key + width) ? width : seen_by_all;
    const double beta = key == 0 ? 0.0 : 1.0;
    const MatrixView<const P> weights = scores_.factors(rows, width);
    if (joint > 0) {
      gemm({.m = rows, .n = v_.cols(), .k = joint, .beta = beta}, weights,
           as_input(v_now_.from_row(key)), out_now_.from_row(row));
    }
    if (joint == width) return;
    for (std::int64_t i = 0; i < rows; ++i) {
      C* out = out_now_.at(row + i);
      if (joint == 0 && key == 0) std::fill_n(out, v_.cols(), C(0));
      const std::int64_t seen = bound_.seen_in(row + i, key, width);
      for (std::int64_t j = joint; j < seen; ++j) {
        const P* value = v_now_.at(key + j);
        const C weight = convert<C>(*weights.at(i, j));
        for (std::int64_t e = 0; e < v_.cols(); ++e) out[e] += weight * convert<C>(value[e]);
      }
    }
  }

  /// False for an infinity or NaN among the values of these keys (and where their sums overflow).
  bool all_finite(std::int64_t first, std::int64_t last) const {
    constexpr std::int64_t kColumns = 128;
    for (std::int64_t column = 0; column < v_.cols(); column += kColumns) {
      C sums[kColumns] = {};  // by column, so that the compiler adds whole vectors
      const std::int64_t used = std::min(kColumns, v_.cols() - column);
      for (std::int64_t key = first; key < last; ++key) {
        const P* value = v_now_.at(key, column);
        for (std::int64_t e = 0; e < used; ++e) sums[e] += convert<C>(value[e]);
      }
      for (std::int64_t e = 0; e < used; ++e) {
        if (!std::isfinite(sums[e])) return false;
      }
    }
    return true;
  }

  void scale_out(std::int64_t row, C factor) {
    C* out = out_now_.at(row);
    for (std::int64_t j = 0; j < v_.cols(); ++j) out[j] *= factor;
  }

  void finish_row(std::int64_t row, std::int64_t i) {
    C& lse = lse_now_[row * lse_.strides()[2]];
    if (bound_.seen(row) == 0) {
      std::fill_n(out_now_.at(row), v_.cols(), C(0));
      lse = -kInf;
      return;
    }
    scale_out(row, C(1) / sum_[i]);
    lse = max_[i] + std::log(sum_[i]);
  }

  static constexpr C kInf = std::numeric_limits<C>::infinity();
  HeadMatrices<T, P> q_, k_, v_;
  HeadMatrices<T, C> out_;
  const Array& lse_;
  double scale_;
  KeyBound bound_;
  MatrixView<P> q_now_, k_now_, v_now_;
  MatrixView<C> out_now_;
  C* lse_now_ = nullptr;
  Scores<C, P> scores_;
  C max_[kBlockQueries], sum_[kBlockQueries];
};

bool same_leading(const Array& a, const Array& b) {
  return a.size(0) == b.size(0) && a.size(1) == b.size(1);
}

}  // namespace

void check_attention(const char* op, const Array& q, const Array& k, const Array& v,
                     const Array& out, const Array& lse) {
  const bool four = q.ndim() == 4 && k.ndim() == 4 && v.ndim() == 4 && out.ndim() == 4;
  const bool fits = four && lse.ndim() == 3 && same_leading(q, k) && same_leading(q, v) &&
                    same_leading(q, out) && same_leading(q, lse) && q.size(3) == k.size(3) &&
                    k.size(2) == v.size(2) && out.size(2) == q.size(2) &&
                    out.size(3) == v.size(3) && lse.size(2) == q.size(2);
  if (!fits) {
    throw Error(invalid_argument(absl::StrFormat(
        "%s: q %s, k %s, v %s, out %s, lse %s; wanted [B, H, Lq, E], [B, H, Lk, E], [B, H, Lk, V], "
        "[B, H, Lq, V], [B, H, Lq]",
        op, to_string(q.shape()), to_string(k.shape()), to_string(v.shape()),
        to_string(out.shape()), to_string(lse.shape()))));
  }
  require_floating(op, q.dtype());
  const DType dtype = q.dtype();
  if (k.dtype() != dtype || v.dtype() != dtype || out.dtype() != dtype ||
      lse.dtype() != accumulation_type(dtype)) {
    throw Error(invalid_argument(absl::StrFormat(
        "%s: q %s, k %s, v %s, out %s, lse %s; the first four must be of one dtype, lse of %s", op,
        name_of(dtype), name_of(k.dtype()), name_of(v.dtype()), name_of(out.dtype()),
        name_of(lse.dtype()), name_of(accumulation_type(dtype)))));
  }
}

void cpu::attention(KernelContext& ctx, const Array& q, const Array& k, const Array& v,
                    const AttentionOptions& options, const Array& out, const Array& lse) {
  check_attention("attention", q, k, v, out, lse);
  const std::int64_t heads = q.size(1), all_heads = q.size(0) * heads;
  const std::int64_t blocks = (q.size(2) + kBlockQueries - 1) / kBlockQueries;
  const int threads =
      product_threads(ctx.threads, {all_heads, q.size(2), k.size(2), q.size(3) + v.size(3)});
  // Heads are the tasks; where they are few, ranges of blocks are.
  const std::int64_t most_parts = all_heads >= 4 * threads ? 1 : 4 * threads;
  const std::int64_t step = std::max<std::int64_t>(1, (blocks + most_parts - 1) / most_parts);
  const std::int64_t parts = (blocks + step - 1) / step;
  visit_dtype(q.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    if constexpr (std::is_floating_point_v<C>) {
      visit_factor_type<T, C>([&](auto factor) {
        using P = typename decltype(factor)::type;
        parallel_workers(threads, all_heads * parts, [&]() -> Worker {
          return [&, head = ForwardHead<T, C, P>(q, k, v, options, out, lse)](
                     std::int64_t task) mutable {
            const std::int64_t index = task / parts, first = task % parts * step;
            head.run(index / heads, index % heads, first, std::min(blocks, first + step));
          };
        });
      });
    }
  });
}

}  // namespace tessera::kernels
