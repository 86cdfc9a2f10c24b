// Calls on arrays of a device that takes its time, never comes to an end, or fails: processes wait
// for it only in their polls, whether calls are staged or messages go from the device's memory.
#include <cstring>
#include <deque>
#include <functional>

#include "kernels/kernel_table.h"
#include "runtime/mpi_world.h"
#include "tests/mpi/on_all.h"
#include "tests/runtime/ranks.h"
#include "tests/support/on_world.h"

namespace tessera {
namespace {

using testing::contains;
using testing::on_all;
using testing::on_world;
using testing::values_here;
using Values = std::vector<double>;

enum class Manner : std::uint8_t { kLate, kNever, kFails };

/// One queue of copies, which are made when somebody asks for them for the third time, or waits.
class LazyDevice final : public Device {
 public:
  explicit LazyDevice(Manner manner)
      : Device({.kind = DeviceId::Kind::kEmulated, .ordinal = 5}, kernels::cpu_kernels()),
        manner_(manner) {}
  std::shared_ptr<Allocator> make_allocator() override;
  Stream& compute() override { return stream_; }
  Stream& comm() override { return stream_; }
  void copy(void* to, const void* from, std::size_t bytes, Stream&) override {
    if (bytes > 0) queue_.emplace_back([=] { std::memcpy(to, from, bytes); });
  }
  void upload(void* to, const void* from, std::size_t bytes, Stream& stream) override {
    copy(to, from, bytes, stream);
    synchronize(record(stream));
  }
  void clear(void* to, std::size_t bytes, Stream&) override {
    queue_.emplace_back([=] { std::memset(to, 0, bytes); });
  }
  Mark record(Stream&) override {
    return Mark(std::make_shared<Moment>(num_done_ + queue_.size()));
  }
  void wait(Stream&, const Mark&) override {}
  bool done(const Mark& mark) override {
    if (moment_of(mark) <= num_done_) return true;
    if (manner_ == Manner::kFails) throw Error(internal_error("emulated:5: it broke"));
    if (manner_ == Manner::kNever || ++num_asked_ % 3 != 0) return false;
    synchronize(mark);
    return true;
  }
  void reach(Device&) override {}
  void synchronize(const Mark& mark) override {
    for (; num_done_ < moment_of(mark); ++num_done_) {
      queue_.front()();
      queue_.pop_front();
    }
  }
  void raise_faults() override {}

 private:
  struct Moment final : Mark::State {
    explicit Moment(std::size_t its_number) : number(its_number) {}
    std::size_t number;
  };
  static std::size_t moment_of(const Mark& mark) {
    return static_cast<const Moment&>(*mark.state()).number;
  }

  Manner manner_;
  Stream stream_;
  std::deque<std::function<void()>> queue_;
  std::size_t num_done_ = 0, num_asked_ = 0;
};

class LazyMemory final : public Allocator {
 public:
  explicit LazyMemory(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  void* allocate(std::size_t bytes) override { return plain_allocator()->allocate(bytes); }
  void release(void* data, std::size_t bytes) noexcept override {
    device_->synchronize(device_->record(device_->compute()));
    plain_allocator()->release(data, bytes);
  }
  Device& device() const noexcept override { return *device_; }

 private:
  std::shared_ptr<Device> device_;
};

std::shared_ptr<Allocator> LazyDevice::make_allocator() {
  return std::make_shared<LazyMemory>(shared_from_this());
}

/// All ranks' devices are late; rank 1's does it in its own manner.
Status run_beside(Manner manner, DevicePointers pointers, const std::function<void(World&)>& body) {
  // Only a device that never ends is waited for in vain: others may be late on a busy machine.
  const std::chrono::milliseconds limit(manner == Manner::kNever ? 1000 : 60'000);
  MpiOptions options{.world = {.timeout = limit, .threads_per_rank = 1},
                     .device_pointers = pointers};
  options.world.allocator = [manner](std::int64_t rank) {
    return std::make_shared<LazyDevice>(rank == 1 ? manner : Manner::kLate)->make_allocator();
  };
  return run_mpi_rank(options, body);
}
/// What the call reads is still being written.
void sum_ones(World& world) {
  const Array x = on_world(world, Array::from_values({3}, DType::kF64, Values{1, 1, 1}));
  const Array y = Array::empty({3}, DType::kF64, world.allocator());
  Device& device = x.device();
  device.copy(y.bytes(), x.bytes(), 24, device.compute());
  everyone(world).all_reduce(y, y, ReduceOp::kSum);
}

}  // namespace

TEST_CASE("calls on a device that is late have their values", "[mpi][staging]") {
  const std::int64_t size = GENERATE(0, 3, 100'000);
  const DevicePointers pointers = GENERATE(DevicePointers::kOff, DevicePointers::kOn);
  std::string wrong;
  const Status status = run_beside(Manner::kLate, pointers, [&](World& world) {
    const std::int64_t ranks = world.size();
    const Array x = on_world(world, Array::from_values({size}, DType::kF64, Values(size, 1)));
    const Array all = Array::empty({size * ranks}, DType::kF64, world.allocator());
    double expected = 1;
    for (int repeat = 0; repeat < 5; ++repeat) {
      everyone(world).all_reduce(x, x, ReduceOp::kSum);
      everyone(world).all_gather(x, all);
      everyone(world).reduce_scatter(all, x, ReduceOp::kMax);
      expected *= static_cast<double>(ranks);
      everyone(world).broadcast(x, repeat % static_cast<int>(ranks));
    }
    if (values_here(x) != Values(size, expected)) wrong += "x ";
    if (values_here(all) != Values(size * ranks, expected)) wrong += "all ";
  });
  CAPTURE(size, wrong, status.ToString());
  CHECK(on_all(status.ok() && wrong.empty()));
}

TEST_CASE("a device that never ends its copies is a timeout that names the call",
          "[mpi][staging]") {
  const DevicePointers pointers = GENERATE(DevicePointers::kOff, DevicePointers::kOn);
  const Status status = run_beside(Manner::kNever, pointers, sum_ones);
  CAPTURE(status.ToString());
  CHECK(on_all(status.code() == absl::StatusCode::kDeadlineExceeded));
  CHECK(on_all(
      contains(status, "timed out after 1000 ms in all_reduce #0 of F64 [3] on emulated:5")));
}

TEST_CASE("a device that fails while a call waits for it ends the job with its words",
          "[mpi][staging]") {
  const DevicePointers pointers = GENERATE(DevicePointers::kOff, DevicePointers::kOn);
  const Status status = run_beside(Manner::kFails, pointers, sum_ones);
  CAPTURE(status.ToString());
  CHECK(on_all(contains(status, "rank 1: emulated:5: it broke")));
}

TEST_CASE("where one rank has no device none goes on", "[mpi][staging]") {
  MpiOptions options;
  options.world.allocator = [](std::int64_t rank) -> std::shared_ptr<Allocator> {
    if (rank == 1) throw Error(not_found("emulated:9: there is no such device"));
    return plain_allocator();
  };
  const Status status = run_mpi_rank(options, [](World&) {});
  CAPTURE(status.ToString());
  CHECK(on_all(contains(status, "rank 1: emulated:9: there is no such device")));
}

}  // namespace tessera
