// Gradients of attention: weights follow again from the log-sums, and with them lie in scratch, of
// bounded size, until three products have added them up. One fused kernel would have to compute
// scores again for each tile of columns of each gradient: of 192 and 128 columns more than twice
// the operations, while writing and reading the scratch takes a fraction of the products' time.
#include "kernels/attention_checks.h"
#include "kernels/cuda/attention_library.h"
#include "kernels/cuda/attention_tile.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/lines.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// Tiles of slopes and of gradients; scratch for all slopes at hand. In the emulation heads of a
/// few tiles take several rounds.
#ifdef __CUDACC__
template <class C>
using GradTile = Tile<16, 8, kProductEach<C>, kProductEach<C>, 8>;
constexpr std::int64_t kMostSlopeBytes = std::int64_t{256} << 20;
#else
template <class C>
using GradTile = Tile<8, 4, 2, 3, 4>;
constexpr std::int64_t kMostSlopeBytes = 8 << 10;
#endif
/// More would leave too few registers for the sums.
constexpr int kGradBlocksAtOnce = 3;

template <class T>
struct Backward {
  using C = ComputeType<T>;
  Heads<const T> grad, q, k, v;
  RowValues<const C> lse, delta;
  C scale;
  KeyBound bound;
};

/// Those of keys are summed over spans of queries, in the type of sums.
template <class T>
struct BackwardOutputs {
  Heads<T> q;
  Heads<ComputeType<T>> k, v;
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

/// Some queries of some heads, whose weights and slopes (the gradients of their scores) lie in
/// scratch: (line, query, key), `pitch` apart. All but the first span of a head add to the
/// gradients of keys.
template <class C>
struct SlopeSpan {
  C *weights, *slopes;
  std::int64_t first_query, queries, pitch;

  __device__ std::int64_t at(std::int64_t line, std::int64_t query) const {
    return (line * queries + query) * pitch;
  }
};

/// A tile of weights, and from them one of slopes: weight · (grad · v − delta) · scale. Both are 0
/// where a query does not see a key; tiles that nothing reads are not written.
template <class T>
__global__ void __launch_bounds__(GradTile<ComputeType<T>>::kThreads, kGradBlocksAtOnce)
    find_slopes(AttentionGrid grid, Backward<T> args, SlopeSpan<ComputeType<T>> span) {
  using C = ComputeType<T>;
  using S = GradTile<C>;
  TSR_SHARED(Four<C>, fours, [S::kStaged / 4]);
  const AttentionPlace at = place_of(grid);
  const std::int64_t first = at.tile * S::kRows, key = at.chunk * S::kCols;
  const std::int64_t rows = span.queries - first < S::kRows ? span.queries - first : S::kRows;
  const std::int64_t query = span.first_query + first, keys = args.k.rows - key;
  // Tiles of gradients of keys begin at multiples of their rows and read from the first query on
  // that sees any of these: none of those tiles may lack slopes.
  if (args.bound.seen(query + rows - 1) <= key / S::kRows * S::kRows) return;
  const std::int64_t place = span.at(at.line, first) + key;
  C sums[S::kThreadRows][S::kThreadCols] = {};
  add_products<S>(fours[0].at, args.q.lines(at.batch, at.head).from(query),
                  args.k.lines(at.batch, at.head).from(key), sums);
  const auto seen_of = [&](int row) {
    return row < rows ? static_cast<int>(args.bound.seen_in(query + row, key, S::kCols)) : 0;
  };
  TSR_UNROLL
  for (int i = 0; i < S::kThreadRows; ++i) {
    const int row = S::row(i), seen = seen_of(row);
    const C lse = seen > 0 ? args.lse.at(at.batch, at.head, query + row) : C{0};
    TSR_UNROLL
    for (int j = 0; j < S::kThreadCols; ++j) {
      sums[i][j] = S::col(j) < seen ? exp_of(sums[i][j] * args.scale - lse) : C{0};
    }
  }
  store_tile<S>(Plane<C>{span.weights + place, span.pitch, 1}, rows, keys,
                [&](int i, int j, int, int) { return sums[i][j]; });

  // The weights come back from memory: registers for both would halve the threads at work.
  C slopes[S::kThreadRows][S::kThreadCols] = {};
  add_products<S>(fours[0].at, args.grad.lines(at.batch, at.head).from(query),
                  args.v.lines(at.batch, at.head).from(key), slopes);
  constexpr int kVector = S::kColVector;
  TSR_UNROLL
  for (int i = 0; i < S::kThreadRows; ++i) {
    const int row = S::row(i), seen = seen_of(row);
    const C delta = seen > 0 ? args.delta.at(at.batch, at.head, query + row) : C{0};
    TSR_UNROLL
    for (int j = 0; j < S::kThreadCols; j += kVector) {
      Vector<C, kVector> weights{};
      if (S::col(j) < seen) {
        weights = *reinterpret_cast<const Vector<C, kVector>*>(span.weights + place +
                                                               row * span.pitch + S::col(j));
      }
      TSR_UNROLL
      for (int e = 0; e < kVector; ++e) {
        C& slope = slopes[i][j + e];
        slope = S::col(j + e) < seen ? weights.at[e] * (slope - delta) * args.scale : C{0};
      }
    }
  }
  store_tile<S>(Plane<C>{span.slopes + place, span.pitch, 1}, rows, keys,
                [&](int i, int j, int, int) { return slopes[i][j]; });
}

/// out = slopes · k.
template <class T>
__global__ void __launch_bounds__(GradTile<ComputeType<T>>::kThreads, kGradBlocksAtOnce)
    query_grads(AttentionGrid grid, Heads<const T> k, KeyBound bound,
                SlopeSpan<ComputeType<T>> span, Heads<T> out) {
  using C = ComputeType<T>;
  using S = GradTile<C>;
  TSR_SHARED(Four<C>, fours, [S::kStaged / 4]);
  const AttentionPlace at = place_of(grid);
  const std::int64_t first = at.tile * S::kRows, col = at.chunk * S::kCols;
  const std::int64_t rows = span.queries - first < S::kRows ? span.queries - first : S::kRows;
  const std::int64_t query = span.first_query + first, keys = bound.seen(query + rows - 1);
  const Factor<C> slopes{span.slopes + span.at(at.line, first), rows, span.pitch, keys, 1};
  C sums[S::kThreadRows][S::kThreadCols] = {};
  add_products<S>(fours[0].at, slopes, k.columns(at.batch, at.head).from(col).between(0, keys),
                  sums);
  store_tile<S>(out.plane(at.batch, at.head, query, col), rows, out.cols - col,
                [&](int i, int j, int, int) { return sums[i][j]; });
}

/// out (+)= factorsᵀ · x: weights by grad, or slopes by q.
template <class T>
__global__ void __launch_bounds__(GradTile<ComputeType<T>>::kThreads, kGradBlocksAtOnce)
    key_grads(AttentionGrid grid, const ComputeType<T>* factors, Heads<const T> x, KeyBound bound,
              SlopeSpan<ComputeType<T>> span, Heads<ComputeType<T>> out) {
  using C = ComputeType<T>;
  using S = GradTile<C>;
  TSR_SHARED(Four<C>, fours, [S::kStaged / 4]);
  const AttentionPlace at = place_of(grid);
  const std::int64_t key = at.tile * S::kRows, col = at.chunk * S::kCols;
  // Earlier queries see none of these keys.
  const std::int64_t sees_first = bound.causal ? key - bound.offset - span.first_query : 0;
  const std::int64_t begin = std::clamp<std::int64_t>(sees_first, 0, span.queries);
  const Factor<C> left{factors + span.at(at.line, 0) + key, out.rows - key, 1, span.queries,
                       span.pitch};
  const Factor<T> right = x.columns(at.batch, at.head).from(col);
  C sums[S::kThreadRows][S::kThreadCols] = {};
  add_products<S>(fours[0].at, left.between(begin, span.queries),
                  right.between(span.first_query + begin, span.first_query + span.queries), sums);
  const Plane<C> to = out.plane(at.batch, at.head, key, col);
  const bool is_first = span.first_query == 0;
  store_tile<S>(to, out.rows - key, out.cols - col, [&](int i, int j, int row, int c) {
    return is_first ? sums[i][j] : to.data[row * to.row_stride + c * to.col_stride] + sums[i][j];
  });
}

/// What of a head's queries, or of how many heads, has its scratch at once.
struct SpanSizes {
  std::int64_t lines, queries;

  template <class C>
  static SpanSizes of(std::int64_t lines, std::int64_t queries, std::int64_t pitch) {
    const std::int64_t row_bytes = 2 * std::max<std::int64_t>(pitch, 1) * sizeof(C);
    const std::int64_t rows = kMostSlopeBytes / row_bytes;
    if (rows >= queries) {
      return {std::clamp<std::int64_t>(rows / std::max<std::int64_t>(queries, 1), 1,
                                       std::max<std::int64_t>(lines, 1)),
              queries};
    }
    return {1, std::max<std::int64_t>(rows / GradTile<C>::kRows, 1) * GradTile<C>::kRows};
  }
};

/// The gradients of one span, each by a launch.
template <class T>
void run_span(KernelContext& ctx, AttentionGrid grid, const Backward<T>& args,
              const SlopeSpan<ComputeType<T>>& span, const BackwardOutputs<T>& to) {
  using C = ComputeType<T>;
  using S = GradTile<C>;
  const char* op = "attention_grad";
  const auto deal = [&](std::int64_t tiles, std::int64_t chunks, TileOrder order) {
    grid.tiles = tiles;
    grid.chunks = chunks;
    grid.order = order;
  };
  deal(tiles_of(span.queries, S::kRows), tiles_of(args.k.rows, S::kCols), TileOrder::kForward);
  launch_attention<find_slopes<T>>(ctx, op, S::kThreads, grid, args, span);
  deal(tiles_of(span.queries, S::kRows), tiles_of(args.q.cols, S::kCols), TileOrder::kBackward);
  launch_attention<query_grads<T>>(ctx, op, S::kThreads, grid, args.k, args.bound, span, to.q);
  deal(tiles_of(args.k.rows, S::kRows), tiles_of(args.q.cols, S::kCols), TileOrder::kForward);
  launch_attention<key_grads<T>>(ctx, op, S::kThreads, grid, span.slopes, args.q, args.bound, span,
                                 to.k);
  grid.chunks = tiles_of(args.v.cols, S::kCols);
  launch_attention<key_grads<T>>(ctx, op, S::kThreads, grid, span.weights, args.grad, args.bound,
                                 span, to.v);
}

/// Spans one after another, in one scratch.
template <class T>
void run_spans(KernelContext& ctx, std::int64_t batches, std::int64_t heads,
               const Backward<T>& args, const BackwardOutputs<T>& to) {
  using C = ComputeType<T>;
  const std::int64_t lines = batches * heads, pitch = tiles_of(args.k.rows, 4) * 4;
  const SpanSizes most = SpanSizes::of<C>(lines, args.q.rows, pitch);
  const std::int64_t size = most.lines * std::min(most.queries, args.q.rows) * pitch;
  const Array scratch = Array::empty(
      {2 * size}, std::is_same_v<C, double> ? DType::kF64 : DType::kF32, ctx.allocator);
  C* const weights = device_data<C>(scratch);
  for (std::int64_t line = 0; line < lines; line += most.lines) {
    const AttentionGrid grid{.heads = heads,
                             .first_line = line,
                             .lines = std::min(most.lines, lines - line),
                             .tiles = 0,
                             .chunks = 0,
                             .order = TileOrder::kForward};
    std::int64_t query = 0;
    do {  // once where there is no query: keys' gradients are 0
      const std::int64_t queries = std::min(most.queries, args.q.rows - query);
      run_span<T>(ctx, grid, args, {weights, weights + size, query, queries, pitch}, to);
      query += most.queries;
    } while (query < args.q.rows);
  }
}

}  // namespace

void attention_grad(KernelContext& ctx, const Array& grad, const Array& q, const Array& k,
                    const Array& v, const Array& out, const Array& lse,
                    const AttentionOptions& options, const AttentionGradients& grads) {
  check_attention_grad(grad, q, k, v, out, lse, grads);
  const bool is_done = run_library_attention_grad(ctx, grad, q, k, v, out, lse, options, grads);
  if (count_call(ctx, LibraryWork::kAttention, is_done)) return;
  const Array delta = Array::empty(lse.shape(), lse.dtype(), ctx.allocator);
  const StagedOutput grad_k(ctx, grads.k, lse.dtype()), grad_v(ctx, grads.v, lse.dtype());
  visit_floating(q.dtype(), [&]<class T>(TypeTag<T>) {
    using C = ComputeType<T>;
    run_lines<3>(ctx, "attention_grad", {{{delta}, {grad, 3}, {out, 3}}}, DotRows<C>{});
    const Backward<T> args{Heads<const T>(grad),
                           Heads<const T>(q),
                           Heads<const T>(k),
                           Heads<const T>(v),
                           RowValues<const C>(lse),
                           RowValues<const C>(delta),
                           static_cast<C>(options.scale),
                           KeyBound(options, k.size(2))};
    run_spans<T>(ctx, q.size(0), q.size(1), args,
                 {Heads<T>(grads.q), Heads<C>(grad_k.array()), Heads<C>(grad_v.array())});
  });
  grad_k.finish(ctx);
  grad_v.finish(ctx);
}

}  // namespace tessera::kernels::TSR_CUDA
