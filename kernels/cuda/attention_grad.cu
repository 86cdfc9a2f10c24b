// Gradients of attention: weights follow again from the log-sums. One kernel goes by tiles of
// queries, which alone add up their gradients over the keys, one by tiles of keys.
#include "kernels/attention_checks.h"
#include "kernels/cuda/attention_library.h"
#include "kernels/cuda/attention_products.h"
#include "kernels/cuda/attention_tile.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/lines.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

template <class T>
struct Backward {
  using C = ComputeType<T>;
  Heads<const T> grad, q, k, v;
  Heads<T> grad_q, grad_k, grad_v;
  RowValues<const C> lse, delta;
  C scale;
  KeyBound bound;
};

/// Operands: delta, grad, out.
template <class C>
struct DotRows {
  __device__ void operator()(const Lines<3>& line) const {
    C sum{0};
    for (std::int64_t i = line.lane; i < line.n; i += kLanes) {
      sum += line.get<C>(1, i) * line.get<C>(2, i);
    }
    sum = warp_sum(sum);
    if (line.lane == 0) line.set(0, 0, sum);
  }
};

/// The weight of a key for a query, and the gradient of its score over the scale: weight · (grad ·
/// v − delta). Both 0 where it is not seen.
template <class C>
struct Slope {
  C weight, slope;
};
template <class T, class C>
__device__ Slope<C> slope_of(const Backward<T>& args, const AttentionPlace& at, std::int64_t query,
                             std::int64_t key, C score, C grad_weight) {
  if (query >= args.q.rows || key >= args.bound.seen(query)) return {C{0}, C{0}};
  const C weight = exp_of(score * args.scale - args.lse.at(at.batch, at.head, query));
  return {weight, weight * (grad_weight - args.delta.at(at.batch, at.head, query))};
}

template <class T>
__global__ void query_grads(AttentionGrid grid, Backward<T> args) {
  using C = ComputeType<T>;
  using S = ScoreTile<C>;
  TSR_SHARED(C, staged, [kStagedFactors<C>]);
  TSR_SHARED(C, slopes, [kSharedWeights<C>]);
  const AttentionPlace at = place_of(grid);
  const std::int64_t first = at.tile * S::kRows, col = at.chunk * ValueTile<C>::kCols;
  const Factor<const T> q = args.q.lines(at.batch, at.head).from(first);
  const Factor<const T> grad = args.grad.lines(at.batch, at.head).from(first);
  const Factor<const T> k = args.k.lines(at.batch, at.head), v = args.v.lines(at.batch, at.head);
  const Factor<const T> k_columns = args.k.columns(at.batch, at.head).from(col);
  ValueSums<C> sums = {};
  const std::int64_t last = first + S::kRows < args.q.rows ? first + S::kRows : args.q.rows;
  const std::int64_t keys = args.bound.seen(last - 1);
  for (std::int64_t key = 0; key < keys; key += S::kCols) {
    Scores<C> scores = {}, grad_weights = {};
    add_products<S>(staged, q, k.from(key), scores);
    add_products<S>(staged, grad, v.from(key), grad_weights);
    TSR_UNROLL
    for (int i = 0; i < S::kThreadRows; ++i) {
      TSR_UNROLL
      for (int j = 0; j < S::kThreadCols; ++j) {
        slopes[weight_at<C>(i, j)] =
            slope_of(args, at, first + S::row(i), key + S::col(j), scores[i][j], grad_weights[i][j])
                .slope;
      }
    }
    __syncthreads();
    add_values(slopes, staged, k_columns, key, sums, TakeAll{});
  }
  T* const to = args.grad_q.at(at.batch, at.head);
  for_each_value<C>(args.grad_q, first, col, [&](int i, int j, std::int64_t offset) {
    to[offset] = convert<T>(sums[i][j] * args.scale);
  });
}

/// Rows are keys here, and queries the other side.
template <class T>
__global__ void key_grads(AttentionGrid grid, Backward<T> args) {
  using C = ComputeType<T>;
  using S = ScoreTile<C>;
  TSR_SHARED(C, staged, [kStagedFactors<C>]);
  TSR_SHARED(C, weights, [kSharedWeights<C>]);
  TSR_SHARED(C, slopes, [kSharedWeights<C>]);
  const AttentionPlace at = place_of(grid);
  const std::int64_t first = at.tile * S::kRows, col = at.chunk * ValueTile<C>::kCols;
  const Factor<const T> k = args.k.lines(at.batch, at.head).from(first);
  const Factor<const T> v = args.v.lines(at.batch, at.head).from(first);
  const Factor<const T> q = args.q.lines(at.batch, at.head);
  const Factor<const T> grad = args.grad.lines(at.batch, at.head);
  const Factor<const T> q_columns = args.q.columns(at.batch, at.head).from(col);
  const Factor<const T> grad_columns = args.grad.columns(at.batch, at.head).from(col);
  ValueSums<C> sums_k = {}, sums_v = {};
  // Earlier queries see none of these keys.
  const std::int64_t sees_first = args.bound.causal ? first - args.bound.offset : 0;
  const std::int64_t begin = sees_first > 0 ? sees_first / S::kCols * S::kCols : 0;
  for (std::int64_t query = begin; query < args.q.rows; query += S::kCols) {
    Scores<C> scores = {}, grad_weights = {};
    add_products<S>(staged, k, q.from(query), scores);
    add_products<S>(staged, v, grad.from(query), grad_weights);
    TSR_UNROLL
    for (int i = 0; i < S::kThreadRows; ++i) {
      TSR_UNROLL
      for (int j = 0; j < S::kThreadCols; ++j) {
        const Slope<C> found = slope_of(args, at, query + S::col(j), first + S::row(i),
                                        scores[i][j], grad_weights[i][j]);
        weights[weight_at<C>(i, j)] = found.weight;
        slopes[weight_at<C>(i, j)] = found.slope;
      }
    }
    __syncthreads();
    add_values(weights, staged, grad_columns, query, sums_v, TakeAll{});
    add_values(slopes, staged, q_columns, query, sums_k, TakeAll{});
  }
  T* const to_k = args.grad_k.at(at.batch, at.head);
  for_each_value<C>(args.grad_k, first, col, [&](int i, int j, std::int64_t offset) {
    to_k[offset] = convert<T>(sums_k[i][j] * args.scale);
  });
  T* const to_v = args.grad_v.at(at.batch, at.head);
  for_each_value<C>(args.grad_v, first, col, [&](int i, int j, std::int64_t offset) {
    to_v[offset] = convert<T>(sums_v[i][j]);
  });
}

}  // namespace

void attention_grad(KernelContext& ctx, const Array& grad, const Array& q, const Array& k,
                    const Array& v, const Array& out, const Array& lse,
                    const AttentionOptions& options, const AttentionGradients& grads) {
  check_attention_grad(grad, q, k, v, out, lse, grads);
  const bool is_done = run_library_attention_grad(ctx, grad, q, k, v, out, lse, options, grads);
  if (count_call(ctx, LibraryWork::kAttention, is_done)) return;
  if (product_attention_grad(ctx, grad, q, k, v, out, lse, options, grads)) return;
  const Array delta = Array::empty(lse.shape(), lse.dtype(), ctx.allocator);
  visit_floating(q.dtype(), [&]<class T>(TypeTag<T>) {
    using C = ComputeType<T>;
    run_lines<3>(ctx, "attention_grad", {{{delta}, {grad, 3}, {out, 3}}}, DotRows<C>{});
    const Backward<T> args{Heads<const T>(grad),        Heads<const T>(q),
                           Heads<const T>(k),           Heads<const T>(v),
                           Heads<T>(grads.q),           Heads<T>(grads.k),
                           Heads<T>(grads.v),           RowValues<const C>(lse),
                           RowValues<const C>(delta),   static_cast<C>(options.scale),
                           KeyBound(options, k.size(2))};
    AttentionGrid grid{q.size(1), tiles_of(q.size(2), ScoreTile<C>::kRows), chunks_of<C>(q.size(3)),
                       TileOrder::kBackward};
    launch_attention<query_grads<T>, C>(ctx, "attention_grad", q.size(0), grid, args);
    grid = {q.size(1), tiles_of(k.size(2), ScoreTile<C>::kRows),
            std::max(chunks_of<C>(q.size(3)), chunks_of<C>(v.size(3))), TileOrder::kForward};
    launch_attention<key_grads<T>, C>(ctx, "attention_grad", q.size(0), grid, args);
  });
}

}  // namespace tessera::kernels::TSR_CUDA
