#include "kernels/index.h"

#include "absl/strings/str_format.h"
#include "kernels/dim_lines.h"
#include "kernels/elementwise.h"
#include "kernels/index_check.h"
#include "kernels/kernel_table.h"
#include "kernels/parallel_loop.h"

namespace tessera::kernels {
namespace {

template <class F>
void visit_index_type(const Array& index, F&& f) {
  if (index.dtype() == DType::kI64) return f(TypeTag<std::int64_t>{});
  f(TypeTag<std::int32_t>{});
}

/// `smaller` fits into `larger` in every dim but `dim`.
void require_within(std::string_view kernel, const Array& smaller, const Array& larger, int dim) {
  bool good = smaller.ndim() == larger.ndim();
  for (int d = 0; good && d < larger.ndim(); ++d) {
    good = d == dim || smaller.size(d) <= larger.size(d);
  }
  if (good) return;
  throw Error(invalid_argument(
      absl::StrFormat("%s: index shape %s does not fit shape %s outside dim %d", to_absl(kernel),
                      to_string(smaller.shape()), to_string(larger.shape()), dim)));
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

template <class I, class T>
void gather_typed(KernelContext& ctx, const Array& x, int dim, const Array& index,
                  const Array& out) {
  const DimLines lines(dim, {&index, &out, &x});
  const I* positions = index.data<I>();
  const T* from = x.data<T>();
  T* to = out.data<T>();
  for_each_on_lines(lines, ctx.threads, index.size(dim), [&](const Offsets& at, std::int64_t i) {
    const I position = positions[at[0] + i * lines.stride(0)];
    to[at[1] + i * lines.stride(1)] =
        position < 0 ? absent_value<T>() : from[at[2] + position * lines.stride(2)];
  });
}

/// write(target element, element of src at the same place as the index).
template <class I, class T, class Write>
void scatter_typed(KernelContext& ctx, const Array& out, int dim, const Array& index,
                   const Array& src, Write write) {
  const DimLines lines(dim, {&index, &out, &src});
  const I* positions = index.data<I>();
  const T* from = src.data<T>();
  T* to = out.data<T>();
  for_each_on_lines(lines, ctx.threads, index.size(dim), [&](const Offsets& at, std::int64_t i) {
    const I position = positions[at[0] + i * lines.stride(0)];
    if (position < 0) return;
    write(to[at[1] + position * lines.stride(1)], from[at[2] + i * lines.stride(2)]);
  });
}

template <class Write>
void scatter_with(KernelContext& ctx, const Array& out, int dim, const Array& index,
                  const Array& src, Write write) {
  visit_index_type(index, [&]<class I>(TypeTag<I>) {
    visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
      scatter_typed<I, T>(ctx, out, dim, index, src, write);
    });
  });
}

struct Assign {
  template <class T>
  void operator()(T& to, T from) const {
    to = from;
  }
};
/// Integers wrap, BOOL is "or"; BF16 and F16 never get here (summed in F32).
struct AddTo {
  template <class T>
  void operator()(T& to, T from) const {
    if constexpr (std::is_same_v<T, bool>) {
      to = to || from;
    } else if constexpr (std::is_integral_v<T>) {
      to = static_cast<T>(static_cast<std::make_unsigned_t<T>>(to) +
                          static_cast<std::make_unsigned_t<T>>(from));
    } else if constexpr (kIsHalf<T>) {
      to = T(static_cast<float>(to) + static_cast<float>(from));
    } else {
      to += from;
    }
  }
};

struct MultiplyBy {
  template <class T>
  void operator()(T& to, T from) const {
    if constexpr (std::is_same_v<T, bool>) {
      to = to && from;
    } else if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      to = static_cast<T>(static_cast<std::uint64_t>(static_cast<Unsigned>(to)) *
                          static_cast<std::uint64_t>(static_cast<Unsigned>(from)));
    } else {
      to = convert<T>(convert<double>(to) * convert<double>(from));
    }
  }
};

template <int kSign>
struct TakeExtreme {
  template <class T>
  void operator()(T& to, T from) const {
    using C = ComputeType<T>;
    const C a = convert<C>(to);
    const C b = convert<C>(from);
    const bool wins = kSign > 0 ? b > a : b < a;
    if (wins || (b != b && a == a)) to = from;
  }
};

void check_scatter(const IndexUse& use, const Array& out, int dim, const Array& index,
                   const Array& src) {
  require_dim(use.kernel, out, dim);
  require_within(use.kernel, index, out, dim);
  if (src.ndim() != out.ndim()) require_shape(use.kernel, "src", src, index.shape());
  for (int d = 0; d < index.ndim(); ++d) {
    if (src.size(d) < index.size(d)) require_shape(use.kernel, "src", src, index.shape());
  }
  if (src.dtype() != out.dtype()) throw_dtype(use.kernel, src.dtype(), name_of(out.dtype()));
  check_index(index, use);
}

/// The first `shape` elements of every dim.
Array corner(const Array& x, const Shape& shape) {
  return x.as_strided(shape, x.strides(), x.offset());
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
  require_dim("gather", x, dim);
  require_within("gather", index, x, dim);
  require_shape("gather", "output", out, index.shape());
  if (out.dtype() != x.dtype()) throw_dtype("gather", out.dtype(), name_of(x.dtype()));
  check_index(index, {"gather", x.size(dim), absent});
  visit_index_type(index, [&]<class I>(TypeTag<I>) {
    visit_dtype(x.dtype(),
                [&]<class T>(TypeTag<T>) { gather_typed<I, T>(ctx, x, dim, index, out); });
  });
}

void cpu::scatter(KernelContext& ctx, const Array& out, int dim, const Array& index,
                  const Array& src, Absent absent) {
  require_dim("scatter", out, dim);
  check_scatter({"scatter", out.size(dim), absent}, out, dim, index, src);
  scatter_with(ctx, out, dim, index, src, Assign{});
}

void cpu::scatter_value(KernelContext& ctx, const Array& out, int dim, const Array& index,
                        double value, Absent absent) {
  const Array scalar = Array::empty({}, out.dtype(), ctx.allocator);
  cpu::fill(ctx, value, scalar);
  const Array src = scalar.as_strided(index.shape(), Shape(index.shape().size(), 0), 0);
  require_dim("scatter_value", out, dim);
  check_scatter({"scatter_value", out.size(dim), absent}, out, dim, index, src);
  scatter_with(ctx, out, dim, index, src, Assign{});
}

void cpu::scatter_add(KernelContext& ctx, const Array& out, int dim, const Array& index,
                      const Array& src, Absent absent) {
  require_dim("scatter_add", out, dim);
  check_scatter({"scatter_add", out.size(dim), absent}, out, dim, index, src);
  if (!is_half(out.dtype())) return scatter_with(ctx, out, dim, index, src, AddTo{});
  const Array wide_src = as_f32(ctx, corner(src, index.shape()));
  add_in_f32(ctx, out,
             [&](const Array& wide) { scatter_with(ctx, wide, dim, index, wide_src, AddTo{}); });
}

void cpu::scatter_combine(KernelContext& ctx, const Array& out, int dim, const Array& index,
                          const Array& src, Combine combine, Absent absent) {
  if (combine == Combine::kAdd) return cpu::scatter_add(ctx, out, dim, index, src, absent);
  require_dim("scatter_reduce", out, dim);
  check_scatter({"scatter_reduce", out.size(dim), absent}, out, dim, index, src);
  switch (combine) {
    case Combine::kAssign:
    case Combine::kAdd:
      return scatter_with(ctx, out, dim, index, src, Assign{});
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
