// kernels/cuda/index_positions.h: indices as device code reads them: each is checked where it is
// read, and what is wrong is noted for Device::raise_faults().
#pragma once

#include "kernels/cuda/cuda_device.h"
#include "kernels/index_check.h"

namespace tessera::kernels::TSR_CUDA {

/// An index in memory, element by element in row-major order.
struct PositionReader {
  const std::byte* data;
  bool is_wide;   // I64, else I32
  bool may_skip;  // -1 is held elsewhere
  std::int64_t size;
  FaultWord fault;

  /// Element i of `part`, which is this index or begins within it; -1 where it addresses nothing.
  __device__ std::int64_t read(const std::byte* part, std::int64_t i) const {
    return judged((part - data) / (is_wide ? 8 : 4) + i, value(part, i));
  }
  __device__ std::int64_t read(std::int64_t i) const { return read(data, i); }

  /// Element i as it is.
  __device__ std::int64_t value(const std::byte* part, std::int64_t i) const {
    return is_wide ? reinterpret_cast<const std::int64_t*>(part)[i]
                   : reinterpret_cast<const std::int32_t*>(part)[i];
  }
  __device__ std::int64_t value(std::int64_t i) const { return value(data, i); }
  /// What read() makes of the value of element i.
  __device__ std::int64_t judged(std::int64_t i, std::int64_t value) const {
    if (value >= 0 && value < size) return value;
    if (value != -1 || !may_skip) fault.note(i);
    return -1;
  }
};

/// An index that kernels read, and how.
struct Positions {
  Array index;
  PositionReader reader;
};

/// The index's elements lie in row-major order, each once: broadcast dims stay such, whatever else
/// is not in order is copied. Errors: InvalidArgument for a dtype that is none of an index; those
/// of check_index() when faults are raised.
Positions checked_positions(KernelContext& ctx, const Array& index, const IndexUse& use);
/// Of I64 or I32, where all is right already: -1 is held elsewhere.
Positions trusted_positions(const Array& index);
/// Only notes what is wrong in the first `count` elements.
void read_positions(KernelContext& ctx, const PositionReader& reader, std::int64_t count);

}  // namespace tessera::kernels::TSR_CUDA
