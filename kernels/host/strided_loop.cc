#include "kernels/strided_loop.h"

#include <cstdlib>

#include "absl/strings/str_format.h"

namespace tessera::kernels {
namespace {

[[noreturn]] void throw_broadcast(std::string_view kernel, const Shape& from, const Shape& to) {
  throw Error(
      invalid_argument(absl::StrFormat("%s: an operand of shape %s does not broadcast to %s",
                                       to_absl(kernel), to_string(from), to_string(to))));
}

}  // namespace

void require_shape(std::string_view kernel, std::string_view operand, const Array& array,
                   const Shape& shape) {
  if (array.shape() == shape) return;
  throw Error(invalid_argument(absl::StrFormat("%s: %s has shape %s, expected %s", to_absl(kernel),
                                               to_absl(operand), to_string(array.shape()),
                                               to_string(shape))));
}

void require_dim(std::string_view kernel, const Array& x, int dim) {
  if (dim >= 0 && dim < x.ndim()) return;
  throw Error(invalid_argument(absl::StrFormat("%s: dim %d of an array of shape %s",
                                               to_absl(kernel), dim, to_string(x.shape()))));
}

StridedLoop::StridedLoop(std::string_view kernel, std::span<const Array* const> operands)
    : operands_(static_cast<int>(operands.size())) {
  const Array& first = *operands[0];
  for (const Array* operand : operands) {
    if (operand->ndim() > first.ndim()) throw_broadcast(kernel, operand->shape(), first.shape());
  }
  bool sorted = true;
  for (int d = first.ndim() - 1; d >= 0; --d) {
    const std::int64_t size = first.size(d);
    total_ *= size;
    Offsets strides{};
    for (int k = 0; k < operands_; ++k) {
      const Array& operand = *operands[k];
      const int own = d - first.ndim() + operand.ndim();
      if (own < 0 || operand.size(own) == size) {
        strides[k] = own < 0 || size == 1 ? 0 : operand.strides()[own];
      } else if (operand.size(own) != 1) {
        throw_broadcast(kernel, operand.shape(), first.shape());
      }
    }
    if (size == 1) continue;
    if (ndim_ > 0 && std::abs(strides[0]) < std::abs(stride_[0][ndim_ - 1])) sorted = false;
    append_dim(size, strides);
  }
  if (!sorted) {
    sort_dims();
    merge_dims();
  }
  if (ndim_ == 0) {
    append_dim(1, Offsets{});
    for (int k = 0; k < operands_; ++k) stride_[k][0] = 1;
  }
}

/// Adds an outer dim, as part of the last one where all operands run on evenly.
void StridedLoop::append_dim(std::int64_t size, const Offsets& strides) noexcept {
  if (ndim_ > 0) {
    const int last = ndim_ - 1;
    bool even = true;
    for (int k = 0; k < operands_; ++k) even = even && strides[k] == stride_[k][last] * size_[last];
    if (even) {
      size_[last] *= size;
      return;
    }
  }
  size_[ndim_] = size;
  for (int k = 0; k < operands_; ++k) stride_[k][ndim_] = strides[k];
  ++ndim_;
}

void StridedLoop::sort_dims() noexcept {
  for (int i = 1; i < ndim_; ++i) {
    for (int j = i; j > 0 && std::abs(stride_[0][j]) < std::abs(stride_[0][j - 1]); --j) {
      std::swap(size_[j], size_[j - 1]);
      for (int k = 0; k < operands_; ++k) std::swap(stride_[k][j], stride_[k][j - 1]);
    }
  }
}

void StridedLoop::merge_dims() noexcept {
  const int before = ndim_;
  ndim_ = 0;
  for (int d = 0; d < before; ++d) {
    Offsets strides{};
    for (int k = 0; k < operands_; ++k) strides[k] = stride_[k][d];
    append_dim(size_[d], strides);  // writes at or before d
  }
}

bool StridedLoop::is_linear(int operand) const noexcept {
  std::int64_t step = 1;
  for (int d = 0; d < ndim_; ++d) {
    if (stride_[operand][d] != step) return false;
    step *= size_[d];
  }
  return true;
}

}  // namespace tessera::kernels
