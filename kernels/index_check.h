// kernels/index_check.h: index operands are checked as a whole before a kernel reads or writes by
// them.
#pragma once

#include <string_view>
#include <type_traits>

#include "kernels/host_device.h"
#include "kernels/index.h"
#include "placement/status.h"

namespace tessera::kernels {

/// What a kernel does with an index operand.
struct IndexUse {
  std::string_view kernel;
  std::int64_t size = 0;  ///< of the dim addressed
  Absent absent = Absent::kError;
};

/// Throws InvalidArgument unless the dtype is I64 or I32.
void check_index_dtype(const Array& index, const IndexUse& use);
/// The error for an index at `coord` that addresses nothing.
Status index_outside(const IndexUse& use, std::int64_t value, const Shape& coord);
/// Throws OutOfRange naming the first (row-major) position whose index lies outside [0, size), −1
/// apart where absent is kSkip; InvalidArgument unless the dtype is I64 or I32.
void check_index(const Array& index, const IndexUse& use);
/// The same on the context's device, which says so when its faults are raised.
void check_indices(KernelContext& ctx, const Array& index, const IndexUse& use);

/// What is read of an element that another rank holds: added to that, it leaves every bit as it is,
/// the sign of a zero too.
template <class T>
TSR_HOST_DEVICE T absent_value() noexcept {
  if constexpr (std::is_integral_v<T>) return T{};
  return T(-0.0F);
}
/// Its bits, as an element of `dtype`: of a floating one the sign alone.
inline std::uint64_t absent_word(DType dtype) noexcept {
  return is_floating(dtype) ? std::uint64_t{1} << (8 * size_of(dtype) - 1) : 0;
}

}  // namespace tessera::kernels
