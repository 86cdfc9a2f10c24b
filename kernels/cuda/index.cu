// Elements by an index along a dim: gathered and scattered. What several entries bring to one
// element comes to it in their order.
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/rows.h"
#include "kernels/index_checks.h"
#include "kernels/index_functions.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// A line of the index by one thread. Operands: the index's lines, out's, src's.
template <class T, class Op>
__global__ void walk_lines(MapLayout<3> lines, LineSteps<3> steps, std::int64_t n,
                           PositionReader positions) {
  for_each_element(lines, [&](std::int64_t, const std::int64_t* offsets) {
    T* const to = reinterpret_cast<T*>(lines.operands[1].data) + offsets[1];
    const T* const from = reinterpret_cast<const T*>(lines.operands[2].data) + offsets[2];
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t position =
          positions.read(lines.operands[0].data, offsets[0] + i * steps.of[0]);
      if (position >= 0) Op{}(to[position * steps.of[1]], from[i * steps.of[2]]);
    }
  });
}

/// Where each element of the index goes, in elements from out's first; `none` where nowhere.
/// Operands: the keys, the index, the starts of out's lines.
__global__ void write_targets(MapLayout<3> layout, std::int64_t step, PositionReader positions,
                              const std::byte* out, std::int32_t none) {
  const std::int64_t moved = (layout.operands[2].data - out) /
                             static_cast<std::ptrdiff_t>(size_of(layout.operands[2].dtype));
  for_each_element(layout, [&](std::int64_t, const std::int64_t* offsets) {
    const std::int64_t position = positions.read(layout.operands[1].data, offsets[1]);
    const std::int64_t target = moved + offsets[2] + position * step;
    reinterpret_cast<std::int32_t*>(layout.operands[0].data)[offsets[0]] =
        position < 0 ? none : static_cast<std::int32_t>(target);
  });
}

/// What is checked already: `out` and `src` where the index reaches.
struct Scatter {
  const char* name;
  Combine combine;
  int dim;
  Positions positions;
  Array out, src;

  const Array& index() const { return positions.index; }
  std::int64_t step(const Array& array) const {
    return array.strides()[static_cast<std::size_t>(dim)];
  }
  bool keeps_sums() const { return combine == Combine::kAdd || combine == Combine::kProduct; }
};

template <class T, class Op>
cudaError_t launch_walk(KernelContext& ctx, const Scatter& s, const MapLayout<3>& lines) {
  const LineSteps<3> steps{{s.step(s.index()), s.step(s.out), s.step(s.src)}};
  return launch<walk_lines<T, Op>>(grid_for(lines.total), stream_of(ctx), lines, steps,
                                   s.index().size(s.dim), s.positions.reader);
}
template <class Op>
cudaError_t walk_with(KernelContext& ctx, const Scatter& s, const MapLayout<3>& lines) {
  return visit_dtype(s.out.dtype(), [&]<class T>(TypeTag<T>) {
    constexpr bool kIsWide =
        kIsHalf<T> && (std::is_same_v<Op, AddTo> || std::is_same_v<Op, MultiplyBy>);
    if constexpr (kIsWide) {
      return cudaErrorInvalidValue;
    } else {
      return launch_walk<T, Op>(ctx, s, lines);
    }
  });
}
cudaError_t walk_layout(KernelContext& ctx, const Scatter& s, const MapLayout<3>& lines) {
  switch (s.combine) {
    case Combine::kAssign:
      return walk_with<Assign>(ctx, s, lines);
    case Combine::kAdd:
      return walk_with<AddTo>(ctx, s, lines);
    case Combine::kProduct:
      return walk_with<MultiplyBy>(ctx, s, lines);
    case Combine::kMax:
      return walk_with<TakeExtreme<1>>(ctx, s, lines);
    case Combine::kMin:
      break;
  }
  return walk_with<TakeExtreme<-1>>(ctx, s, lines);
}

/// Sums of half precision form in F32.
void scatter_by_lines(KernelContext& ctx, const Scatter& s) {
  if (is_half(s.out.dtype()) && s.keeps_sums()) {
    Scatter wide = s;
    wide.out = as_dtype(ctx, s.out, DType::kF32);
    wide.src = as_dtype(ctx, s.src, DType::kF32);
    scatter_by_lines(ctx, wide);
    return copy(ctx, wide.out, s.out);
  }
  const Array index = first_elements(ctx, s.index(), s.dim),
              out = first_elements(ctx, s.out, s.dim), src = first_elements(ctx, s.src, s.dim);
  run_layouts<3>(ctx, s.name, {&index, &out, &src},
                 [&](const MapLayout<3>& lines) { return walk_layout(ctx, s, lines); });
}

/// The index is the same on all lines.
void scatter_rows(KernelContext& ctx, const Scatter& s) {
  const Array index = s.index().as_strided({s.index().size(s.dim)}, {1}, s.index().offset());
  const Array keys = keys_of(ctx, {index, s.positions.reader});
  combine_rows(ctx, s.name, s.combine,
               {.keys_N = keys,
                .num_keys = s.out.size(s.dim),
                .out_row = first_elements(ctx, s.out, s.dim),
                .src_row = first_elements(ctx, s.src, s.dim),
                .to_step = s.step(s.out),
                .from_step = s.step(s.src)});
}

/// Elements of memory from the first to behind the last; 0 where some stride is negative.
std::int64_t extent_of(const Array& x) {
  std::int64_t extent = 1;
  for (std::size_t d = 0; d < x.shape().size(); ++d) {
    if (x.strides()[d] < 0) return 0;
    extent += std::max<std::int64_t>(x.shape()[d] - 1, 0) * x.strides()[d];
  }
  return extent;
}

/// Each element of the index by itself.
void scatter_elements(KernelContext& ctx, const Scatter& s) {
  const std::int64_t count = s.index().num_elements(), extent = extent_of(s.out);
  const Array keys = Array::empty(s.index().shape(), DType::kI32, ctx.allocator);
  const Array starts = line_starts(ctx, s.out, s.dim, s.out.shape());
  run_layouts<3>(ctx, s.name, {&keys, &s.index(), &starts}, [&](const MapLayout<3>& layout) {
    return launch<write_targets>(grid_for(layout.total), stream_of(ctx), layout, s.step(s.out),
                                 s.positions.reader, starts.bytes(),
                                 static_cast<std::int32_t>(extent));
  });
  const Array src = contiguous(ctx, s.src);
  const auto first_of = [](const Array& x) { return x.as_strided({}, {}, x.offset()); };
  combine_rows(ctx, s.name, s.combine,
               {.keys_N = keys.try_view({count}),
                .num_keys = extent,
                .out_row = first_of(s.out.num_elements() > 0 ? s.out : starts),
                .src_row = first_of(src),
                .to_step = 1,
                .from_step = 1});
}

bool is_same_on_all_lines(const Array& index, int dim) {
  for (int d = 0; d < index.ndim(); ++d) {
    if (d != dim && index.size(d) > 1 && index.strides()[static_cast<std::size_t>(d)] != 0) {
      return false;
    }
  }
  return true;
}

/// Few long lines would keep few threads busy, one entry after another.
void scatter_checked(KernelContext& ctx, const Scatter& s) {
  constexpr std::int64_t kShortLine = 64, kManyLines = 16384;
  const std::int64_t count = s.index().num_elements(), n = s.index().size(s.dim);
  const std::int64_t extent = extent_of(s.out);
  const bool is_wide = is_half(s.out.dtype()) && s.keeps_sums();
  const bool by_rows =
      is_same_on_all_lines(s.index(), s.dim) && combines_rows(n, s.out.size(s.dim));
  if (by_rows && (n > kShortLine || is_wide)) return scatter_rows(ctx, s);
  const bool by_lines = n <= kShortLine || count / n >= kManyLines;
  if (!by_lines && extent > 0 && combines_rows(count, extent)) return scatter_elements(ctx, s);
  scatter_by_lines(ctx, s);
}

void scatter_with(KernelContext& ctx, const char* name, Combine combine, const Array& out, int dim,
                  const Array& index, const Array& src, Absent absent) {
  check_scatter(name, out, dim, index, src);
  const Positions positions = checked_positions(ctx, index, {name, out.size(dim), absent});
  if (index.num_elements() == 0) return;
  Shape reached = index.shape();
  reached[static_cast<std::size_t>(dim)] = out.size(dim);
  scatter_checked(ctx, {.name = name,
                        .combine = combine,
                        .dim = dim,
                        .positions = positions,
                        .out = corner(out, reached),
                        .src = corner(src, index.shape())});
}

}  // namespace

void gather(KernelContext& ctx, const Array& x, int dim, const Array& index, Absent absent,
            const Array& out) {
  check_gather(x, dim, index, out);
  const Positions positions = checked_positions(ctx, index, {"gather", x.size(dim), absent});
  take_elements(ctx, "gather", line_starts(ctx, x, dim, index.shape()),
                x.strides()[static_cast<std::size_t>(dim)], positions, absent_word(x.dtype()), out);
}

void scatter(KernelContext& ctx, const Array& out, int dim, const Array& index, const Array& src,
             Absent absent) {
  scatter_with(ctx, "scatter", Combine::kAssign, out, dim, index, src, absent);
}

void scatter_value(KernelContext& ctx, const Array& out, int dim, const Array& index, double value,
                   Absent absent) {
  const Array scalar = Array::empty({}, out.dtype(), ctx.allocator);
  fill(ctx, value, scalar);
  const Array src = scalar.as_strided(index.shape(), Shape(index.shape().size(), 0), 0);
  scatter_with(ctx, "scatter_value", Combine::kAssign, out, dim, index, src, absent);
}

void scatter_add(KernelContext& ctx, const Array& out, int dim, const Array& index,
                 const Array& src, Absent absent) {
  scatter_with(ctx, "scatter_add", Combine::kAdd, out, dim, index, src, absent);
}

void scatter_combine(KernelContext& ctx, const Array& out, int dim, const Array& index,
                     const Array& src, Combine combine, Absent absent) {
  const char* name = combine == Combine::kAdd ? "scatter_add" : "scatter_reduce";
  scatter_with(ctx, name, combine, out, dim, index, src, absent);
}

}  // namespace tessera::kernels::TSR_CUDA
