#include "kernels/index.h"

#include "kernels/elementwise.h"
#include "kernels/host/dim_lines.h"
#include "kernels/index_checks.h"
#include "kernels/index_functions.h"
#include "kernels/kernel_table.h"
#include "kernels/parallel_loop.h"

namespace tessera::kernels {
namespace {

template <class F>
void visit_index_type(const Array& index, F&& f) {
  if (index.dtype() == DType::kI64) return f(TypeTag<std::int64_t>{});
  f(TypeTag<std::int32_t>{});
}

/// f(offsets, i) for element i of every line of `lines`, each line in order. Where neighbours of a
/// line lie far apart, a group of lines advances together, so that memory is read along its dense
/// dim.
template <class F>
void for_each_on_lines(const DimLines& lines, int threads, std::int64_t line_size, F&& f) {
  constexpr int kGroup = 64;
  const std::int64_t group = lines.stride(0) == 1 ? 1 : kGroup;
  parallel_ranges(threads, lines.count(), group, line_size,
                  [&](std::int64_t begin, std::int64_t end) {
                    Offsets members[kGroup];
                    int filled = 0;
                    const auto flush = [&] {
                      for (std::int64_t i = 0; i < line_size; ++i) {
                        for (int m = 0; m < filled; ++m) f(members[m], i);
                      }
                      filled = 0;
                    };
                    lines.for_range(begin, end, [&](const Offsets& offsets) {
                      members[filled++] = offsets;
                      if (filled == group) flush();
                    });
                    flush();
                  });
}

template <class I, class W>
void gather_words(KernelContext& ctx, const Array& x, int dim, const Array& index,
                  const Array& out) {
  const DimLines lines(dim, {&index, &out, &x});
  const I* positions = index.data<I>();
  const W* from = x.data<W>();
  W* to = out.data<W>();
  const W absent = static_cast<W>(absent_word(x.dtype()));
  for_each_on_lines(lines, ctx.threads, index.size(dim), [&](const Offsets& at, std::int64_t i) {
    const I position = positions[at[0] + i * lines.stride(0)];
    to[at[1] + i * lines.stride(1)] =
        position < 0 ? absent : from[at[2] + position * lines.stride(2)];
  });
}

/// write(target element, element of src at the same place as the index), both as T.
template <class T, class Write>
void scatter_as(KernelContext& ctx, const Array& out, int dim, const Array& index, const Array& src,
                Write write) {
  const DimLines lines(dim, {&index, &out, &src});
  const T* from = src.data<T>();
  T* to = out.data<T>();
  visit_index_type(index, [&]<class I>(TypeTag<I>) {
    const I* positions = index.data<I>();
    for_each_on_lines(lines, ctx.threads, index.size(dim), [&](const Offsets& at, std::int64_t i) {
      const I position = positions[at[0] + i * lines.stride(0)];
      if (position < 0) return;
      write(to[at[1] + position * lines.stride(1)], from[at[2] + i * lines.stride(2)]);
    });
  });
}

void scatter_words(KernelContext& ctx, const Array& out, int dim, const Array& index,
                   const Array& src) {
  visit_word(size_of(out.dtype()),
             [&]<class W>(TypeTag<W>) { scatter_as<W>(ctx, out, dim, index, src, Assign{}); });
}

/// BF16 and F16 come here for extremes alone: their sums and products are formed in F32.
template <class Write>
void scatter_with(KernelContext& ctx, const Array& out, int dim, const Array& index,
                  const Array& src, Write write) {
  constexpr bool kInF32 = std::is_same_v<Write, AddTo> || std::is_same_v<Write, MultiplyBy>;
  visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (!(kInF32 && kIsHalf<T>)) scatter_as<T>(ctx, out, dim, index, src, write);
  });
}

/// Runs add(target) on `out`; for BF16 on a copy in F32, so that many small terms are not lost one
/// by one.
template <class Add>
void add_in_f32(KernelContext& ctx, const Array& out, Add add) {
  Array wide = Array::empty(out.shape(), DType::kF32, ctx.allocator);
  cpu::copy(ctx, out, wide);
  add(wide);
  cpu::copy(ctx, wide, out);
}

Array as_f32(KernelContext& ctx, const Array& x) {
  Array wide = Array::empty(x.shape(), DType::kF32, ctx.allocator);
  cpu::copy(ctx, x, wide);
  return wide;
}

}  // namespace

void cpu::gather(KernelContext& ctx, const Array& x, int dim, const Array& index, Absent absent,
                 const Array& out) {
  check_gather(x, dim, index, out);
  check_index(index, {"gather", x.size(dim), absent});
  visit_index_type(index, [&]<class I>(TypeTag<I>) {
    visit_word(size_of(x.dtype()),
               [&]<class W>(TypeTag<W>) { gather_words<I, W>(ctx, x, dim, index, out); });
  });
}

void cpu::scatter(KernelContext& ctx, const Array& out, int dim, const Array& index,
                  const Array& src, Absent absent) {
  check_scatter("scatter", out, dim, index, src);
  check_index(index, {"scatter", out.size(dim), absent});
  scatter_words(ctx, out, dim, index, src);
}

void cpu::scatter_value(KernelContext& ctx, const Array& out, int dim, const Array& index,
                        double value, Absent absent) {
  const Array scalar = Array::empty({}, out.dtype(), ctx.allocator);
  cpu::fill(ctx, value, scalar);
  const Array src = scalar.as_strided(index.shape(), Shape(index.shape().size(), 0), 0);
  check_scatter("scatter_value", out, dim, index, src);
  check_index(index, {"scatter_value", out.size(dim), absent});
  scatter_words(ctx, out, dim, index, src);
}

void cpu::scatter_add(KernelContext& ctx, const Array& out, int dim, const Array& index,
                      const Array& src, Absent absent) {
  check_scatter("scatter_add", out, dim, index, src);
  check_index(index, {"scatter_add", out.size(dim), absent});
  if (!is_half(out.dtype())) return scatter_with(ctx, out, dim, index, src, AddTo{});
  const Array wide_src = as_f32(ctx, corner(src, index.shape()));
  add_in_f32(ctx, out,
             [&](const Array& wide) { scatter_with(ctx, wide, dim, index, wide_src, AddTo{}); });
}

void cpu::scatter_combine(KernelContext& ctx, const Array& out, int dim, const Array& index,
                          const Array& src, Combine combine, Absent absent) {
  if (combine == Combine::kAdd) return cpu::scatter_add(ctx, out, dim, index, src, absent);
  check_scatter("scatter_reduce", out, dim, index, src);
  check_index(index, {"scatter_reduce", out.size(dim), absent});
  switch (combine) {
    case Combine::kAssign:
    case Combine::kAdd:
      return scatter_words(ctx, out, dim, index, src);
    case Combine::kMax:
      return scatter_with(ctx, out, dim, index, src, TakeExtreme<1>{});
    case Combine::kMin:
      return scatter_with(ctx, out, dim, index, src, TakeExtreme<-1>{});
    case Combine::kProduct:
      break;
  }
  if (!is_half(out.dtype())) return scatter_with(ctx, out, dim, index, src, MultiplyBy{});
  const Array wide_src = as_f32(ctx, corner(src, index.shape()));
  add_in_f32(ctx, out, [&](const Array& wide) {
    scatter_with(ctx, wide, dim, index, wide_src, MultiplyBy{});
  });
}

}  // namespace tessera::kernels
