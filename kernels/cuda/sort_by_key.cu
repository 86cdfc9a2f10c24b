// Integer keys counted and put in order. Few keys: a warp a chunk counts, each key's counts become
// where its chunks begin, a warp a chunk places. Many keys: a sort.
#include <bit>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/lines.h"
#include "kernels/select_checks.h"

namespace tessera::kernels::TSR_CUDA {
namespace {

#ifdef __CUDACC__
constexpr std::int64_t kFewKeys = 4096;  // whose counters fit into a block's memory
constexpr std::int64_t kLeastOfChunk = 1024, kMostChunks = 2048;
#else
constexpr std::int64_t kFewKeys = 70, kLeastOfChunk = 40, kMostChunks = 6;
#endif

struct Keys {
  MapOperand keys;
  std::int64_t count, num_keys;
  std::int64_t chunk, chunks;
  FaultWord fault;

  /// One that is none is noted and counts as num_keys: it stands last.
  __device__ std::int64_t at(std::int64_t i) const {
    const auto key = load<std::int64_t>(keys, i * keys.strides[0]);
    if (key >= 0 && key < num_keys) return key;
    fault.note(i);
    return num_keys;
  }
  __device__ std::int64_t end_of(std::int64_t begin) const {
    return begin + chunk < count ? begin + chunk : count;
  }
};
/// A contiguous or strided line of I64.
struct Line {
  std::int64_t* data;
  std::int64_t stride;
  __device__ std::int64_t& operator[](std::int64_t i) const { return data[i * stride]; }
};

/// counts[key · chunks + chunk]. A block is one warp.
__global__ void count_chunks(Keys keys, unsigned* counts) {
  TSR_DYNAMIC_SHARED(unsigned, held);
  const std::int64_t chunk = blockIdx.x, begin = chunk * keys.chunk;
  for (std::int64_t key = threadIdx.x; key <= keys.num_keys; key += kLanes) held[key] = 0;
  __syncwarp();
  for (std::int64_t i = begin + threadIdx.x; i < keys.end_of(begin); i += kLanes) {
    atomicAdd(&held[keys.at(i)], 1U);
  }
  __syncwarp();
  for (std::int64_t key = threadIdx.x; key <= keys.num_keys; key += kLanes) {
    counts[key * keys.chunks + chunk] = held[key];
  }
}

/// counts → how many of the key come before each chunk, and of all chunks. A warp a key.
__global__ void sum_chunks(std::int64_t num_keys, std::int64_t chunks, unsigned* counts,
                           Line totals) {
  const int lane = static_cast<int>(threadIdx.x % kLanes);
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * blockDim.x / kLanes;
  std::int64_t key = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
  for (; key <= num_keys; key += warps) {
    std::int64_t before = 0;
    for (std::int64_t base = 0; base < chunks; base += kLanes) {
      const std::int64_t at = key * chunks + base + lane;
      const bool has_one = base + lane < chunks;
      const std::int64_t count = has_one ? counts[at] : 0;
      const std::int64_t sum = sum_so_far(count, lane);
      if (has_one) counts[at] = static_cast<unsigned>(before + sum - count);
      before += __shfl_sync(kAllLanes, sum, kLanes - 1);
    }
    if (lane == 0 && key < num_keys) totals[key] = before;
  }
}

/// The lanes whose key is this lane's, of those of `among`.
__device__ inline unsigned same_key(unsigned among, std::int64_t key, int bits) {
  for (int bit = 0; bit < bits; ++bit) {
    const bool is_set = (key >> bit & 1) != 0;
    const unsigned ones = __ballot_sync(kAllLanes, is_set);
    among &= is_set ? ones : ~ones;
  }
  return among;
}

/// A block is one warp.
__global__ void place_chunks(Keys keys, int bits, const unsigned* counts, Line totals,
                             Line permutation) {
  TSR_DYNAMIC_SHARED(std::int64_t, next);
  const int lane = static_cast<int>(threadIdx.x);
  const std::int64_t chunk = blockIdx.x, begin = chunk * keys.chunk;
  std::int64_t before = 0;  // of lower keys
  for (std::int64_t base = 0; base <= keys.num_keys; base += kLanes) {
    const std::int64_t key = base + lane;
    const std::int64_t total = key < keys.num_keys ? totals[key] : 0;
    const std::int64_t sum = sum_so_far(total, lane);
    if (key <= keys.num_keys) {
      next[key] = before + sum - total + counts[key * keys.chunks + chunk];
    }
    before += __shfl_sync(kAllLanes, sum, kLanes - 1);
  }
  __syncwarp();
  const std::int64_t end = keys.end_of(begin);
  for (std::int64_t base = begin; base < end; base += kLanes) {
    const std::int64_t i = base + lane;
    const bool has_one = i < end;
    const std::int64_t key = has_one ? keys.at(i) : 0;
    const unsigned same = same_key(__ballot_sync(kAllLanes, has_one), key, bits);
    const std::int64_t at = has_one ? next[key] + __popc(same & ((1U << lane) - 1)) : 0;
    __syncwarp();
    if (has_one && same >> lane == 1) next[key] = at + 1;  // the last of its key
    __syncwarp();
    if (has_one) permutation[at] = i;
  }
}

void sort_few(KernelContext& ctx, const Keys& keys, const Line& permutation, const Line& totals) {
  const std::int64_t slots = keys.num_keys + 1;
  const Array counts = scratch_for<unsigned>(ctx, slots * keys.chunks);
  auto* const held = device_data<unsigned>(counts);
  const auto blocks = static_cast<unsigned>(keys.chunks);
  const auto bytes_of = [&](std::size_t each) { return static_cast<std::size_t>(slots) * each; };
  check(launch<count_chunks>({blocks, kLanes, bytes_of(sizeof(unsigned))}, stream_of(ctx), keys,
                             held),
        *ctx.device, "sort_by_key");
  check(launch<sum_chunks>(grid_for(slots * kLanes), stream_of(ctx), keys.num_keys, keys.chunks,
                           held, totals),
        *ctx.device, "sort_by_key");
  const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(keys.num_keys)));
  check(launch<place_chunks>({blocks, kLanes, bytes_of(sizeof(std::int64_t))}, stream_of(ctx), keys,
                             bits, held, totals, permutation),
        *ctx.device, "sort_by_key");
}

__global__ void check_keys(Keys keys) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; i < keys.count; i += step) static_cast<void>(keys.at(i));
}

/// How many keys of a sorted line are below `key`.
__device__ inline std::int64_t below(const MapOperand& sorted, std::int64_t count,
                                     std::int64_t key) {
  std::int64_t low = 0;
  while (low < count) {
    const std::int64_t middle = (low + count) / 2;
    if (load<std::int64_t>(sorted, middle) < key) {
      low = middle + 1;
    } else {
      count = middle;
    }
  }
  return low;
}
__global__ void count_sorted(MapOperand sorted, std::int64_t count, std::int64_t num_keys,
                             Line totals) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  std::int64_t key = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (; key < num_keys; key += step) {
    totals[key] = below(sorted, count, key + 1) - below(sorted, count, key);
  }
}

void sort_many(KernelContext& ctx, const Keys& keys, const Array& keys_N,
               const Array& permutation_N, const Line& totals) {
  check(launch<check_keys>(grid_for(keys.count), stream_of(ctx), keys), *ctx.device, "sort_by_key");
  const Array sorted = Array::empty(keys_N.shape(), keys_N.dtype(), ctx.allocator);
  TSR_CUDA::sort(ctx, keys_N, 0, Order::kAscending, sorted, permutation_N);
  check(launch<count_sorted>(grid_for(keys.num_keys), stream_of(ctx),
                             MapOperand{sorted.bytes(), sorted.dtype(), {}}, keys.count,
                             keys.num_keys, totals),
        *ctx.device, "sort_by_key");
}

}  // namespace

void sort_by_key(KernelContext& ctx, const Array& keys_N, std::int64_t num_keys,
                 const Array& permutation_N, const Array& counts_E) {
  check_sort_by_key(keys_N, num_keys, permutation_N, counts_E);
  const std::int64_t count = keys_N.size(0);
  const std::int64_t chunk = std::max(kLeastOfChunk, (count + kMostChunks - 1) / kMostChunks);
  const FaultWord fault = device_of(ctx).next_fault_word([keys_N, num_keys](std::int64_t position) {
    return bad_key(integer_at(keys_N, position), position, num_keys);
  });
  const Keys keys{.keys = {keys_N.bytes(), keys_N.dtype(), {keys_N.strides()[0]}},
                  .count = count,
                  .num_keys = num_keys,
                  .chunk = chunk,
                  .chunks = std::max<std::int64_t>(1, (count + chunk - 1) / chunk),
                  .fault = fault};
  const auto line_of = [](const Array& array) {
    return Line{device_data<std::int64_t>(array), array.strides()[0]};
  };
  const Current current(*ctx.device);
  if (num_keys > kFewKeys) return sort_many(ctx, keys, keys_N, permutation_N, line_of(counts_E));
  sort_few(ctx, keys, line_of(permutation_N), line_of(counts_E));
}

}  // namespace tessera::kernels::TSR_CUDA
