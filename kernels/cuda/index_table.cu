#include "kernels/cuda/index_table.h"
#include "kernels/cuda/map.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

constexpr int kMostRuns = 200;  // a launch's arguments end at 4 KiB

/// Elements [first[r], first[r + 1]) of a table are start[r], start[r] + 1, …
struct Runs {
  int count = 0;
  std::int64_t first[kMostRuns + 1];
  std::int64_t start[kMostRuns];
};

__global__ void write_runs(Runs runs, std::int64_t* table) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = runs.first[0] + static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < runs.first[runs.count]; i += step) {
    int low = 0, high = runs.count;  // the run is in [low, high)
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (runs.first[middle] <= i ? low : high) = middle;
    }
    table[i] = runs.start[low] + (i - runs.first[low]);
  }
}

}  // namespace

Array index_table(KernelContext& ctx, std::span<const std::int64_t> values) {
  const auto size = static_cast<std::int64_t>(values.size());
  const Array table = Array::empty({size}, DType::kI64, ctx.allocator);
  const Current current(*ctx.device);
  for (std::int64_t i = 0; i < size;) {
    Runs runs;
    for (; i < size && runs.count < kMostRuns; ++runs.count) {
      runs.first[runs.count] = i;
      runs.start[runs.count] = values[static_cast<std::size_t>(i)];
      const std::int64_t before = runs.start[runs.count] - i;
      while (i < size && values[static_cast<std::size_t>(i)] == before + i) ++i;
    }
    runs.first[runs.count] = i;
    check(launch<write_runs>(grid_for(i - runs.first[0]), stream_of(ctx), runs,
                             device_data<std::int64_t>(table)),
          *ctx.device, "index_table");
  }
  return table;
}

}  // namespace tessera::kernels::TSR_CUDA
