#include "kernels/index_tuple.h"

#include <algorithm>

#include "kernels/elementwise.h"
#include "kernels/index_checks.h"
#include "kernels/kernel_table.h"
#include "kernels/strided_loop.h"

namespace tessera::kernels {
namespace {

bool addressed(std::span<const int> dims, int dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

/// An array seen as (elements of the tuple) × (elements of a slice).
struct Slices {
  Shape shape;
  Shape strides;
};

/// The dims of x that no index addresses.
Slices slices_of(const Array& x, std::span<const int> dims) {
  Slices slices;
  for (int d = 0; d < x.ndim(); ++d) {
    if (addressed(dims, d)) continue;
    slices.shape.push_back(x.size(d));
    slices.strides.push_back(x.strides()[static_cast<std::size_t>(d)]);
  }
  return slices;
}

/// A result (or the values) split into the tuple's dims and the slice's.
std::pair<Slices, Slices> split_result(const Array& result, int position, int tuple_ndim) {
  std::pair<Slices, Slices> parts;
  for (int d = 0; d < result.ndim(); ++d) {
    const bool of_tuple = d >= position && d < position + tuple_ndim;
    Slices& part = of_tuple ? parts.first : parts.second;
    part.shape.push_back(result.size(d));
    part.strides.push_back(result.strides()[static_cast<std::size_t>(d)]);
  }
  return parts;
}

/// Offsets of the slices that the tuple addresses in x, in order; −1: held elsewhere.
std::vector<std::int64_t> addressed_offsets(const Array& x, const IndexTuple& tuple,
                                            std::int64_t count) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(count), 0);
  for (std::size_t k = 0; k < tuple.dims.size(); ++k) {
    const std::int64_t stride = x.strides()[static_cast<std::size_t>(tuple.dims[k])];
    const auto* positions = tuple.indices[k].data<std::int64_t>();
    for (std::int64_t n = 0; n < count; ++n) {
      std::int64_t& offset = offsets[static_cast<std::size_t>(n)];
      if (offset < 0 || positions[n] < 0) {
        offset = -1;
      } else {
        offset += positions[n] * stride;
      }
    }
  }
  return offsets;
}

/// Offset of element n (row-major) of a part.
std::int64_t offset_of(const Slices& part, std::int64_t n) {
  std::int64_t offset = 0;
  for (std::size_t d = part.shape.size(); d-- > 0;) {
    offset += n % part.shape[d] * part.strides[d];
    n /= part.shape[d];
  }
  return offset;
}

/// f(element of x or null, element of the result) for each element of each slice, in order.
template <class T, class F>
void for_each_element(const Array& x, const IndexTuple& tuple, const Array& result, F&& f) {
  const Array& first = tuple.indices[0];
  const std::int64_t count = first.num_elements();
  const auto [of_tuple, of_slice] = split_result(result, tuple_position(tuple.dims), first.ndim());
  const Slices held = slices_of(x, tuple.dims);
  const std::vector<std::int64_t> offsets = addressed_offsets(x, tuple, count);
  const std::int64_t each = num_elements(held.shape);
  std::vector<std::int64_t> from(static_cast<std::size_t>(each));
  std::vector<std::int64_t> to(static_cast<std::size_t>(each));
  for (std::int64_t e = 0; e < each; ++e) {
    from[static_cast<std::size_t>(e)] = offset_of(held, e);
    to[static_cast<std::size_t>(e)] = offset_of(of_slice, e);
  }
  T* source = x.data<T>();
  T* target = result.data<T>();
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t at = offsets[static_cast<std::size_t>(n)];
    T* slice = target + offset_of(of_tuple, n);
    for (std::size_t e = 0; e < from.size(); ++e) {
      f(at < 0 ? nullptr : source + at + from[e], slice[to[e]]);
    }
  }
}

template <class T>
T sum_of(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return a || b;
  } else if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    using C = ComputeType<T>;
    return convert<T>(convert<C>(a) + convert<C>(b));
  }
}

}  // namespace

void cpu::index_get(KernelContext&, const Array& x, const IndexTuple& tuple, Absent absent,
                    const Array& out) {
  check_tuple("index", x, tuple, absent, out, check_index);
  visit_dtype(x.dtype(), [&]<class T>(TypeTag<T>) {
    for_each_element<T>(x, tuple, out, [](const T* held, T& to) {
      to = held == nullptr ? absent_value<T>() : *held;
    });
  });
}

void cpu::index_put(KernelContext& ctx, const Array& out, const IndexTuple& tuple,
                    const Array& values, Combine combine, Absent absent) {
  check_tuple("index_put", out, tuple, absent, values, check_index);
  if (combine == Combine::kAdd && is_half(out.dtype())) {
    const Array wide = Array::empty(out.shape(), DType::kF32, ctx.allocator);
    const Array terms = Array::empty(values.shape(), DType::kF32, ctx.allocator);
    cpu::copy(ctx, out, wide);
    cpu::copy(ctx, values, terms);
    cpu::index_put(ctx, wide, tuple, terms, combine, absent);
    return cpu::copy(ctx, wide, out);
  }
  visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    for_each_element<T>(out, tuple, values, [combine](T* held, T& value) {
      if (held == nullptr) return;
      *held = combine == Combine::kAdd ? sum_of(*held, value) : value;
    });
  });
}

}  // namespace tessera::kernels
