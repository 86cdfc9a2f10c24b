// What lines give: folds, moments, extremes with their places, products of others. Each segment's
// own result, then those of a line joined; a line of one segment takes one launch.
#include <cmath>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/segments.h"
#include "kernels/elementwise.h"
#include "kernels/extreme.h"
#include "kernels/row_folds.h"
#include "kernels/row_moments.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// Of the threads of a segment; every thread gets it.
template <int kWidth, class Fold>
__device__ typename Fold::State join_threads(const Fold& fold, typename Fold::State state) {
  for (int step = kWidth / 2; step > 0; step /= 2) {
    state = fold.join(state, from_across(state, step));
  }
  return state;
}

template <class Fold>
struct FoldSegment {
  Fold fold;
  typename Fold::State* folds;  // null where it is the only one of its line
  template <class S>
  __device__ void operator()(const S& segment) const {
    auto state = fold.start();
    for (std::int64_t i = segment.begin + segment.lane; i < segment.end; i += S::kWidth) {
      state = fold.step(state, segment, i);
    }
    state = join_threads<S::kWidth>(fold, state);
    if (segment.lane != 0) return;
    if (folds == nullptr) {
      fold.finish(segment, state);
    } else {
      folds[segment.place_of(segment.number)] = state;
    }
  }
};
/// Of lines whose elements are the folds of segments.
template <class Fold>
struct JoinSegments {
  Fold fold;
  const typename Fold::State* folds;
  template <class S>
  __device__ void operator()(const S& segment) const {
    auto state = fold.start();
    for (std::int64_t i = segment.begin + segment.lane; i < segment.end; i += S::kWidth) {
      state = fold.join(state, folds[segment.place_of(i)]);
    }
    state = join_threads<S::kWidth>(fold, state);
    if (segment.lane == 0) fold.finish(segment, state);
  }
};

/// Fold: State, start(), step(state, segment, i), join(state, state) in any order, finish(segment,
/// state). The last operand has the lines.
template <int kOperands, class Fold>
void fold_lines(KernelContext& ctx, const char* name,
                const std::array<LineOperand, kOperands>& operands, const Fold& fold) {
  using State = typename Fold::State;
  run_cut_lines<kOperands>(
      ctx, name, operands,
      [&]<int kWidth>(const auto& layout, const auto& steps, std::int64_t n, Cut cut) {
        if (cut.count == 1) {
          return launch_segments<kWidth>(ctx, layout, steps, n, cut,
                                         FoldSegment<Fold>{fold, nullptr});
        }
        const Array room = scratch_for<State>(ctx, cut.count * layout.total);
        State* const folds = device_data<State>(room);
        check(launch_segments<kWidth>(ctx, layout, steps, n, cut, FoldSegment<Fold>{fold, folds}),
              *ctx.device, name);
        return launch_segments<kLanes>(ctx, layout, steps, cut.count, Cut{cut.count, 1},
                                       JoinSegments<Fold>{fold, folds});
      });
}

/// Operands: out, x.
template <class Of>
struct RowFolder {
  using State = double;
  Of of;
  __device__ State start() const { return Of::kStart; }
  template <class S>
  __device__ State step(State state, const S& segment, std::int64_t i) const {
    return of.step(state, segment.template get<double>(1, i));
  }
  __device__ State join(State a, State b) const { return Of::join(a, b); }
  template <class S>
  __device__ void finish(const S& segment, State state) const {
    segment.set(0, 0, state);
  }
};

/// Operands: indices, values (the indices once more where nobody wants them), x.
template <class Value, Extreme kWhich>
struct FirstExtreme {
  struct State {
    Value value;
    std::int64_t index;  // −1: none
  };
  bool wants_values;
  __device__ State start() const { return {Value{0}, -1}; }
  template <class S>
  __device__ State step(const State& state, const S& segment, std::int64_t i) const {
    return join(state, {segment.template get<Value>(2, i), i});
  }
  __device__ State join(const State& a, const State& b) const {
    if (a.index < 0 || b.index < 0) return a.index < 0 ? b : a;
    if (beats<kWhich>(b.value, a.value)) return b;
    if (beats<kWhich>(a.value, b.value)) return a;
    return a.index < b.index ? a : b;
  }
  template <class S>
  __device__ void finish(const S& segment, const State& state) const {
    segment.set(0, 0, state.index);
    if (!wants_values) return;
    copy_element(segment.layout.operands[1], segment.offsets[1], segment.layout.operands[2],
                 segment.offsets[2] + state.index * segment.steps[2]);
  }
};

/// An output of arg_extreme without its dim of size 1.
Array without_kept(const Array& out, int dim, int ndim) {
  if (out.ndim() != ndim) return out;
  return out.as_strided(without_dim(out.shape(), dim), without_dim(out.strides(), dim),
                        out.offset());
}

constexpr std::int64_t kMomentBlock = 1024;

/// Operands: count, mean, deviations; x. Those of segment s go `step` · s elements further.
struct RowMoments {
  std::int64_t step;
  template <class S>
  __device__ void operator()(const S& segment) const {
    Moments whole;
    for (std::int64_t begin = segment.begin; begin < segment.end; begin += kMomentBlock) {
      const std::int64_t end =
          begin + kMomentBlock < segment.end ? begin + kMomentBlock : segment.end;
      whole = combined(whole, of_block(segment, begin, end));
    }
    if (segment.lane != 0) return;
    const std::int64_t to = segment.number * step;
    store(segment.layout.operands[0], segment.offsets[0] + to, whole.count);
    store(segment.layout.operands[1], segment.offsets[1] + to, whole.mean);
    store(segment.layout.operands[2], segment.offsets[2] + to, whole.deviations);
  }
  template <class S>
  static __device__ Moments of_block(const S& segment, std::int64_t begin, std::int64_t end) {
    Moments block;
    block.count = static_cast<double>(end - begin);
    double sum = 0.0;
    for (std::int64_t i = begin + segment.lane; i < end; i += S::kWidth) {
      sum += segment.template get<double>(3, i);
    }
    block.mean = sum_of_threads<S::kWidth>(sum) / block.count;
    for (std::int64_t i = begin + segment.lane; i < end; i += S::kWidth) {
      const double gap = segment.template get<double>(3, i) - block.mean;
      block.deviations += gap * gap;
    }
    block.deviations = sum_of_threads<S::kWidth>(block.deviations);
    return block;
  }
  template <int kWidth>
  static __device__ double sum_of_threads(double value) {
    if constexpr (kWidth == 1) {
      return value;
    } else {
      return warp_sum(value);
    }
  }
};

__global__ void join_moments(const double* parts, std::int64_t count, std::int64_t rows,
                             double* moments) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; row < rows; row += step) {
    Moments whole;
    for (std::int64_t part = 0; part < count; ++part) {
      const double* const at = parts + part * 3 * rows + row;
      whole = combined(whole, {at[0], at[rows], at[2 * rows]});
    }
    moments[row] = whole.count;
    moments[rows + row] = whole.mean;
    moments[2 * rows + row] = whole.deviations;
  }
}

/// Operands: others, totals, x.
struct ProductsOfOthers {
  __device__ void operator()(const Lines<3>& line) const {
    const double total = multiply<false>(line);
    if (line.lane == 0) line.set(1, 0, total);
    __syncwarp();
    multiply<true>(line);
  }

  /// Writes the product of what comes before each element; or, kBack, multiplies it with that of
  /// what comes after.
  template <bool kBack>
  static __device__ double multiply(const Lines<3>& line) {
    double carry = 1.0;
    for (std::int64_t base = 0; base < line.n; base += kLanes) {
      const bool has_one = base + line.lane < line.n;
      const std::int64_t i = kBack ? line.n - 1 - base - line.lane : base + line.lane;
      double product = has_one ? line.get<double>(2, i) : 1.0;
      for (int step = 1; step < kLanes; step *= 2) {
        const double before = from_before(product, step);
        if (line.lane >= step) product *= before;
      }
      const double before = from_before(product, 1);
      const double others = line.lane == 0 ? carry : carry * before;
      if (has_one) line.set(0, i, kBack ? line.get<double>(0, i) * others : others);
      carry *= from_thread<kLanes>(product, kLanes - 1);
    }
    return carry;
  }
};

}  // namespace

void fold_rows(KernelContext& ctx, RowFolding folding, const Array& x, const Array& out) {
  const int last = x.ndim() - 1;
  check_shape("fold_rows", "out", out, without_dim(x.shape(), last));
  row_folds::visit(folding, [&]<class Of>(const Of& of) {
    fold_lines<2>(ctx, "fold_rows", {{{out}, {x, last}}}, RowFolder<Of>{of});
  });
}

void arg_extreme(KernelContext& ctx, Extreme which, const Array& x, int dim, const Array& values,
                 const Array& indices) {
  if (!check_arg_extreme(x, dim, values, indices)) return;
  const Array to = without_kept(indices, dim, x.ndim());
  const bool wants_values = !values.is_null();
  const Array chosen = wants_values ? without_kept(values, dim, x.ndim()) : to;
  const auto run = [&]<class Value, Extreme kWhich>(TypeTag<Value>) {
    fold_lines<3>(ctx, "arg_extreme", {{{to}, {chosen}, {x, dim}}},
                  FirstExtreme<Value, kWhich>{wants_values});
  };
  const auto run_typed = [&](auto tag) {
    using Value = typename decltype(tag)::type;
    if (which == Extreme::kMax) return run.template operator()<Value, Extreme::kMax>(tag);
    run.template operator()<Value, Extreme::kMin>(tag);
  };
  if (is_floating(x.dtype())) return run_typed(TypeTag<double>{});
  run_typed(TypeTag<std::int64_t>{});
}

void row_moments(KernelContext& ctx, const Array& x, const Array& out) {
  const int last = x.ndim() - 1;
  const Shape kept = without_dim(x.shape(), last);
  check_moments("row_moments", out, with_first(3, kept));
  require_floating("row_moments", x.dtype());
  const std::int64_t rows = num_elements(kept), n = x.size(last);
  if (rows == 0) return;
  const auto moment_of = [&](const Array& moments, std::int64_t which) {
    return moments.as_strided(kept, contiguous_strides(kept), moments.offset() + which * rows);
  };
  const bool by_thread = suits_threads(rows, x.strides()[static_cast<std::size_t>(last)]);
  const Cut cut = cut_lines(rows, n, by_thread ? 1 : kLanes);
  const Array parts = cut.count > 1 ? Array::empty(with_first(cut.count, with_first(3, kept)),
                                                   DType::kF64, ctx.allocator)
                                    : out;
  run_line_layouts<4>(
      ctx, "row_moments",
      {{{moment_of(parts, 0)}, {moment_of(parts, 1)}, {moment_of(parts, 2)}, {x, last}}},
      [&](const auto& layout, const auto& steps, std::int64_t) {
        const RowMoments moments{3 * rows};
        if (by_thread) return launch_segments<1>(ctx, layout, steps, n, cut, moments);
        return launch_segments<kLanes>(ctx, layout, steps, n, cut, moments);
      });
  if (cut.count > 1) TSR_CUDA::combine_moments(ctx, parts, out);
}

void combine_moments(KernelContext& ctx, const Array& parts, const Array& out) {
  check_combine_moments(parts, out);
  const Array dense = contiguous(ctx, parts);
  const std::int64_t rows = out.num_elements() / 3;
  if (rows == 0) return;
  const Current current(*ctx.device);
  check(launch<join_moments>(grid_for(rows), stream_of(ctx), device_data<double>(dense),
                             dense.size(0), rows, device_data<double>(out)),
        *ctx.device, "combine_moments");
}

void products_of_others(KernelContext& ctx, const Array& x, const Array& others,
                        const Array& totals) {
  const int last = x.ndim() - 1;
  const Shape kept = without_dim(x.shape(), last);
  // Both are contiguous, whatever their shapes.
  const Array to = others.as_strided(x.shape(), contiguous_strides(x.shape()), others.offset());
  const Array whole = totals.as_strided(kept, contiguous_strides(kept), totals.offset());
  run_lines<3>(ctx, "products_of_others", {{{to, last}, {whole}, {x, last}}}, ProductsOfOthers{});
}

}  // namespace tessera::kernels::TSR_CUDA
