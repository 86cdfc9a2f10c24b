// Running folds along lines: each segment's own fold, then each segment again from what those
// before it give. A line of one segment takes one launch.
#include <cmath>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/segments.h"
#include "kernels/scan_folds.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// carry joined with load(i) for i from begin to end, in order; put(i, what there is so far).
template <int kWidth, class Fold, class Load, class Put>
__device__ typename Fold::State scan_range(const Fold& fold, int lane, std::int64_t begin,
                                           std::int64_t end, typename Fold::State carry,
                                           const Load& load, const Put& put) {
  using State = typename Fold::State;
  for (; begin < end; begin += kWidth) {
    const std::int64_t i = begin + lane;
    State state = i < end ? load(i) : State{};  // beyond the end, nobody looks
    for (int step = 1; step < kWidth; step *= 2) {
      const State before = from_before(state, step);
      if (lane >= step) state = fold.join(before, state);
    }
    state = fold.join(carry, state);
    if (i < end) put(i, state);
    const std::int64_t last = end - begin < kWidth ? end - begin - 1 : kWidth - 1;
    carry = from_thread<kWidth>(state, static_cast<int>(last));
  }
  return carry;
}

struct PutNothing {
  template <class State>
  __device__ void operator()(std::int64_t, const State&) const {}
};

template <class Fold>
struct FoldOfSegment {
  Fold fold;
  typename Fold::State* folds;
  template <class S>
  __device__ void operator()(const S& segment) const {
    const auto state = scan_range<S::kWidth>(
        fold, segment.lane, segment.begin, segment.end, fold.start(),
        [&](std::int64_t i) { return fold.load(segment, i); }, PutNothing{});
    if (segment.lane == 0) folds[segment.place_of(segment.number)] = state;
  }
};
template <class Fold>
struct ScanSegment {
  Fold fold;
  const typename Fold::State* folds;
  template <class S>
  __device__ void operator()(const S& segment) const {
    const auto carry = scan_range<S::kWidth>(
        fold, segment.lane, 0, segment.number, fold.start(),
        [&](std::int64_t number) { return folds[segment.place_of(number)]; }, PutNothing{});
    scan_range<S::kWidth>(
        fold, segment.lane, segment.begin, segment.end, carry,
        [&](std::int64_t i) { return fold.load(segment, i); },
        [&](std::int64_t i, const auto& state) { fold.put(segment, i, state); });
  }
};

template <int kOperands, class Fold>
void scan_lines(KernelContext& ctx, const char* name,
                const std::array<LineOperand, kOperands>& operands, const Fold& fold) {
  using State = typename Fold::State;
  run_cut_lines<kOperands>(
      ctx, name, operands,
      [&]<int kWidth>(const auto& layout, const auto& steps, std::int64_t n, Cut cut) {
        const Array room = scratch_for<State>(ctx, cut.count * layout.total);
        State* const folds = device_data<State>(room);
        if (cut.count > 1) {
          check(
              launch_segments<kWidth>(ctx, layout, steps, n, cut, FoldOfSegment<Fold>{fold, folds}),
              *ctx.device, name);
        }
        return launch_segments<kWidth>(ctx, layout, steps, n, cut, ScanSegment<Fold>{fold, folds});
      });
}

/// Operands: out, x. From the last element on where kBack.
template <class Fold, bool kBack>
struct Running {
  using State = typename std::remove_const_t<decltype(Fold::kIdentity)>;
  __device__ State start() const { return Fold::kIdentity; }
  __device__ State join(State a, State b) const { return Fold::apply(a, b); }
  template <class S>
  static __device__ std::int64_t at(const S& segment, std::int64_t i) {
    return kBack ? segment.n - 1 - i : i;
  }
  template <class S>
  __device__ State load(const S& segment, std::int64_t i) const {
    return segment.template get<State>(1, at(segment, i));
  }
  template <class S>
  __device__ void put(const S& segment, std::int64_t i, State state) const {
    segment.set(0, at(segment, i), state);
  }
};

/// f(TypeTag<Value>), the type in which values of `dtype` are scanned.
template <class F>
void visit_scan_type(DType dtype, const F& f) {
  if (is_floating(dtype)) return f(TypeTag<double>{});
  f(TypeTag<std::int64_t>{});
}

template <class Value>
struct Extremum {
  Value value;
  std::int64_t index;  // −1: none
};
template <class Value>
__device__ bool takes_over_from(Extreme which, Value value, const Extremum<Value>& best) {
  return best.index < 0 || takes_over(which, value, best.value);
}

/// Operands: values, indices, x.
template <class Value>
struct RunningExtreme {
  using State = Extremum<Value>;
  Extreme which;
  __device__ State start() const { return {Value{0}, -1}; }
  __device__ State join(const State& a, const State& b) const {
    return takes_over_from(which, b.value, a) ? b : a;
  }
  template <class S>
  __device__ State load(const S& segment, std::int64_t i) const {
    return {segment.template get<Value>(2, i), i};
  }
  template <class S>
  __device__ void put(const S& segment, std::int64_t i, const State& state) const {
    copy_element(segment.layout.operands[0], segment.offsets[0] + i * segment.steps[0],
                 segment.layout.operands[2], segment.offsets[2] + state.index * segment.steps[2]);
    segment.set(1, i, state.index);
  }
};

/// s_i = grad_i + decay_i s_{i+1}, from the last element on, as maps of what comes after. Operands:
/// sums, grad, result.
struct LogSums {
  struct State {
    double decay, sum;
  };
  __device__ State start() const { return {1.0, 0.0}; }
  __device__ State join(const State& after, const State& here) const {
    // Zero stays zero, however the results lie.
    const double carried = after.sum == 0.0 ? 0.0 : here.decay * after.sum;
    return {after.decay * here.decay, here.sum + carried};
  }
  template <class S>
  __device__ State load(const S& segment, std::int64_t i) const {
    const std::int64_t at = segment.n - 1 - i;
    // The sum of what −0.0 is the first of is +0.0.
    const double grad = segment.template get<double>(1, at) + 0.0;
    if (i == 0) return {1.0, grad};
    const double result = segment.template get<double>(2, at);
    return {std::exp(result - segment.template get<double>(2, at + 1)), grad};
  }
  template <class S>
  __device__ void put(const S& segment, std::int64_t i, const State& state) const {
    segment.set(0, segment.n - 1 - i, state.sum);
  }
};

// Operands: out, parts.
template <class Fold>
struct CarryScan {
  std::int64_t count;
  template <class S>
  __device__ void operator()(const S& segment) const {
    auto carry = Fold::kIdentity;
    using Value = decltype(carry);
    for (std::int64_t k = 0; k < count; ++k) {
      carry = Fold::apply(carry, segment.template get<Value>(1, k));
    }
    for (std::int64_t i = segment.begin + segment.lane; i < segment.end; i += S::kWidth) {
      segment.set(0, i, Fold::apply(carry, segment.template get<Value>(0, i)));
    }
  }
};
// Operands: values, indices, parts of values, parts of indices.
template <class Value>
struct CarryExtreme {
  Extreme which;
  std::int64_t count;
  template <class S>
  __device__ void operator()(const S& segment) const {
    Extremum<Value> carry{Value{0}, -1};
    std::int64_t from = -1;  // which part
    for (std::int64_t k = 0; k < count; ++k) {
      const auto value = segment.template get<Value>(2, k);
      const auto index = segment.template get<std::int64_t>(3, k);
      if (index < 0 || !takes_over_from(which, value, carry)) continue;
      carry = {value, index};
      from = k;
    }
    if (from < 0) return;
    for (std::int64_t i = segment.begin + segment.lane; i < segment.end; i += S::kWidth) {
      if (takes_over(which, segment.template get<Value>(0, i), carry.value)) continue;
      copy_element(segment.layout.operands[0], segment.offsets[0] + i * segment.steps[0],
                   segment.layout.operands[2], segment.offsets[2] + from * segment.steps[2]);
      segment.set(1, i, carry.index);
    }
  }
};
// Operands: sums, x, result, parts' results, parts' sums.
struct LogScanGrad {
  std::int64_t next, count;
  template <class S>
  __device__ void operator()(const S& segment) const {
    double after = 0.0, after_result = 0.0;
    for (std::int64_t k = count; k-- > next;) {
      const auto result = segment.template get<double>(3, k);
      const auto own = segment.template get<double>(4, k);
      if (own == 0.0 && std::signbit(own)) continue;
      after = own + log_scan_carry(result, after, after_result);
      after_result = result;
    }
    for (std::int64_t i = segment.begin + segment.lane; i < segment.end; i += S::kWidth) {
      const auto x = segment.template get<double>(1, i);
      const auto result = segment.template get<double>(2, i);
      const double sum =
          segment.template get<double>(0, i) + log_scan_carry(result, after, after_result);
      segment.set(0, i, sum * std::exp(x - result));
    }
  }
};

}  // namespace

void scan(KernelContext& ctx, Scan fold, const Array& x, int dim, const Array& out) {
  require_dim("scan", x, dim);
  require_shape("scan", "output", out, x.shape());
  visit_scan_type(x.dtype(), [&]<class Value>(TypeTag<Value>) {
    visit_scan_fold<Value>(x.dtype(), fold, [&]<class Fold>(Fold) {
      scan_lines<2>(ctx, "scan", {{{out, dim}, {x, dim}}}, Running<Fold, false>{});
    });
  });
}

void sum_back(KernelContext& ctx, const Array& x, int dim, const Array& out) {
  require_dim("sum_back", x, dim);
  require_shape("sum_back", "output", out, x.shape());
  visit_scan_type(x.dtype(), [&]<class Value>(TypeTag<Value>) {
    scan_lines<2>(ctx, "sum_back", {{{out, dim}, {x, dim}}}, Running<SumFold<Value>, true>{});
  });
}

void carry_scan(KernelContext& ctx, Scan fold, const Array& parts, std::int64_t count, int dim,
                const Array& out) {
  if (count == 0 || out.num_elements() == 0) return;
  visit_scan_type(out.dtype(), [&]<class Value>(TypeTag<Value>) {
    visit_scan_fold<Value>(out.dtype(), fold, [&]<class Fold>(Fold) {
      run_segments<2>(ctx, "carry_scan", {{{out, dim}, {parts, 0}}}, CarryScan<Fold>{count});
    });
  });
}

void scan_extreme(KernelContext& ctx, Extreme which, const Array& x, int dim, const Array& values,
                  const Array& indices) {
  require_dim("scan_extreme", x, dim);
  require_shape("scan_extreme", "values", values, x.shape());
  require_shape("scan_extreme", "indices", indices, x.shape());
  visit_scan_type(x.dtype(), [&]<class Value>(TypeTag<Value>) {
    scan_lines<3>(ctx, "scan_extreme", {{{values, dim}, {indices, dim}, {x, dim}}},
                  RunningExtreme<Value>{which});
  });
}

void carry_extreme(KernelContext& ctx, Extreme which, const ExtremeParts& parts, int dim,
                   const Array& values, const Array& indices) {
  if (parts.count == 0 || values.num_elements() == 0) return;
  visit_scan_type(values.dtype(), [&]<class Value>(TypeTag<Value>) {
    run_segments<4>(ctx, "carry_extreme",
                    {{{values, dim}, {indices, dim}, {parts.values, 0}, {parts.indices, 0}}},
                    CarryExtreme<Value>{which, parts.count});
  });
}

void log_scan_sums(KernelContext& ctx, const Array& grad, const Array& result, int dim,
                   const Array& sums) {
  check_log_scan_sums(grad, result, sums);
  scan_lines<3>(ctx, "log_scan_sums", {{{sums, dim}, {grad, dim}, {result, dim}}}, LogSums{});
}

void log_scan_grad(KernelContext& ctx, const LogScan& scan, const LogScanParts& parts, int dim,
                   const Array& sums) {
  if (sums.num_elements() == 0) return;
  run_segments<5>(
      ctx, "log_scan_grad",
      {{{sums, dim}, {scan.x, dim}, {scan.result, dim}, {parts.results, 0}, {parts.sums, 0}}},
      LogScanGrad{parts.next, parts.results.size(0)});
}

}  // namespace tessera::kernels::TSR_CUDA
