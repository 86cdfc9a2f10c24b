#include <limits>

#include "kernels/attention_checks.h"
#include "kernels/cuda/attention_products.h"
#include "kernels/cuda/attention_tile.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/lines.h"
#include "kernels/cuda/product.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

#ifdef __CUDACC__
constexpr std::int64_t kLeastRows = 128;
#else
constexpr std::int64_t kLeastRows = 48;
#endif
/// Scores that are kept at once.
constexpr std::int64_t kMostScores = std::int64_t{1} << 26;

bool takes_products(const Array& q, const Array& k, const Array& v) {
  const std::int64_t queries = q.size(2), keys = k.size(2);
  return !is_half(q.dtype()) && queries >= kLeastRows && keys >= kLeastRows && q.size(3) > 0 &&
         v.size(3) > 0 && queries <= kMostScores / keys;
}

/// f(part) for parts of (B, H, …) arrays whose scores are kept at once: part(array) cuts one.
template <class F>
void for_each_part(const Array& q, const Array& k, F&& f) {
  const std::int64_t each = kMostScores / (q.size(2) * k.size(2));
  const std::int64_t heads = std::min(each, q.size(1));
  const std::int64_t batches = heads < q.size(1) ? 1 : std::min(each / heads, q.size(0));
  for (std::int64_t b = 0; b < q.size(0); b += batches) {
    for (std::int64_t h = 0; h < q.size(1); h += heads) {
      f([=](const Array& array) {
        return array.slice(0, b, std::min(b + batches, array.size(0)))
            .slice(1, h, std::min(h + heads, array.size(1)));
      });
    }
  }
}

/// Rows of scores, a head's one after another.
template <class C>
struct ScoreRows {
  C* scores;
  std::int64_t heads, queries, keys, total;
  C scale;
  KeyBound bound;
};
/// f(batch, head, query, its scores, how many of them it sees) for each row, by a warp.
template <class C, class F>
__device__ void for_each_row(const ScoreRows<C>& rows, F&& f) {
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * blockDim.x / kLanes;
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
  for (std::int64_t row = first; row < rows.total; row += warps) {
    const std::int64_t index = row / rows.queries, query = row % rows.queries;
    f(index / rows.heads, index % rows.heads, query, rows.scores + row * rows.keys,
      rows.bound.seen(query));
  }
}

/// Scores become weights, as weigh_row() has them.
template <class C>
__global__ void weigh_scores(ScoreRows<C> rows, RowValues<C> lse) {
  constexpr C kInf = std::numeric_limits<C>::infinity();
  const int lane = threadIdx.x % kLanes;
  for_each_row(rows, [&](std::int64_t batch, std::int64_t head, std::int64_t query, C* scores,
                         std::int64_t seen) {
    C top = -kInf;
    for (std::int64_t key = lane; key < seen; key += kLanes) {
      const C score = scores[key] * rows.scale;
      if (score > top) top = score;
    }
    for (int step = kLanes / 2; step > 0; step /= 2) {
      const C other = __shfl_xor_sync(kAllLanes, top, step);
      top = other > top ? other : top;
    }
    const C shift = top == -kInf ? C{0} : top;
    C sum{0};
    for (std::int64_t key = lane; key < seen; key += kLanes) {
      sum += exp_of(scores[key] * rows.scale - shift);
    }
    sum = warp_sum(sum);
    const C share = seen == 0 ? C{0} : C{1} / sum;
    for (std::int64_t key = lane; key < rows.keys; key += kLanes) {
      scores[key] = key < seen ? exp_of(scores[key] * rows.scale - shift) * share : C{0};
    }
    if (lane == 0) lse.at(batch, head, query) = seen == 0 ? -kInf : top + std::log(sum);
  });
}

/// Scores become weights, and `slopes`, which are the weights' gradients, the scores' times the
/// scale.
template <class C>
__global__ void slope_scores(ScoreRows<C> rows, C* slopes, Heads<const C> grad, Heads<const C> out,
                             RowValues<const C> lse) {
  const int lane = threadIdx.x % kLanes;
  for_each_row(rows, [&](std::int64_t batch, std::int64_t head, std::int64_t query, C* scores,
                         std::int64_t seen) {
    const C* const grad_row = grad.at(batch, head) + query * grad.strides[2];
    const C* const out_row = out.at(batch, head) + query * out.strides[2];
    C delta{0};
    for (std::int64_t i = lane; i < grad.cols; i += kLanes) {
      delta += grad_row[i * grad.strides[3]] * out_row[i * out.strides[3]];
    }
    delta = warp_sum(delta);
    const C log_sum = lse.at(batch, head, query);
    C* const slope = slopes + (scores - rows.scores);
    for (std::int64_t key = lane; key < rows.keys; key += kLanes) {
      const C weight = key < seen ? exp_of(scores[key] * rows.scale - log_sum) : C{0};
      scores[key] = weight;
      slope[key] = key < seen ? weight * (slope[key] - delta) * rows.scale : C{0};
    }
  });
}

template <class C>
ScoreRows<C> rows_of(const Array& scores, const AttentionOptions& options) {
  return {.scores = device_data<C>(scores),
          .heads = scores.size(1),
          .queries = scores.size(2),
          .keys = scores.size(3),
          .total = scores.num_elements() / scores.size(3),
          .scale = static_cast<C>(options.scale),
          .bound = KeyBound(options, scores.size(3))};
}

Array scores_for(KernelContext& ctx, const Array& q, const Array& k) {
  return Array::empty({q.size(0), q.size(1), q.size(2), k.size(2)}, q.dtype(), ctx.allocator);
}

}  // namespace

bool product_attention(KernelContext& ctx, const Array& q, const Array& k, const Array& v,
                       const AttentionOptions& options, const Array& out, const Array& lse) {
  if (!takes_products(q, k, v)) return false;
  for_each_part(q, k, [&](const auto& part) {
    const Array of_q = part(q), of_k = part(k);
    const Array scores = scores_for(ctx, of_q, of_k);
    library_product(ctx, of_q, of_k.transpose(2, 3), scores);
    visit_float_type(q.dtype(), [&]<class C>(TypeTag<C>) {
      const ScoreRows<C> rows = rows_of<C>(scores, options);
      const Current current(*ctx.device);
      check(launch<weigh_scores<C>>(grid_for(rows.total * kLanes), stream_of(ctx), rows,
                                    RowValues<C>(part(lse))),
            *ctx.device, "attention");
    });
    library_product(ctx, scores, part(v), part(out));
  });
  return true;
}

bool product_attention_grad(KernelContext& ctx, const Array& grad, const Array& q, const Array& k,
                            const Array& v, const Array& out, const Array& lse,
                            const AttentionOptions& options, const AttentionGradients& grads) {
  if (!takes_products(q, k, v)) return false;
  for_each_part(q, k, [&](const auto& part) {
    const Array of_q = part(q), of_k = part(k), of_grad = part(grad);
    const Array scores = scores_for(ctx, of_q, of_k), slopes = scores_for(ctx, of_q, of_k);
    library_product(ctx, of_q, of_k.transpose(2, 3), scores);
    library_product(ctx, of_grad, part(v).transpose(2, 3), slopes);
    visit_float_type(q.dtype(), [&]<class C>(TypeTag<C>) {
      const ScoreRows<C> rows = rows_of<C>(scores, options);
      const Current current(*ctx.device);
      check(launch<slope_scores<C>>(grid_for(rows.total * kLanes), stream_of(ctx), rows,
                                    device_data<C>(slopes), Heads<const C>(of_grad),
                                    Heads<const C>(part(out)), RowValues<const C>(part(lse))),
            *ctx.device, "attention_grad");
    });
    library_product(ctx, slopes, of_k, part(grads.q));
    library_product(ctx, slopes.transpose(2, 3), of_q, part(grads.k));
    library_product(ctx, scores.transpose(2, 3), of_grad, part(grads.v));
  });
  return true;
}

}  // namespace tessera::kernels::TSR_CUDA
