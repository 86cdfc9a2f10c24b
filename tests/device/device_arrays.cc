#include "tests/device/device_arrays.h"

#include <cmath>
#include <limits>

#include "kernels/elementwise.h"

namespace tessera::testing {

Twins TwinMaker::values(const Shape& shape, DType dtype) {
  constexpr double kSpecial[] = {0.0,
                                 -0.0,
                                 1.0,
                                 -1.0,
                                 0.5,
                                 88.0,
                                 -104.0,
                                 std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity(),
                                 std::numeric_limits<double>::quiet_NaN()};
  std::vector<double> numbers(static_cast<std::size_t>(num_elements(shape)));
  for (double& value : numbers) {
    if (!is_floating(dtype)) {
      value = dtype == DType::kBool ? double(number(0, 1))
                                    : double(number(dtype == DType::kU8 ? 0 : -9, 9));
    } else if (number(0, 9) == 0) {
      value = kSpecial[number(0, std::ssize(kSpecial) - 1)];
    } else {
      value = std::normal_distribution<double>(0.0, 2.0)(random_);
    }
  }
  return of(Array::from_values(shape, dtype, numbers));
}

Twins TwinMaker::squares(const Shape& shape, DType dtype) {
  std::vector<double> numbers(static_cast<std::size_t>(num_elements(shape)));
  for (double& value : numbers) value = std::uniform_real_distribution<double>(0.0, 3.0)(random_);
  return of(Array::from_values(shape, dtype, numbers));
}

Twins TwinMaker::of(const Array& host) {
  const Shape& shape = host.shape();
  const DType dtype = host.dtype();
  const Array device = Array::empty(shape, dtype, on_.memory);
  on_.device->copy(device.bytes(), host.bytes(), static_cast<std::size_t>(host.num_bytes()),
                   on_.device->compute());
  on_.finish();
  return {host, device};
}

Twins TwinMaker::view(const Shape& shape, DType dtype) {
  const int ndim = static_cast<int>(shape.size());
  if (ndim == 0 || number(0, 2) == 0) return values(shape, dtype);
  Shape larger = shape;
  const auto dim = static_cast<int>(number(0, ndim - 1));
  const std::int64_t size = shape[static_cast<std::size_t>(dim)], before = number(0, 3);
  larger[static_cast<std::size_t>(dim)] = before + size + number(0, 3);
  const auto a = static_cast<int>(number(0, ndim - 1)), b = static_cast<int>(number(0, ndim - 1));
  std::swap(larger[static_cast<std::size_t>(a)], larger[static_cast<std::size_t>(b)]);
  const Twins whole = values(larger, dtype);
  const auto part = [&](const Array& array) {
    return array.transpose(a, b).slice(dim, before, before + size);
  };
  return {part(whole.host), part(whole.device)};
}

Twins TwinMaker::mild(const Shape& shape, DType dtype) {
  std::vector<double> numbers(static_cast<std::size_t>(num_elements(shape)));
  for (double& value : numbers) value = std::uniform_real_distribution<double>(-1.0, 1.0)(random_);
  const Twins dense = of(Array::from_values(shape, dtype, numbers)), lying = view(shape, dtype);
  KernelContext cpu;
  kernels::copy(cpu, dense.host, lying.host);
  kernels::copy(on_.ctx, dense.device, lying.device);
  return lying;
}

Twins TwinMaker::broadcast(const Shape& shape, DType dtype) {
  Shape smaller(shape.begin() + number(0, std::ssize(shape)), shape.end());
  for (std::int64_t& size : smaller) {
    if (number(0, 3) == 0) size = 1;
  }
  return view(smaller, dtype);
}

Array fetch(OnDevice& on, const Array& array) {
  const Array dense = Array::empty(array.shape(), array.dtype(), on.memory);
  kernels::copy(on.ctx, array, dense);
  Array host = Array::empty(array.shape(), array.dtype());
  on.device->copy(host.bytes(), dense.bytes(), static_cast<std::size_t>(host.num_bytes()),
                  on.device->compute());
  on.finish();
  return host;
}

std::string difference(const Array& got, const Array& expected, double tolerance) {
  if (got.shape() != expected.shape() || got.dtype() != expected.dtype())
    return "another shape or dtype";
  const std::vector<double> a = got.to_vector(), b = expected.to_vector();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double limit = is_floating(got.dtype())
                             ? tolerance * std::max(1.0, std::max(std::fabs(a[i]), std::fabs(b[i])))
                             : 0.0;
    if (std::isfinite(a[i]) && std::isfinite(b[i]) && std::fabs(a[i] - b[i]) <= limit) continue;
    return "element " + std::to_string(i) + " of " + to_string(got.shape()) + ": " +
           std::to_string(a[i]) + " instead of " + std::to_string(b[i]);
  }
  return "";
}

double tolerance_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 1e-14;
    case DType::kF32:
      return 2e-6;
    case DType::kBF16:
      return 1.0 / 128;
    case DType::kF16:
      return 1.0 / 1024;
    default:
      return 0.0;
  }
}

}  // namespace tessera::testing
