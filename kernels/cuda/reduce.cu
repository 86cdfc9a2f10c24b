#include "kernels/cuda/kernels.h"
#include "kernels/cuda/lines.h"
#include "kernels/reduce_folds.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// The dims that go, from the innermost.
struct Reduced {
  std::int64_t count = 1;
  int ndim = 0;
  std::int64_t sizes[kLaunchDims] = {};
  std::int64_t strides[kLaunchDims] = {};
};

/// Operands: out, the first element of what folds into it.
template <class T, class Fold>
struct ReduceLine {
  Reduced reduced;
  ReduceOp op;

  __device__ void operator()(const Lines<2>& line) const {
    using Value = typename Fold::Value;
    Value value = Fold::kIdentity;
    for (std::int64_t i = line.lane; i < reduced.count; i += kLanes) {
      std::int64_t rest = i, offset = 0;
      for (int d = 0; d < reduced.ndim; ++d) {
        offset += rest % reduced.sizes[d] * reduced.strides[d];
        rest /= reduced.sizes[d];
      }
      const T* from = reinterpret_cast<const T*>(line.layout.operands[1].data);
      value = Fold::apply(value, convert<Value>(from[line.offsets[1] + offset]));
    }
    for (int step = kLanes / 2; step > 0; step /= 2) {
      value = Fold::apply(value, __shfl_xor_sync(kAllLanes, value, step));
    }
    if (line.lane != 0) return;
    if (op == ReduceOp::kAvg) {
      line.set(0, 0, static_cast<double>(value) / static_cast<double>(reduced.count));
    } else {
      line.set(0, 0, value);
    }
  }
};

/// Writes x's dims that go, merged where they lie evenly. False where that leaves more than a
/// launch covers.
bool merge_reduced(const Array& x, const absl::InlinedVector<bool, 6>& marks, Reduced& reduced) {
  for (int d = x.ndim() - 1; d >= 0; --d) {
    const std::int64_t size = x.size(d), stride = x.strides()[static_cast<std::size_t>(d)];
    if (!marks[static_cast<std::size_t>(d)]) continue;
    reduced.count *= size;
    if (size == 1) continue;
    if (reduced.ndim > 0) {
      std::int64_t& inner = reduced.sizes[reduced.ndim - 1];
      if (reduced.strides[reduced.ndim - 1] * inner == stride) {
        inner *= size;
        continue;
      }
    }
    if (reduced.ndim == kLaunchDims) return false;
    reduced.sizes[reduced.ndim] = size;
    reduced.strides[reduced.ndim++] = stride;
  }
  return true;
}

template <class T>
void reduce_typed(KernelContext& ctx, const Reduced& reduced, ReduceOp op, const Array& kept,
                  const Array& out) {
  const auto run = [&]<class Fold>(Fold) {
    run_lines<2>(ctx, "reduce", {{{out}, {kept}}}, ReduceLine<T, Fold>{reduced, op});
  };
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return run(SumFold<T>{});
    case ReduceOp::kProd:
      return run(ProdFold<T>{});
    case ReduceOp::kMax:
      return run(MaxFold<T>{});
    case ReduceOp::kMin:
      return run(MinFold<T>{});
  }
}

/// The kept dims of x before those that go, dense.
Array reduced_last(KernelContext& ctx, const Array& x, absl::InlinedVector<bool, 6>& marks) {
  Shape shape, strides;
  absl::InlinedVector<bool, 6> sorted;
  for (const bool goes : {false, true}) {
    for (std::size_t d = 0; d < marks.size(); ++d) {
      if (marks[d] != goes) continue;
      shape.push_back(x.shape()[d]);
      strides.push_back(x.strides()[d]);
      sorted.push_back(goes);
    }
  }
  marks = sorted;
  return contiguous(ctx, x.as_strided(shape, strides, x.offset()));
}

}  // namespace

void reduce(KernelContext& ctx, ReduceOp op, const Array& x, std::span<const int> dims,
            const Array& out) {
  const absl::InlinedVector<bool, 6> asked = reduced_marks(x, dims);
  check_output(x, asked, out);
  if (out.num_elements() == 0) return;
  Array source = x;
  absl::InlinedVector<bool, 6> marks = asked;  // of source's dims
  Reduced reduced;
  if (!merge_reduced(x, marks, reduced)) {
    source = reduced_last(ctx, x, marks);
    reduced = {};
    merge_reduced(source, marks, reduced);
  }
  // The dims that stay, and out without those that it keeps as 1.
  Array kept = source, result = out;
  const bool keeps_ones = out.ndim() == x.ndim();
  for (int d = x.ndim() - 1; d >= 0; --d) {
    if (marks[static_cast<std::size_t>(d)]) kept = first_elements(ctx, kept, d);
    if (keeps_ones && asked[static_cast<std::size_t>(d)]) result = first_elements(ctx, result, d);
  }
  visit_dtype(x.dtype(),
              [&]<class T>(TypeTag<T>) { reduce_typed<T>(ctx, reduced, op, kept, result); });
}

}  // namespace tessera::kernels::TSR_CUDA
