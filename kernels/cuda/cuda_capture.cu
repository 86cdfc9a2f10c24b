// Captures: the streams' work is kept as a graph of CUDA's, and what it needs stays with it,
// because it is done again when everything that made it is gone.
#include <algorithm>
#include <atomic>
#include <utility>

#include "kernels/cuda/cuda_capture.h"
#include "kernels/cuda/cuda_device.h"
#include "placement/status.h"

namespace tessera::kernels::TSR_CUDA {

CaptureStore::~CaptureStore() {
  for (const auto& [size_class, blocks] : free_) {
    for (void* block : blocks) static_cast<void>(cudaFree(block));
  }
  for (void* memory : staging_) static_cast<void>(cudaFreeHost(memory));
}

void* CaptureStore::take(int size_class) {
  const std::lock_guard lock(mutex_);
  std::vector<void*>& blocks = free_[size_class];
  if (blocks.empty()) return nullptr;
  void* const block = blocks.back();
  blocks.pop_back();
  return block;
}

void CaptureStore::add(void* block, int size_class) {
  const std::lock_guard lock(mutex_);
  class_of_[block] = size_class;
}

void CaptureStore::give(void* block) {
  const std::lock_guard lock(mutex_);
  free_[class_of_.at(block)].push_back(block);
}

void* CaptureStore::staging(std::size_t bytes, const Device& device) {
  void* memory = nullptr;
  check(cudaMallocHost(&memory, bytes), device, "cudaMallocHost");
  staging_.push_back(memory);
  return memory;
}

unsigned long long CaptureStore::add(Describe describe) {
  TSR_CHECK(descriptions_.size() < kLaunchesOfStore, "a capture of too many launches that check");
  descriptions_.push_back(std::move(describe));
  return first_launch_ + descriptions_.size() - 1;
}

namespace {

class CudaCapturedWork final : public CapturedWork {
 public:
  CudaCapturedWork(std::shared_ptr<CudaDevice> device, std::shared_ptr<CaptureStore> store,
                   cudaGraphExec_t exec)
      : device_(std::move(device)), store_(std::move(store)), exec_(exec) {}
  ~CudaCapturedWork() override {
    if (exec_ != nullptr) static_cast<void>(cudaGraphExecDestroy(exec_));
    device_->forget(*store_);
  }
  void launch() override {
    if (exec_ == nullptr) return;
    const Current current(*device_);
    const cudaStream_t stream = static_cast<CudaStream&>(device_->compute()).handle();
    check(cudaGraphLaunch(exec_, stream), *device_, "cudaGraphLaunch");
  }

 private:
  std::shared_ptr<CudaDevice> device_;
  std::shared_ptr<CaptureStore> store_;
  cudaGraphExec_t exec_;
};

std::uint64_t next_capture() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

void CudaDevice::begin_capture(const Mark& first) {
  TSR_CHECK(capture_ == nullptr, "a capture is under way");
  raise_faults();
  synchronize(record(comm_));
  auto at = std::ranges::find(stores_, nullptr);
  if (at == stores_.end()) at = stores_.insert(at, nullptr);
  const auto place = static_cast<unsigned long long>(at - stores_.begin()) + 1;
  TSR_CHECK(place < kMostStores, "too much captured work on one device");
  capture_ = std::make_shared<CaptureStore>(
      first.state() == nullptr ? next_capture() : capture_of(first), place * kLaunchesOfStore);
  *at = capture_.get();
  begins_capture_ = first.state() == nullptr;
  const Current current(*this);
  if (begins_capture_) {
    // Memory is asked for meanwhile, which no other mode allows; what waits is refused here.
    check(cudaStreamBeginCapture(compute_.handle(), cudaStreamCaptureModeRelaxed), *this,
          "cudaStreamBeginCapture");
  } else {
    wait(compute_, first);
  }
  wait(comm_, record(compute_));
}

Mark CudaDevice::close_capture() {
  wait(compute_, record(comm_));
  return record(compute_);
}

std::shared_ptr<CapturedWork> CudaDevice::end_capture(std::span<const Mark> closed_by_others) {
  const Current current(*this);
  const auto self = std::static_pointer_cast<CudaDevice>(shared_from_this());
  cudaGraphExec_t exec = nullptr;
  if (begins_capture_) {
    for (const Mark& mark : closed_by_others) wait(compute_, mark);
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(compute_.handle(), &graph), *this, "cudaStreamEndCapture");
    const cudaError_t error = cudaGraphInstantiate(&exec, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    check(error, *this, "cudaGraphInstantiate");
  }
  return std::make_shared<CudaCapturedWork>(self, std::exchange(capture_, nullptr), exec);
}

void CudaDevice::abandon_capture() noexcept {
  if (capture_ == nullptr) return;
  if (begins_capture_) {
    cudaGraph_t graph = nullptr;
    static_cast<void>(cudaStreamEndCapture(compute_.handle(), &graph));
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
    static_cast<void>(cudaGetLastError());
  }
  forget(*capture_);
  capture_ = nullptr;
}

void CudaDevice::forget(const CaptureStore& store) noexcept {
  std::ranges::replace(stores_, const_cast<CaptureStore*>(&store), nullptr);
}

}  // namespace tessera::kernels::TSR_CUDA
