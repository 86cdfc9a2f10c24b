// Slices by several indices at once: the tuple becomes one number of the slice that it addresses.
#include <numeric>
#include <vector>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/rows.h"
#include "kernels/index_checks.h"
#include "kernels/index_tuple.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// numbers[n] += position n · factor, or begins there; -1 where some index has no position.
__global__ void number_slices(PositionReader positions, std::int64_t count, std::int64_t factor,
                              bool is_first, std::int64_t begin, std::int64_t* numbers) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t n = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; n < count; n += step) {
    const std::int64_t position = positions.read(n);
    const std::int64_t before = is_first ? begin : numbers[n];
    const bool is_held = position >= 0 && before >= 0;
    numbers[n] = is_held ? before + position * factor : -1;
  }
}

/// The slices of an array that a tuple can address: number s lies s · step from the least.
struct SliceNumbers {
  std::int64_t count = 1, step = 0, least = 0;
  std::vector<std::int64_t> factors;  // of each index
  std::int64_t begin = 0;             // the number of positions (0, 0, …)

  SliceNumbers(const Array& x, std::span<const int> dims) {
    for (const int dim : dims) step = std::gcd(step, x.strides()[static_cast<std::size_t>(dim)]);
    if (step == 0) step = 1;
    for (const int dim : dims) {
      const std::int64_t stride = x.strides()[static_cast<std::size_t>(dim)];
      const std::int64_t reach = std::max<std::int64_t>(x.size(dim) - 1, 0) * stride;
      factors.push_back(stride / step);
      count += std::abs(reach) / step;
      least += std::min<std::int64_t>(reach, 0);
    }
    begin = -least / step;
  }
};

bool is_addressed(std::span<const int> dims, int dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

/// A tuple on the device, checked.
struct Tuple {
  SliceNumbers slices;
  int position, ndim;  // of the tuple's dims in a result
  Array numbers;       // I64, of the indices' shape
};

Tuple number_tuple(KernelContext& ctx, const char* name, const Array& x, const IndexTuple& tuple,
                   Absent absent, const Array& result) {
  const Array& first = tuple.indices[0];
  Tuple out{SliceNumbers(x, tuple.dims), tuple_position(tuple.dims), first.ndim(),
            Array::empty(first.shape(), DType::kI64, ctx.allocator)};
  const std::int64_t count = first.num_elements();
  const Current current(*ctx.device);
  std::vector<IndexUse> uses;
  check_tuple(name, x, tuple, absent, result,
              [&](const Array&, const IndexUse& use) { uses.push_back(use); });
  for (std::size_t k = 0; k < uses.size() && count > 0; ++k) {
    const Positions positions = checked_positions(ctx, contiguous(ctx, tuple.indices[k]), uses[k]);
    check(launch<number_slices>(grid_for(count), stream_of(ctx), positions.reader, count,
                                out.slices.factors[k], k == 0, out.slices.begin,
                                device_data<std::int64_t>(out.numbers)),
          *ctx.device, name);
  }
  return out;
}

/// The least of the slices that a tuple can address: x's other dims, and `ones` dims of 1 at
/// `position` among them.
Array least_slice(KernelContext& ctx, const Array& x, const IndexTuple& tuple, const Tuple& of,
                  int ones) {
  Shape shape, strides;
  for (int d = 0; d < x.ndim(); ++d) {
    if (is_addressed(tuple.dims, d)) continue;
    shape.push_back(x.size(d));
    strides.push_back(x.strides()[static_cast<std::size_t>(d)]);
  }
  shape.insert(shape.begin() + of.position, static_cast<std::size_t>(ones), 1);
  strides.insert(strides.begin() + of.position, static_cast<std::size_t>(ones), 0);
  if (x.num_elements() > 0 || num_elements(shape) == 0) {
    return x.as_strided(shape, strides, x.num_elements() > 0 ? x.offset() + of.slices.least : 0);
  }
  const Array stand_in = Array::empty({1}, x.dtype(), ctx.allocator);
  return stand_in.as_strided(shape, Shape(shape.size(), 0), 0);
}

}  // namespace

void index_get(KernelContext& ctx, const Array& x, const IndexTuple& tuple, Absent absent,
               const Array& out) {
  const Tuple of = number_tuple(ctx, "index", x, tuple, absent, out);
  Shape strides(out.shape().size(), 0);
  for (int d = 0; d < of.ndim; ++d) {
    strides[static_cast<std::size_t>(of.position + d)] =
        of.numbers.strides()[static_cast<std::size_t>(d)];
  }
  if (out.num_elements() == 0) return;
  const Array numbers = of.numbers.as_strided(out.shape(), strides, 0);
  take_elements(ctx, "index", least_slice(ctx, x, tuple, of, of.ndim), of.slices.step,
                trusted_positions(numbers), absent_word(x.dtype()), out);
}

void index_put(KernelContext& ctx, const Array& out, const IndexTuple& tuple, const Array& values,
               Combine combine, Absent absent) {
  const Tuple of = number_tuple(ctx, "index_put", out, tuple, absent, values);
  const std::int64_t count = of.numbers.num_elements();
  if (values.num_elements() == 0) return;
  if (!combines_rows(count, of.slices.count)) {
    throw Error(
        unimplemented("index_put of 2^31 slices has no kernel on " + to_string(ctx.device->id())));
  }
  Positions numbers = trusted_positions(of.numbers.try_view({count}));
  numbers.reader.size = of.slices.count;
  const Array keys = keys_of(ctx, numbers);
  // The tuple's dims of dense values are one, of rows that lie evenly.
  const Array dense = contiguous(ctx, values);
  Array row = dense;
  for (int d = of.ndim; d-- > 0;) row = first_elements(ctx, row, of.position + d);
  std::int64_t from_step = 1;
  for (int d = of.position + of.ndim; d < dense.ndim(); ++d) from_step *= dense.size(d);
  combine_rows(ctx, "index_put", combine == Combine::kAdd ? combine : Combine::kAssign,
               {.keys_N = keys,
                .num_keys = of.slices.count,
                .out_row = least_slice(ctx, out, tuple, of, 0),
                .src_row = row,
                .to_step = of.slices.step,
                .from_step = from_step});
}

}  // namespace tessera::kernels::TSR_CUDA
