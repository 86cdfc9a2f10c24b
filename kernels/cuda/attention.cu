// Attention by tiles of keys: each brings its weights against the greatest score so far, and what
// was added up before is rescaled where that grew. A block works on some rows of one head; columns
// of values beyond a tile are another block's, which computes the scores again.
#include <cmath>
#include <limits>

#include "kernels/attention_checks.h"
#include "kernels/cuda/attention_library.h"
#include "kernels/cuda/attention_tile.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/map.h"
#include "kernels/lines.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

#ifdef __CUDACC__
template <class C>
inline constexpr int kScoreEach = sizeof(C) == 8 ? 4 : 8;
template <class C>
using ScoreTile = Tile<8, 16, kScoreEach<C>, kScoreEach<C> / 2, 8>;
template <class C>
using ValueTile = Tile<8, 16, kScoreEach<C>, kScoreEach<C>, 8>;
#else
template <class C>
using ScoreTile = Tile<8, 4, 2, 2, 4>;
template <class C>
using ValueTile = Tile<8, 4, 2, 3, 4>;
#endif

template <class C>
using Scores = C[ScoreTile<C>::kThreadRows][ScoreTile<C>::kThreadCols];
template <class C>
using ValueSums = C[ValueTile<C>::kThreadRows][ValueTile<C>::kThreadCols];

/// Elements of shared memory: factors of either tile; weights, (key, row).
template <class C>
inline constexpr int kValueSlice = ValueTile<C>::kSteps* ValueTile<C>::kColPitch;
template <class C>
inline constexpr int kStagedFactors = std::max(ScoreTile<C>::kStaged, 2 * kValueSlice<C>);
template <class C>
inline constexpr int kSharedWeights = ScoreTile<C>::kCols* ScoreTile<C>::kRowPitch;

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

/// Turns row i's scores into weights. NaN scores make the sum NaN.
template <class C>
__device__ void weigh_row(int i, Scores<C>& scores, RunningRows<C>& rows) {
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
    scores[i][j] = S::col(j) < rows.seen[i] ? exp_of(scores[i][j] - shift) : C{0};
    own += scores[i][j];
  }
  rows.sum[i] = rows.sum[i] * factor + sum_across(own);
  rows.max[i] = top;
  for (C& value : rows.values[i]) value *= factor;
}

template <class C>
__device__ void put_weights(const Scores<C>& scores, C* weights) {
  using S = ScoreTile<C>;
  constexpr int kVector = S::kRowVector;
  TSR_UNROLL
  for (int j = 0; j < S::kThreadCols; ++j) {
    TSR_UNROLL
    for (int i = 0; i < S::kThreadRows; i += kVector) {
      Vector<C, kVector> rows;
      TSR_UNROLL
      for (int e = 0; e < kVector; ++e) rows.at[e] = scores[i + e][j];
      *reinterpret_cast<Vector<C, kVector>*>(weights + S::col(j) * S::kRowPitch + S::row(i)) = rows;
    }
  }
}

/// sums += weights · values, a tile of keys of those; of row i and key p what take(i, p) names.
template <class C, class T, class Take>
__device__ void add_values(const C* weights, C* staged, const Factor<T>& values, ValueSums<C>& sums,
                           const Take& take) {
  using V = ValueTile<C>;
  static_assert(ScoreTile<C>::kCols % V::kSteps == 0 && ScoreTile<C>::kRowPitch == V::kRowPitch);
  Stager<T, V::kCols, V::kSteps, V::kThreads> cols(values);
  by_slices<V::kSteps>(
      staged, kValueSlice<C>, values.depth, [&](std::int64_t first) { cols.fetch(first); },
      [&](C* slice) { cols.put(slice); },
      [&](const C* slice, std::int64_t first) {
        const auto key = static_cast<int>(first);
        add_steps<V>(weights + key * V::kRowPitch, slice, sums,
                     [&](int i, int step) { return take(i, key + step); });
      });
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
  store_tile<ValueTile<C>>(args.out.plane(at.batch, at.head, first, col), args.out.rows - first,
                           args.out.cols - col,
                           [&](int i, int j, int, int) { return rows.values[i][j] * scales[i]; });
}

template <class T, bool kMasked>
__global__ void __launch_bounds__(ScoreTile<ComputeType<T>>::kThreads)
    attend(AttentionGrid grid, Forward<T> args) {
  using C = ComputeType<T>;
  using S = ScoreTile<C>;
  TSR_SHARED(Four<C>, factor_fours, [kStagedFactors<C> / 4]);
  TSR_SHARED(Four<C>, weight_fours, [kSharedWeights<C> / 4]);
  C* const staged = factor_fours[0].at;
  C* const weights = weight_fours[0].at;
  const AttentionPlace at = place_of(grid);
  const std::int64_t first = at.tile * S::kRows, col = at.chunk * ValueTile<C>::kCols;
  const Factor<T> q = args.q.lines(at.batch, at.head).from(first);
  const Factor<T> k = args.k.lines(at.batch, at.head);
  const Factor<T> v = args.v.columns(at.batch, at.head).from(col);
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
      weigh_row(i, scores, rows);
    }
    put_weights(scores, weights);
    if (args.bound.seen(first) >= key + S::kCols) {
      add_values(weights, staged, v.between(key, key + S::kCols), rows.values, TakeAll{});
      continue;
    }
    // A weight of 0 would make an infinite value of a key that a row does not see a NaN.
    const std::int64_t end = key + S::kCols < keys ? key + S::kCols : keys;
    add_values(weights, staged, v.between(key, end), rows.values,
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
    const std::int64_t chunks = std::max<std::int64_t>(1, tiles_of(v.size(3), ValueTile<C>::kCols));
    const AttentionGrid grid{.heads = q.size(1),
                             .first_line = 0,
                             .lines = q.size(0) * q.size(1),
                             .tiles = tiles_of(q.size(2), ScoreTile<C>::kRows),
                             .chunks = chunks,
                             .order = TileOrder::kBackward};
    launch_attention<attend<T, kMasked>>(ctx, name, ScoreTile<C>::kThreads, grid, args);
  });
}

}  // namespace

void attention(KernelContext& ctx, const Array& q, const Array& k, const Array& v,
               const AttentionOptions& options, const Array& out, const Array& lse) {
  check_attention("attention", q, k, v, out, lse);
  const bool is_done = run_library_attention(ctx, q, k, v, options, out, lse);
  if (count_call(ctx, LibraryWork::kAttention, is_done)) return;
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
