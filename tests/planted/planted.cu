// Device code with one fault each, and the same without it: planted NAME right|wrong. Under the
// thread sanitizer or the address sanitizer the wrong one is reported and the right one is not
// (planted_test.cc).
#include <array>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "kernels/cuda/launch.h"

namespace {

using tessera::kernels::Grid;
using tessera::kernels::launch;

constexpr int kThreads = 64;

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "planted: %s\n", cudaGetErrorString(error));
  std::exit(3);
}

int* device_ints(int n) {
  int* memory = nullptr;
  check(cudaMalloc(&memory, static_cast<std::size_t>(n) * sizeof(int)));
  return memory;
}
cudaStream_t make_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}
cudaEvent_t make_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

template <bool kRight>
__global__ void reverse_in_block(int* x) {
  TSR_SHARED(int, tile, [kThreads]);
  tile[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (kRight) __syncthreads();
  x[threadIdx.x] = tile[kThreads - 1 - threadIdx.x];
}

template <bool kRight>
__global__ void reverse_in_warp(int* x) {
  TSR_SHARED(int, tile, [kThreads]);
  const unsigned first = threadIdx.x / 32 * 32;
  tile[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (kRight) __syncwarp();
  x[threadIdx.x] = tile[first + 31 - threadIdx.x % 32];
}

// Lanes exchange values, which orders nothing.
template <bool kRight>
__global__ void order_by_exchange(int* x) {
  TSR_SHARED(int, tile, [kThreads]);
  tile[threadIdx.x] = static_cast<int>(threadIdx.x);
  const int next = __shfl_xor_sync(0xffffffffu, static_cast<int>(threadIdx.x), 1);
  if (kRight) __syncwarp();
  x[threadIdx.x] = tile[next];
}

template <bool kRight>
__global__ void one_place_of_blocks(int* x) {
  if (threadIdx.x == 0) x[kRight ? blockIdx.x : 0] = static_cast<int>(blockIdx.x);
}

template <bool kRight>
__global__ void count(int* x) {
  if (kRight) {
    atomicAdd(x, 1);
  } else {
    *x += 1;
  }
}

template <bool kRight>
__global__ void last_block_reads(int* x, unsigned* counter) {
  if (threadIdx.x != 0) return;
  x[blockIdx.x] = 1;
  if (kRight) __threadfence();
  const bool is_last = atomicInc(counter, gridDim.x - 1) == gridDim.x - 1;
  if (kRight) __threadfence();
  if (!is_last) return;
  int all = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) all += x[i];
  x[0] = all;
}

__global__ void add_one(int* x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) x[i] += 1;
}

template <bool kRight>
__global__ void over_the_end(int* x, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (kRight ? i < n : i <= n) x[i] = 1;
}

template <bool kRight>
__global__ void over_the_shared_end(int* x) {
  TSR_SHARED(int, tile, [kThreads]);
  tile[threadIdx.x + (kRight ? 0 : 1)] = 1;
  __syncthreads();
  x[threadIdx.x] = tile[threadIdx.x];
}

template <bool kRight>
__global__ void over_the_dynamic_end(int* x) {
  TSR_DYNAMIC_SHARED(int, tile);
  tile[threadIdx.x + (kRight ? 0 : 1)] = 1;
  __syncthreads();
  x[threadIdx.x] = tile[threadIdx.x];
}

template <auto kKernel, class... Args>
void run_alone(const Grid& grid, Args... args) {
  const cudaStream_t stream = make_stream();
  check(launch<kKernel>(grid, stream, args...));
  check(cudaStreamSynchronize(stream));
}

template <bool kRight>
void last_block() {
  auto* counter = reinterpret_cast<unsigned*>(device_ints(1));
  const cudaStream_t stream = make_stream();
  check(cudaMemsetAsync(counter, 0, sizeof(int), stream));
  check(launch<last_block_reads<kRight>>({4, kThreads}, stream, device_ints(4), counter));
  check(cudaStreamSynchronize(stream));
}

template <bool kRight>
void two_streams() {
  int* x = device_ints(kThreads);
  const cudaStream_t first = make_stream(), second = make_stream();
  const cudaEvent_t event = make_event();
  check(launch<add_one>({1, kThreads}, first, x, kThreads));
  check(cudaEventRecord(event, first));
  if (kRight) check(cudaStreamWaitEvent(second, event));
  check(launch<add_one>({1, kThreads}, second, x, kThreads));
  check(cudaStreamSynchronize(first));
  check(cudaStreamSynchronize(second));
}

template <bool kRight>
void host_reads() {
  int* x = nullptr;
  check(cudaMallocHost(&x, kThreads * sizeof(int)));
  const cudaStream_t stream = make_stream(), other = make_stream();
  check(launch<add_one>({1, kThreads}, stream, x, kThreads));
  check(cudaStreamSynchronize(kRight ? stream : other));
  std::printf("%d\n", x[3]);
  check(cudaStreamSynchronize(stream));
}

template <bool kRight>
void host_writes_too_early() {
  int* staging = nullptr;
  check(cudaMallocHost(&staging, kThreads * sizeof(int)));
  std::memset(staging, 0, kThreads * sizeof(int));
  const cudaStream_t stream = make_stream();
  check(cudaMemcpyAsync(device_ints(kThreads), staging, kThreads * sizeof(int),
                        cudaMemcpyHostToDevice, stream));
  if (kRight) check(cudaStreamSynchronize(stream));
  staging[5] = 1;
  check(cudaStreamSynchronize(stream));
}

template <bool kRight>
void host_callback() {
  static int seen = 0;
  const cudaStream_t stream = make_stream();
  check(cudaLaunchHostFunc(
      stream, [](void* at) { *static_cast<int*>(at) = 1; }, &seen));
  if (kRight) check(cudaStreamSynchronize(stream));
  std::printf("%d\n", seen);
  check(cudaStreamSynchronize(stream));
}

// Two streams of a graph: the second joins at the end; the wait before its own work is what may be
// missing.
template <bool kRight>
void branches_of_a_graph() {
  int* x = device_ints(kThreads);
  const cudaStream_t origin = make_stream(), branch = make_stream();
  const cudaEvent_t begun = make_event(), written = make_event(), joined = make_event();
  check(cudaStreamBeginCapture(origin, cudaStreamCaptureModeThreadLocal));
  check(cudaEventRecord(begun, origin));
  check(cudaStreamWaitEvent(branch, begun));
  check(launch<add_one>({1, kThreads}, origin, x, kThreads));
  check(cudaEventRecord(written, origin));
  if (kRight) check(cudaStreamWaitEvent(branch, written));
  check(launch<add_one>({1, kThreads}, branch, x, kThreads));
  check(cudaEventRecord(joined, branch));
  check(cudaStreamWaitEvent(origin, joined));
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(origin, &graph));
  cudaGraphExec_t exec = nullptr;
  check(cudaGraphInstantiate(&exec, graph, 0));
  for (int i = 0; i < 2; ++i) check(cudaGraphLaunch(exec, origin));
  check(cudaStreamSynchronize(origin));
}

template <bool kRight>
void freed_memory() {
  int* x = device_ints(kThreads);
  if (!kRight) check(cudaFree(x));
  run_alone<add_one>({1, kThreads}, x, kThreads);
  if (kRight) check(cudaFree(x));
}

template <bool kRight>
bool run(std::string_view name) {
  int* x = device_ints(kThreads);
  if (name == "block-barrier") {
    run_alone<reverse_in_block<kRight>>({2, kThreads}, x);
  } else if (name == "warp-barrier") {
    run_alone<reverse_in_warp<kRight>>({1, kThreads}, x);
  } else if (name == "exchange") {
    run_alone<order_by_exchange<kRight>>({1, kThreads}, x);
  } else if (name == "blocks") {
    run_alone<one_place_of_blocks<kRight>>({4, kThreads}, x);
  } else if (name == "atomic") {
    run_alone<count<kRight>>({2, kThreads}, x);
  } else if (name == "fence") {
    last_block<kRight>();
  } else if (name == "streams") {
    two_streams<kRight>();
  } else if (name == "host-read") {
    host_reads<kRight>();
  } else if (name == "host-write") {
    host_writes_too_early<kRight>();
  } else if (name == "callback") {
    host_callback<kRight>();
  } else if (name == "graph") {
    branches_of_a_graph<kRight>();
  } else if (name == "overrun") {
    run_alone<over_the_end<kRight>>({2, kThreads}, x, kThreads);
  } else if (name == "shared-overrun") {
    run_alone<over_the_shared_end<kRight>>({1, kThreads}, x);
  } else if (name == "dynamic-overrun") {
    run_alone<over_the_dynamic_end<kRight>>({1, kThreads, kThreads * sizeof(int)}, x);
  } else if (name == "freed") {
    freed_memory<kRight>();
  } else {
    return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_right = argc == 3 && std::string_view(argv[2]) == "right";
  const bool is_wrong = argc == 3 && std::string_view(argv[2]) == "wrong";
  if ((is_right && run<true>(argv[1])) || (is_wrong && run<false>(argv[1]))) return 0;
  std::fprintf(stderr, "usage: planted FAULT right|wrong\n");
  return 2;
}
