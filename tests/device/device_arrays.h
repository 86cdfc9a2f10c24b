// tests/device/device_arrays.h: one random array twice, on the processor and on the emulated
// device, with the same strides.
#pragma once

#include <random>

#include "kernels/array.h"
#include "kernels/cuda_device.h"
#include "placement/status.h"

namespace tessera::testing {

/// A device with its context and its memory.
struct OnDevice {
  std::shared_ptr<Device> device = value_or_throw(make_emulated_device(0));
  std::shared_ptr<Allocator> memory = device->make_allocator();
  KernelContext ctx{.device = device.get(), .allocator = memory};

  /// Blocks until all that the device was given is done.
  void finish() { device->synchronize(device->record(device->compute())); }
};

/// The same values, as the same view of the same storage's layout.
struct Twins {
  Array host, device;
};

class TwinMaker {
 public:
  TwinMaker(OnDevice& on, std::uint64_t seed) : on_(on), random_(seed) {}

  std::int64_t number(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  /// Up to 4 dims of up to 9, some of 0 and 1.
  Shape shape() {
    Shape out(static_cast<std::size_t>(number(0, 4)));
    for (std::int64_t& size : out) size = number(0, 12) == 0 ? 0 : number(1, 9);
    return out;
  }
  /// Values that the dtype holds, special ones of floating types among them.
  Twins values(const Shape& shape, DType dtype);
  /// The same, perhaps as a slice or a transposed view of something larger.
  Twins view(const Shape& shape, DType dtype);
  /// A view that broadcasts to `shape`: fewer dims, or some of size 1.
  Twins broadcast(const Shape& shape, DType dtype);
  /// What a kernel writes: dense or not, with the same values on both sides before.
  Twins output(const Shape& shape, DType dtype) { return view(shape, dtype); }

 private:
  OnDevice& on_;
  std::mt19937_64 random_;
};

/// The device's values on the processor. Waits for the device.
Array fetch(OnDevice& on, const Array& array);

/// Where the two differ by more than `tolerance`, relative to 1 or to the greater of them: "[2, 1]:
/// 3 instead of 4". Empty where nowhere: NaN stands for NaN and infinities for themselves; integers
/// must be equal.
std::string difference(const Array& got, const Array& expected, double tolerance);
/// What is allowed between two devices that compute in the type of `dtype`.
double tolerance_of(DType dtype);

}  // namespace tessera::testing
