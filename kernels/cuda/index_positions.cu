#include <limits>

#include "kernels/cuda/index_positions.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/map.h"
#include "kernels/elementwise.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

/// `index` where each element counts once: dims of stride 0 have one.
Array distinct_part(const Array& index) {
  Shape shape = index.shape();
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (index.strides()[d] == 0 && shape[d] > 1) shape[d] = 1;
  }
  return index.as_strided(shape, index.strides(), index.offset());
}

__global__ void read_all(PositionReader reader, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < count; i += step) static_cast<void>(reader.read(i));
}

Shape coord_at(const Shape& shape, std::int64_t position) {
  Shape coord(shape.size(), 0);
  for (std::size_t d = shape.size(); d-- > 0;) {
    coord[d] = position % shape[d];
    position /= shape[d];
  }
  return coord;
}

}  // namespace

Positions checked_positions(KernelContext& ctx, const Array& index, const IndexUse& use) {
  check_index_dtype(index, use);
  const Array ordered = distinct_part(index).is_contiguous() ? index : contiguous(ctx, index);
  const Array distinct = distinct_part(ordered);
  const FaultWord fault = device_of(ctx).next_fault_word([distinct,
                                                          use](std::int64_t position) -> Status {
    return index_outside(use, integer_at(distinct, position), coord_at(distinct.shape(), position));
  });
  Positions positions = trusted_positions(ordered);
  positions.reader.may_skip = use.absent == Absent::kSkip;
  positions.reader.size = use.size;
  positions.reader.fault = fault;
  return positions;
}

Positions trusted_positions(const Array& index) {
  return {index,
          {.data = index.bytes(),
           .is_wide = index.dtype() == DType::kI64,
           .may_skip = true,
           .size = std::numeric_limits<std::int64_t>::max(),
           .fault = {nullptr, 0}}};
}

void check_indices(KernelContext& ctx, const Array& index, const IndexUse& use) {
  const Positions positions = checked_positions(ctx, index, use);
  read_positions(ctx, positions.reader, distinct_part(positions.index).num_elements());
}

void read_positions(KernelContext& ctx, const PositionReader& reader, std::int64_t count) {
  if (count == 0) return;
  const Current current(*ctx.device);
  check(launch<read_all>(grid_for(count), stream_of(ctx), reader, count), *ctx.device,
        "read_positions");
}

}  // namespace tessera::kernels::TSR_CUDA
