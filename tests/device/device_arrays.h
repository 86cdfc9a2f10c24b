// tests/device/device_arrays.h: one random array twice, on the processor and on the emulated
// device, with the same strides.
#pragma once

#include <random>

#include "kernels/array.h"
#include "placement/status.h"
#include "tests/support/test_device.h"

namespace tessera::testing {

/// A device with its context and its memory.
struct OnDevice {
  std::shared_ptr<Device> device = device_of_card(0);
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
  /// A dense array of the processor and its copy.
  Twins of(const Array& host);
  /// Not negative, and finite.
  Twins squares(const Shape& shape, DType dtype);
  /// Values that the dtype holds, special ones of floating types among them.
  Twins values(const Shape& shape, DType dtype);
  /// The same, perhaps as a slice or a transposed view of something larger.
  Twins view(const Shape& shape, DType dtype);
  /// A view of finite values from −1 to 1, whose products add up without much cancellation.
  Twins mild(const Shape& shape, DType dtype);
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

inline const Array& side(const Twins& twins, bool device) {
  return device ? twins.device : twins.host;
}

inline constexpr DType kAll[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                                 DType::kI64, DType::kI32, DType::kU8,   DType::kBool};
inline constexpr DType kFloating[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};

template <std::size_t N>
DType any_of(TwinMaker& make, const DType (&dtypes)[N]) {
  return dtypes[make.number(0, N - 1)];
}

/// What both do: their results where both have one, else the errors that they give.
template <class F>
std::string compare(OnDevice& on, const Twins& out, double tolerance, F&& run) {
  KernelContext cpu;
  std::string of_cpu, of_device;
  try {
    run(cpu, /*device=*/false);
  } catch (const Error& error) {
    of_cpu = error.what();
  }
  try {
    run(on.ctx, /*device=*/true);
    on.device->raise_faults();
  } catch (const Error& error) {
    of_device = error.what();
  }
  if (of_cpu != of_device) return "\"" + of_device + "\" instead of \"" + of_cpu + "\"";
  return of_cpu.empty() ? difference(fetch(on, out.device), out.host, tolerance) : "";
}

}  // namespace tessera::testing
