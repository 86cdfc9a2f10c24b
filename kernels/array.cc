#include "kernels/array.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/strings/str_format.h"
#include "kernels/dtype_switch.h"
#include "kernels/elementwise.h"

namespace tessera {
namespace {

/// Elements of `shape`; an error where they cannot be counted or addressed in bytes.
std::int64_t checked_elements(const Shape& shape, DType dtype) {
  std::int64_t product = 1;
  bool good = shape.size() <= static_cast<std::size_t>(kMaxDims);
  for (const std::int64_t size : shape) {
    good = good && size >= 0 && !__builtin_mul_overflow(product, size, &product);
  }
  std::int64_t bytes = 0;
  if (good && !__builtin_mul_overflow(product, size_of(dtype), &bytes)) return product;
  value_or_throw(checked_num_elements(view_of(shape)));
  throw Error(out_of_range(absl::StrFormat("array: %s of %s has more bytes than can be addressed",
                                           to_string(shape), to_absl(name_of(dtype)))));
}

/// Calls f(offset) for every element's offset in row-major order.
template <class F>
void for_each_offset(const Shape& shape, const Shape& strides, F&& f) {
  const std::int64_t count = num_elements(shape);
  Shape coord(shape.size(), 0);
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    f(offset);
    for (std::size_t d = shape.size(); d-- > 0;) {
      offset += strides[d];
      if (++coord[d] < shape[d]) break;
      offset -= strides[d] * shape[d];
      coord[d] = 0;
    }
  }
}

/// Strides of `target` over the elements of one run of dims that lie `step` apart; false where it
/// does not divide.
bool split_run(std::int64_t run_elements, std::int64_t step, const Shape& target, int& next,
               Shape& strides) {
  std::int64_t covered = 1;
  while (next >= 0 && (covered < run_elements || target[static_cast<std::size_t>(next)] == 1)) {
    const auto d = static_cast<std::size_t>(next--);
    strides[d] = step * covered;
    covered *= target[d];
  }
  return covered == run_elements;
}

/// `value` as a T; integers stop at their limits, and NaN is 0 there.
template <class T>
T nearest(double value) noexcept {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    if (std::isnan(value)) return 0;
    // 2^63 is a double, 2^63 − 1 is none.
    if (value >= static_cast<double>(std::numeric_limits<T>::max())) {
      return std::numeric_limits<T>::max();
    }
    if (value <= static_cast<double>(std::numeric_limits<T>::lowest())) {
      return std::numeric_limits<T>::lowest();
    }
  }
  return kernels::convert<T>(value);
}

}  // namespace

Shape contiguous_strides(const Shape& shape) {
  Shape strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = step;
    step *= shape[d];
  }
  return strides;
}

Storage::Storage(std::shared_ptr<Allocator> allocator, std::size_t bytes)
    : allocator_(std::move(allocator)),
      device_(&allocator_->device()),
      is_on_host_(device_ == &cpu_device()),
      data_(static_cast<std::byte*>(allocator_->allocate(bytes))),
      bytes_(bytes) {}

Storage::~Storage() { allocator_->release(data_, bytes_); }

void Storage::wait_ready() {
  if (ready_ == nullptr) return;
  ready_->wait();
  ready_.reset();
}

void Storage::set_ready(std::shared_ptr<Ready> ready) { ready_ = std::move(ready); }

Array Array::empty(const Shape& shape, DType dtype, const std::shared_ptr<Allocator>& allocator) {
  const std::int64_t count = checked_elements(shape, dtype);
  Array array;
  array.storage_ =
      std::make_shared<Storage>(allocator, static_cast<std::size_t>(count * size_of(dtype)));
  array.shape_ = shape;
  array.strides_ = contiguous_strides(shape);
  array.dtype_ = dtype;
  return array;
}

Array Array::zeros(const Shape& shape, DType dtype, const std::shared_ptr<Allocator>& allocator) {
  Array array = empty(shape, dtype, allocator);
  array.device().clear(array.bytes(), array.storage_->bytes(), array.device().compute());
  return array;
}

Array Array::from_values(const Shape& shape, DType dtype, std::span<const double> values) {
  Array array = empty(shape, dtype);
  if (static_cast<std::int64_t>(values.size()) != array.num_elements()) {
    throw Error(
        invalid_argument(absl::StrFormat("from_values: %d values for shape %s (%d elements)",
                                         values.size(), to_string(shape), array.num_elements())));
  }
  kernels::visit_dtype(dtype, [&]<class T>(kernels::TypeTag<T>) {
    T* out = array.data<T>();
    for (std::size_t i = 0; i < values.size(); ++i) out[i] = nearest<T>(values[i]);
  });
  return array;
}

bool Array::is_contiguous() const noexcept {
  std::int64_t step = 1;
  bool steps_match = true;
  for (std::size_t d = shape_.size(); d-- > 0;) {
    steps_match = steps_match && (shape_[d] == 1 || strides_[d] == step);
    step *= shape_[d];
  }
  return steps_match || step == 0;
}

Array Array::as_strided(const Shape& shape, const Shape& strides, std::int64_t offset) const {
  if (shape.size() != strides.size()) {
    throw Error(
        invalid_argument(absl::StrFormat("as_strided: shape %s and strides %s differ in length",
                                         to_string(shape), to_string(strides))));
  }
  const std::int64_t count = checked_elements(shape, dtype_);
  const std::int64_t capacity = static_cast<std::int64_t>(storage_->bytes()) / size_of(dtype_);
  std::int64_t first = offset;
  std::int64_t last = offset;
  bool good = offset >= 0;  // an empty view reaches nothing, wherever it would begin
  for (std::size_t d = 0; d < shape.size() && count > 0; ++d) {
    std::int64_t reach = 0;
    good = good && !__builtin_mul_overflow(shape[d] - 1, strides[d], &reach);
    std::int64_t& bound = reach < 0 ? first : last;
    good = good && !__builtin_add_overflow(bound, reach, &bound);
  }
  if (!good || (count > 0 && (first < 0 || last >= capacity))) {
    throw Error(out_of_range(absl::StrFormat(
        "as_strided: shape %s with strides %s at offset %d leaves the storage of %d elements",
        to_string(shape), to_string(strides), offset, capacity)));
  }
  Array view = *this;
  view.shape_ = shape;
  view.strides_ = strides;
  view.offset_ = count > 0 ? offset : 0;
  return view;
}

Array Array::slice(int dim, std::int64_t start, std::int64_t stop) const {
  if (dim < 0 || dim >= ndim() || start < 0 || start > stop || stop > size(dim)) {
    throw Error(out_of_range(absl::StrFormat("slice: [%d, %d) of dim %d of an array of shape %s",
                                             start, stop, dim, to_string(shape_))));
  }
  Array view = *this;
  const auto d = static_cast<std::size_t>(dim);
  view.shape_[d] = stop - start;
  // An empty slice at the end keeps its offset inside the storage.
  if (stop > start) view.offset_ += start * strides_[d];
  return view;
}

Array Array::transpose(int dim_a, int dim_b) const {
  if (dim_a < 0 || dim_b < 0 || dim_a >= ndim() || dim_b >= ndim()) {
    throw Error(out_of_range(absl::StrFormat("transpose: dims %d and %d of an array of shape %s",
                                             dim_a, dim_b, to_string(shape_))));
  }
  Array view = *this;
  std::swap(view.shape_[static_cast<std::size_t>(dim_a)],
            view.shape_[static_cast<std::size_t>(dim_b)]);
  std::swap(view.strides_[static_cast<std::size_t>(dim_a)],
            view.strides_[static_cast<std::size_t>(dim_b)]);
  return view;
}

Array Array::try_view(const Shape& shape) const {
  if (checked_elements(shape, dtype_) != num_elements()) {
    throw Error(
        invalid_argument(absl::StrFormat("view: shape %s does not hold the %d elements of %s",
                                         to_string(shape), num_elements(), to_string(shape_))));
  }
  Array view = *this;
  view.shape_ = shape;
  view.strides_ = contiguous_strides(shape);
  if (is_contiguous()) return view;
  // Walk runs of dims that lie evenly in memory, from the last dim; the new dims must cut at their
  // borders.
  int next = static_cast<int>(shape.size()) - 1;
  std::int64_t run = 1;
  std::int64_t step = 0;
  for (std::size_t d = shape_.size(); d-- > 0;) {
    if (shape_[d] == 1) continue;
    if (run > 1 && strides_[d] != step * run) {
      if (!split_run(run, step, shape, next, view.strides_)) return {};
      run = 1;
    }
    if (run == 1) step = strides_[d];
    run *= shape_[d];
  }
  if (!split_run(run, step, shape, next, view.strides_)) return {};
  return view;
}

void Array::refuse_host_access() const {
  throw Error(failed_precondition("an array of " + to_string(device().id()) +
                                  " is used as memory of the host"));
}

std::vector<double> Array::to_vector() const {
  if (!is_on_host()) return to_host(*this).to_vector();
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(num_elements()));
  kernels::visit_dtype(dtype_, [&]<class T>(kernels::TypeTag<T>) {
    const T* source = data<T>();
    for_each_offset(shape_, strides_, [&](std::int64_t offset) {
      values.push_back(kernels::convert<double>(source[offset]));
    });
  });
  return values;
}

Array to_host(const Array& array) {
  if (array.is_on_host()) return array;
  Device& device = array.device();
  if (device.is_capturing()) throw Error(read_while_capturing(device));
  KernelContext ctx{.device = &device, .allocator = array.storage()->allocator()};
  const Array dense = kernels::contiguous(ctx, array);
  const Array host = Array::empty(array.shape(), array.dtype());
  device.copy(host.bytes(), dense.bytes(), static_cast<std::size_t>(host.num_bytes()),
              device.compute());
  device.synchronize(device.record(device.compute()));
  return host;
}

Array to_device(KernelContext& ctx, const Array& host) {
  if (takes_arrays_of(*ctx.device, cpu_device())) return host;
  KernelContext on_host;
  const Array dense = kernels::contiguous(on_host, host);
  const Array array = Array::empty(host.shape(), host.dtype(), ctx.allocator);
  ctx.device->upload(array.bytes(), dense.data<std::byte>(),
                     static_cast<std::size_t>(host.num_bytes()), ctx.device->compute());
  return array;
}

namespace kernels {

void throw_dtype(std::string_view kernel, DType dtype, std::string_view allowed) {
  throw Error(invalid_argument(absl::StrFormat("%s: dtype %s is not supported; allowed: %s",
                                               to_absl(kernel), to_absl(name_of(dtype)),
                                               to_absl(allowed))));
}

Array contiguous(KernelContext& ctx, const Array& src) {
  if (src.is_contiguous()) return src;
  Array dense = Array::empty(src.shape(), src.dtype(), ctx.allocator);
  copy(ctx, src, dense);
  return dense;
}

}  // namespace kernels
}  // namespace tessera
