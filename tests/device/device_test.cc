// Devices by themselves: their names, memory, marks, and what they refuse.
#include "kernels/device.h"

#include <cmath>

#include "emulation/control.h"
#include "kernels/cuda_device.h"
#include "kernels/elementwise.h"
#include "kernels/kernel_table.h"
#include "kernels/matmul.h"
#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

using tessera::Stream;  // not the emulation's

/// Has no kernel at all.
class BareDevice final : public Device {
 public:
  BareDevice() : Device({.kind = DeviceId::Kind::kEmulated, .ordinal = 0}, kNone) {}
  std::shared_ptr<Allocator> make_allocator() override { return nullptr; }
  Stream& compute() override { return stream_; }
  Stream& comm() override { return stream_; }
  void copy(void*, const void*, std::size_t, Stream&) override {}
  void upload(void*, const void*, std::size_t, Stream&) override {}
  void clear(void*, std::size_t, Stream&) override {}
  Mark record(Stream&) override { return Mark(); }
  void wait(Stream&, const Mark&) override {}
  bool done(const Mark&) override { return true; }
  void reach(Device&) override {}
  void synchronize(const Mark&) override {}
  void raise_faults() override {}

 private:
  static constexpr kernels::KernelTable kNone{};
  Stream stream_;
};

}  // namespace

TEST_CASE("arrays know their device, and kernels run on that of the context",
          "[device][emulated]") {
  OnDevice on;
  const Array a = Array::empty({2, 3}, DType::kF32, on.memory);
  CHECK(to_string(a.device().id()) == "emulated:0");
  CHECK(to_string(Array::zeros({1}, DType::kF32).device().id()) == "cpu:0");
  CHECK(to_string(DeviceId{.kind = DeviceId::Kind::kCuda, .ordinal = 3}) == "cuda:3");
  const std::int64_t before = emulation::launches(0);
  kernels::fill(on.ctx, 2.5, a);
  kernels::binary_scalar(on.ctx, kernels::Binary::kMul, a, 4.0, a);
  CHECK(fetch(on, a).to_vector() == std::vector<double>(6, 10.0));
  CHECK(emulation::launches(0) - before == 2);
}

TEST_CASE("a kernel that a device lacks is named, with the device", "[device][errors][emulated]") {
  OnDevice on;
  const Array a = Array::empty({2, 2}, DType::kI32, on.memory);
  const auto error_of = [](auto&& call) -> std::string {
    try {
      call();
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  BareDevice bare;
  KernelContext without{.device = &bare};
  CHECK(error_of([&] { kernels::matmul(without, a, a, a); }) ==
        "matmul has no kernel on emulated:0");
  const StatusOr<std::shared_ptr<Device>> none = make_emulated_device(8);
  CHECK(message_of(none.status()) == "emulated:8: there is no such device; there are 8, from 0");
  CHECK_FALSE(make_emulated_device(-1).ok());
  emulation::set_device_count(0);
  CHECK(message_of(make_emulated_device(0).status()) ==
        "emulated:0: there is no such device; there are 0, from 0");
  emulation::set_device_count(8);
}

TEST_CASE("a device says what does its libraries' work, and how often each did",
          "[device][emulated]") {
  OnDevice on;
  const auto use_of = [&](std::string_view work) {
    const std::vector<LibraryUse> all = libraries_of(*on.device);
    const auto found = std::ranges::find(all, work, &LibraryUse::work);
    return found == all.end() ? LibraryUse{} : *found;
  };
  const Array x = Array::zeros({4, 8}, DType::kF32, on.memory),
              w = Array::zeros({2, 8, 3}, DType::kF32, on.memory),
              out = Array::zeros({4, 3}, DType::kF32, on.memory),
              counts = Array::zeros({2}, DType::kI64, on.memory);
  CHECK(use_of("grouped products").plain_calls == 0);
  kernels::grouped_matmul(on.ctx, x, w, counts, out);
  kernels::grouped_matmul_weight_grad(on.ctx, x, out, counts, w);
  on.device->raise_faults();  // which lets go of the counts
  const LibraryUse grouped = use_of("grouped products");
  CHECK(grouped.by == "plain kernel: built without CUTLASS");
  CHECK((grouped.library_calls == 0 && grouped.plain_calls == 2));
  CHECK(use_of("attention").by == "plain kernel: built without cudnn-frontend");
  CHECK(use_of("products").by == "the processor's kernel");
  CHECK(use_of("keys in order").by == "the processor's sort");
  CHECK(libraries_of(cpu_device()).empty());
}

TEST_CASE("a device that another process has for itself is refused", "[device][errors][emulated]") {
  emulation::set_device_busy(5, true);
  const StatusOr<std::shared_ptr<Device>> busy = make_emulated_device(5);
  emulation::set_device_busy(5, false);
  CHECK(busy.status().code() == absl::StatusCode::kUnavailable);
  CHECK(message_of(busy.status()) ==
        "emulated:5: cudaStreamCreate: the device is busy: another process has it for itself");
  CHECK(make_emulated_device(5).ok());
}

TEST_CASE("memory that is not there is an error that says how much, and what there is stays",
          "[device][errors][emulated]") {
  OnDevice on;
  emulation::set_device_memory(1 << 20);
  const Array kept = Array::empty({1000}, DType::kF32, on.memory);
  kernels::fill(on.ctx, 1.0, kept);
  std::string text;
  try {
    static_cast<void>(Array::empty({1 << 20}, DType::kF32, on.memory));
  } catch (const Error& error) {
    CHECK(error.status().code() == absl::StatusCode::kResourceExhausted);
    text = error.what();
  }
  emulation::set_device_memory(std::size_t{16} << 30);
  CHECK_THAT(text, Catch::StartsWith("emulated:0: no memory for a buffer of 4194304 bytes: ") &&
                       Catch::EndsWith(" of 1048576 are free"));
  CHECK(fetch(on, kept).to_vector() == std::vector<double>(1000, 1.0));
}

TEST_CASE("released memory serves the same stream again; fresh memory is poison",
          "[device][memory][emulated]") {
  OnDevice on;
  Array a = Array::empty({100}, DType::kF32, on.memory);
  CHECK(std::isnan(fetch(on, a).to_vector()[99]));
  kernels::fill(on.ctx, 1.0, a);
  const std::byte* where = a.bytes();
  a = Array();
  a = Array::empty({98}, DType::kF32, on.memory);
  CHECK(a.bytes() == where);
  kernels::fill(on.ctx, 2.0, a);
  CHECK(fetch(on, a).to_vector() == std::vector<double>(98, 2.0));
}

TEST_CASE("arrays of a device are no memory of the host; copies are asked for",
          "[device][errors][emulated]") {
  OnDevice on;
  const Array host = Array::from_values({2, 3}, DType::kI32, std::vector<double>{1, 2, 3, 4, 5, 6});
  const Array there = to_device(on.ctx, host.transpose(0, 1));
  CHECK(&there.device() == on.device.get());
  CHECK(there.shape() == Shape{3, 2});
  CHECK(there.to_vector() == std::vector<double>{1, 4, 2, 5, 3, 6});
  CHECK_THROWS_WITH(there.data<std::byte>(),
                    "an array of emulated:0 is used as memory of the host");
  CHECK(to_host(there.slice(1, 1, 2)).to_vector() == std::vector<double>{4, 5, 6});
  CHECK(to_host(host).bytes() == host.bytes());
  KernelContext cpu;
  CHECK(to_device(cpu, host).bytes() == host.bytes());
  CHECK(to_host(Array::zeros({5}, DType::kF16, on.memory)).to_vector() ==
        std::vector<double>(5, 0.0));
}

TEST_CASE("what is uploaded may be written again at once", "[device][memory]") {
  OnDevice on;
  std::vector<Array> there;
  const Array host = Array::empty({5000}, DType::kF64);
  for (int round = 0; round < 50; ++round) {
    std::fill_n(host.data<double>(), 5000, round);
    there.push_back(to_device(on.ctx, host));
  }
  for (int round = 0; round < 50; ++round) {
    CHECK(to_host(there[static_cast<std::size_t>(round)]).to_vector() ==
          std::vector<double>(5000, round));
  }
}

TEST_CASE("marks order the streams of two devices", "[device][streams][emulated]") {
  OnDevice first;
  const std::shared_ptr<Device> second = value_or_throw(make_emulated_device(1));
  const std::shared_ptr<Allocator> memory = second->make_allocator();
  const Array a = Array::empty({1000}, DType::kF64, first.memory),
              b = Array::empty({1000}, DType::kF64, memory);
  KernelContext ctx{.device = second.get(), .allocator = memory};
  for (int round = 0; round < 20; ++round) {
    kernels::fill(first.ctx, round, a);
    const Mark written = first.device->record(first.device->compute());
    second->wait(second->comm(), written);
    second->copy(b.bytes(), a.bytes(), 8000, second->comm());
    const Mark copied = second->record(second->comm());
    second->wait(second->compute(), copied);
    first.device->wait(first.device->compute(), copied);  // before it writes again
    kernels::binary_scalar(ctx, kernels::Binary::kAdd, b, 0.5, b);
    second->synchronize(second->record(second->compute()));
    CHECK(second->done(copied));
    double value = 0.0;
    second->copy(&value, b.bytes() + 999 * 8, 8, second->compute());
    second->synchronize(second->record(second->compute()));
    CHECK(value == round + 0.5);
  }
  CHECK(second->done(Mark()));
}

}  // namespace tessera::testing
