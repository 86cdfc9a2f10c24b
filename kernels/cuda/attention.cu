// Attention by tiles of keys: each brings its weights against the greatest score so far, and what
// was added up before is rescaled where that grew.
#include <cmath>
#include <limits>

#include "kernels/attention_checks.h"
#include "kernels/cuda/attention_library.h"
#include "kernels/cuda/attention_products.h"
#include "kernels/cuda/attention_tile.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/map.h"
#include "kernels/lines.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

template <class T>
struct Forward {
  using C = ComputeType<T>;
  Heads<const T> q, k, v;
  Heads<T> out;
  RowValues<C> lse;
  C scale;
  KeyBound bound;
  MapOperand mask;  // over (B, H, Lq, Lk); of masked_attention alone
};

/// What is added to a score.
template <class C>
__device__ C addend_of(const MapOperand& mask, std::int64_t at) {
  if (mask.dtype != DType::kBool) return load<C>(mask, at);
  const bool is_seen = reinterpret_cast<const bool*>(mask.data)[at];
  return is_seen ? C{0} : -std::numeric_limits<C>::infinity();
}

/// Among the threads that share rows.
template <class C>
__device__ C max_across(C value) {
  for (int step = 1; step < ScoreTile<C>::kAcross; step *= 2) {
    const C other = __shfl_xor_sync(0xffffffffU, value, step);
    value = other > value ? other : value;
  }
  return value;
}
template <class C>
__device__ C sum_across(C value) {
  for (int step = 1; step < ScoreTile<C>::kAcross; step *= 2) {
    value += __shfl_xor_sync(0xffffffffU, value, step);
  }
  return value;
}

/// What a thread holds of its rows.
template <class C>
struct RunningRows {
  C max[ScoreTile<C>::kThreadRows];
  C sum[ScoreTile<C>::kThreadRows];
  int seen[ScoreTile<C>::kThreadRows];  // of the tile of keys at hand
  ValueSums<C> values;
};

/// Turns row i's scores into weights in shared memory. NaN scores make the sum NaN.
template <class C>
__device__ void weigh_row(int i, Scores<C>& scores, RunningRows<C>& rows, C* weights) {
  using S = ScoreTile<C>;
  constexpr C kInf = std::numeric_limits<C>::infinity();
  C top = rows.max[i];
  TSR_UNROLL
  for (int j = 0; j < S::kThreadCols; ++j) {
    if (S::col(j) < rows.seen[i] && scores[i][j] > top) top = scores[i][j];
  }
  top = max_across(top);
  const C shift = top == -kInf ? C{0} : top;
  const C factor = exp_of(rows.max[i] - shift);
  C own{0};
  TSR_UNROLL
  for (int j = 0; j < S::kThreadCols; ++j) {
    const C weight = S::col(j) < rows.seen[i] ? exp_of(scores[i][j] - shift) : C{0};
    own += weight;
    weights[weight_at<C>(i, j)] = weight;
  }
  rows.sum[i] = rows.sum[i] * factor + sum_across(own);
  rows.max[i] = top;
  for (C& value : rows.values[i]) value *= factor;
}

template <class T, bool kMasked>
__device__ void store_rows(const Forward<T>& args, const AttentionPlace& at, std::int64_t first,
                           std::int64_t col, const RunningRows<ComputeType<T>>& rows) {
  using C = ComputeType<T>;
  using S = ScoreTile<C>;
  constexpr C kInf = std::numeric_limits<C>::infinity();
  C scales[S::kThreadRows];
  TSR_UNROLL
  for (int i = 0; i < S::kThreadRows; ++i) {
    const std::int64_t row = first + S::row(i);
    const bool sees_none =
        kMasked ? rows.max[i] == -kInf && rows.sum[i] == C{0} : args.bound.seen(row) == 0;
    scales[i] = sees_none ? C{1} : C{1} / rows.sum[i];
    if (at.chunk != 0 || S::col(0) != 0 || row >= args.q.rows) continue;
    args.lse.at(at.batch, at.head, row) = sees_none ? -kInf : rows.max[i] + std::log(rows.sum[i]);
  }
  T* const out = args.out.at(at.batch, at.head);
  for_each_value<C>(args.out, first, col, [&](int i, int j, std::int64_t offset) {
    out[offset] = convert<T>(rows.values[i][j] * scales[i]);
  });
}

template <class T, bool kMasked>
__global__ void attend(AttentionGrid grid, Forward<T> args) {
  using C = ComputeType<T>;
  using S = ScoreTile<C>;
  TSR_SHARED(C, staged, [kStagedFactors<C>]);
  TSR_SHARED(C, weights, [kSharedWeights<C>]);
  const AttentionPlace at = place_of(grid);
  const std::int64_t first = at.tile * S::kRows, col = at.chunk * ValueTile<C>::kCols;
  const Factor<const T> q = args.q.lines(at.batch, at.head).from(first);
  const Factor<const T> k = args.k.lines(at.batch, at.head);
  const Factor<const T> v = args.v.columns(at.batch, at.head).from(col);
  const std::int64_t mask = at.batch * args.mask.strides[0] + at.head * args.mask.strides[1];
  RunningRows<C> rows{};
  for (C& max : rows.max) max = -std::numeric_limits<C>::infinity();
  const std::int64_t last = first + S::kRows < args.q.rows ? first + S::kRows : args.q.rows;
  const std::int64_t keys = args.bound.seen(last - 1);
  for (std::int64_t key = 0; key < keys; key += S::kCols) {
    Scores<C> scores = {};
    add_products<S>(staged, q, k.from(key), scores);
    TSR_UNROLL
    for (int i = 0; i < S::kThreadRows; ++i) {
      const std::int64_t row = first + S::row(i);
      rows.seen[i] = row < last ? static_cast<int>(args.bound.seen_in(row, key, S::kCols)) : 0;
      TSR_UNROLL
      for (int j = 0; j < S::kThreadCols; ++j) {
        scores[i][j] *= args.scale;
        if (kMasked && S::col(j) < rows.seen[i]) {
          scores[i][j] += addend_of<C>(args.mask, mask + row * args.mask.strides[2] +
                                                      (key + S::col(j)) * args.mask.strides[3]);
        }
      }
      weigh_row(i, scores, rows, weights);
    }
    __syncthreads();
    // A weight of 0 would make an infinite value of a key that a row does not see a NaN.
    add_values(weights, staged, v, key, rows.values,
               [&](int i, int p) { return p < rows.seen[i]; });
  }
  store_rows<T, kMasked>(args, at, first, col, rows);
}

template <bool kMasked>
void run_forward(KernelContext& ctx, const char* name, const Array& q, const Array& k,
                 const Array& v, const AttentionOptions& options, const MapOperand& mask,
                 const Array& out, const Array& lse) {
  visit_floating(q.dtype(), [&]<class T>(TypeTag<T>) {
    using C = ComputeType<T>;
    const Forward<T> args{Heads<const T>(q),
                          Heads<const T>(k),
                          Heads<const T>(v),
                          Heads<T>(out),
                          RowValues<C>(lse),
                          static_cast<C>(options.scale),
                          KeyBound(options, k.size(2)),
                          mask};
    const AttentionGrid grid{q.size(1), tiles_of(q.size(2), ScoreTile<C>::kRows),
                             chunks_of<C>(v.size(3)), TileOrder::kBackward};
    launch_attention<attend<T, kMasked>, C>(ctx, name, q.size(0), grid, args);
  });
}

}  // namespace

void attention(KernelContext& ctx, const Array& q, const Array& k, const Array& v,
               const AttentionOptions& options, const Array& out, const Array& lse) {
  check_attention("attention", q, k, v, out, lse);
  const bool is_done = run_library_attention(ctx, q, k, v, options, out, lse);
  if (count_call(ctx, LibraryWork::kAttention, is_done)) return;
  if (product_attention(ctx, q, k, v, options, out, lse)) return;
  run_forward<false>(ctx, "attention", q, k, v, options, {}, out, lse);
}

void masked_attention(KernelContext& ctx, const Array& q, const Array& k, const Array& v,
                      const Array& mask, double scale, const Array& out, const Array& lse) {
  check_attention("masked_attention", q, k, v, out, lse);
  const std::int64_t wanted[] = {q.size(0), q.size(1), q.size(2), k.size(2)};
  MapOperand operand{.data = mask.bytes(), .dtype = mask.dtype(), .strides = {}};
  const auto lead = static_cast<std::size_t>(4 - mask.ndim());
  for (std::size_t d = 0; d < mask.shape().size(); ++d) {
    if (mask.shape()[d] == wanted[lead + d]) operand.strides[lead + d] = mask.strides()[d];
  }
  run_forward<true>(ctx, "masked_attention", q, k, v, {.scale = scale, .causal = false}, operand,
                    out, lse);
}

}  // namespace tessera::kernels::TSR_CUDA
