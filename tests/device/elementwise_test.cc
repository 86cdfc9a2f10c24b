// Elementwise kernels of the device against the processor's, on random shapes, strides and dtypes.
#include "kernels/elementwise.h"

#include <limits>

#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

using namespace kernels;

constexpr int kCases = 200;

}  // namespace

TEST_CASE("the device copies between all dtypes, strides and broadcasts", "[device][copy]") {
  OnDevice on;
  TwinMaker make(on, 1);
  for (int i = 0; i < 2 * kCases; ++i) {
    const Shape shape = make.shape();
    const DType from = any_of(make, kAll);
    const DType to = make.number(0, 1) == 0 ? from : any_of(make, kAll);
    const Twins in = make.broadcast(shape, from), out = make.output(shape, to);
    CAPTURE(i, shape, name_of(from), name_of(to));
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            copy(ctx, side(in, device), side(out, device));
          }) == "");
  }
}

TEST_CASE("a copy moves bits: payloads of NaN, and negative zero", "[device][copy]") {
  OnDevice on;
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16, DType::kF16);
  const auto bytes = static_cast<std::size_t>(12 * size_of(dtype));
  const Array host = Array::empty({3, 4}, dtype);
  for (std::size_t i = 0; i < bytes; ++i)
    host.bytes()[i] = static_cast<std::byte>(0xff - 3 * i % 2);
  const Array device = Array::empty({3, 4}, dtype, on.memory),
              turned = Array::empty({4, 3}, dtype, on.memory);
  on.device->copy(device.bytes(), host.bytes(), bytes, on.device->compute());
  copy(on.ctx, device.transpose(0, 1), turned);
  const Array back = fetch(on, turned.transpose(0, 1));
  CHECK(std::equal(back.bytes(), back.bytes() + bytes, host.bytes()));
}

namespace {

/// A view of `shape` that begins `first` elements behind its storage, whose rows have `gap`
/// elements between them; perhaps from its last row up.
Twins in_rows(TwinMaker& make, const Shape& shape, DType dtype, std::int64_t first,
              std::int64_t gap, bool is_reversed) {
  const std::int64_t pitch = shape[1] + gap, up = is_reversed ? -pitch : pitch;
  const std::int64_t origin = first + (is_reversed ? pitch * (shape[0] - 1) : 0);
  const Twins all = make.values({first + pitch * shape[0]}, dtype);
  const auto view = [&](const Array& array) { return array.as_strided(shape, {up, 1}, origin); };
  return {view(all.host), view(all.device)};
}

}  // namespace

TEST_CASE("words and packs of rows: starts, gaps and lengths that hold them or not",
          "[device][copy][binary]") {
  OnDevice on;
  TwinMaker make(on, 11);
  constexpr std::int64_t kStarts[] = {0, 1, 2, 4, 8, 16}, kLengths[] = {1, 7, 8, 16, 24, 33};
  for (int i = 0; i < kCases; ++i) {
    const Shape shape = {make.number(1, 9), kLengths[make.number(0, 5)]};
    const DType dtype = any_of(make, kAll), other = any_of(make, kFloating);
    const auto some = [&](DType of) {
      return in_rows(make, shape, of, kStarts[make.number(0, 5)], kStarts[make.number(0, 5)],
                     make.number(0, 1) == 0);
    };
    const Twins a = some(dtype), b = some(other), same = some(dtype), out = some(other);
    const Twins column = make.values({shape[0], 1}, dtype);
    CAPTURE(i, shape, name_of(dtype), name_of(other));
    CHECK(compare(on, same, 0.0, [&](KernelContext& ctx, bool device) {
            copy(ctx, side(a, device), side(same, device));
          }) == "");
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            copy(ctx, side(a, device), side(out, device));
          }) == "");
    CHECK(compare(on, out, tolerance_of(other), [&](KernelContext& ctx, bool device) {
            binary(ctx, Binary::kMaximum, side(b, device), side(column, device), side(out, device));
          }) == "");
    CHECK(compare(on, same, 0.0, [&](KernelContext& ctx, bool device) {
            fill(ctx, 3.0, side(same, device));
          }) == "");
  }
}

TEST_CASE("a transposed copy goes by tiles, whole or not, of words of every size",
          "[device][copy]") {
  OnDevice on;
  TwinMaker make(on, 12);
  for (int i = 0; i < kCases; ++i) {
    const Shape shape = {make.number(1, 3), make.number(3, 13), make.number(1, 3),
                         make.number(3, 13)};
    const DType dtype = any_of(make, kAll);
    const Twins in = make.view({shape[3], shape[0], shape[2], shape[1]}, dtype);
    const Twins out = make.output(shape, dtype);
    const auto turned = [](const Array& x) { return x.transpose(0, 1).transpose(1, 3); };
    CAPTURE(i, shape, name_of(dtype));
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            copy(ctx, turned(side(in, device)), side(out, device));
          }) == "");
  }
}

TEST_CASE("a fill of long arrays: words and what is behind the last", "[device][fill]") {
  OnDevice on;
  TwinMaker make(on, 13);
  for (const DType dtype : kAll) {
    for (const std::int64_t size : {1, 15, 16, 17, 100, 1001}) {
      const Twins all = make.values({size + 1}, dtype);
      const std::int64_t first = make.number(0, 1);
      CAPTURE(name_of(dtype), size, first);
      CHECK(compare(on, all, 0.0, [&](KernelContext& ctx, bool device) {
              fill(ctx, 1.7, side(all, device).slice(0, first, size));
            }) == "");
    }
  }
}

TEST_CASE("a copy covers more dims than a launch", "[device][copy]") {
  OnDevice on;
  TwinMaker make(on, 2);
  const Shape shape(11, 2);
  const Twins in = make.values(shape, DType::kF32), out = make.values(shape, DType::kF32);
  const auto reversed = [](Array array) {
    for (int d = 0; d < 5; ++d) array = array.transpose(d, 10 - d);
    return array;
  };
  CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
          copy(ctx, reversed(side(in, device)), side(out, device));
        }) == "");
}

TEST_CASE("the device fills and counts", "[device][fill]") {
  OnDevice on;
  TwinMaker make(on, 3);
  for (int i = 0; i < kCases; ++i) {
    const DType dtype = any_of(make, kAll);
    const Shape shape = make.shape();
    const double value = i % 7 == 0 ? std::numeric_limits<double>::quiet_NaN()
                                    : 3.7 * static_cast<double>(make.number(-9, 9));
    const Twins out = make.output(shape, dtype), line = make.output({make.number(0, 50)}, dtype);
    CAPTURE(i, shape, name_of(dtype), value);
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            fill(ctx, value, side(out, device));
          }) == "");
    CHECK(compare(on, line, 0.0, [&](KernelContext& ctx, bool device) {
            arange(ctx, value, 0.5, side(line, device));
          }) == "");
  }
}

TEST_CASE("functions of one operand are the same on the device", "[device][unary]") {
  OnDevice on;
  TwinMaker make(on, 4);
  const auto op = static_cast<Unary>(GENERATE(range(0, static_cast<int>(Unary::kIsNan) + 1)));
  for (int i = 0; i < 60; ++i) {
    const Shape shape = make.shape();
    const DType dtype = any_of(make, kAll),
                to = make.number(0, 2) == 0 ? any_of(make, kAll) : dtype;
    const Twins in = make.broadcast(shape, dtype), out = make.output(shape, to);
    CAPTURE(static_cast<int>(op), i, shape, name_of(dtype), name_of(to));
    CHECK(compare(on, out, tolerance_of(to), [&](KernelContext& ctx, bool device) {
            unary(ctx, op, side(in, device), side(out, device));
          }) == "");
  }
}

TEST_CASE("functions of two operands are the same on the device", "[device][binary]") {
  OnDevice on;
  TwinMaker make(on, 5);
  const auto op = static_cast<Binary>(GENERATE(range(0, static_cast<int>(Binary::kGeluGrad) + 1)));
  for (int i = 0; i < 60; ++i) {
    const Shape shape = make.shape();
    const DType dtype = any_of(make, kAll);
    const DType second = make.number(0, 2) == 0 ? any_of(make, kAll) : dtype;
    const DType to = make.number(0, 2) == 0 ? any_of(make, kAll) : promote(dtype, second);
    const Twins a = make.broadcast(shape, dtype), b = make.broadcast(shape, second),
                out = make.output(shape, to);
    CAPTURE(static_cast<int>(op), i, shape, name_of(dtype), name_of(second), name_of(to));
    CHECK(compare(on, out, 4 * tolerance_of(to), [&](KernelContext& ctx, bool device) {
            binary(ctx, op, side(a, device), side(b, device), side(out, device));
          }) == "");
    const double scalar = i % 5 == 0 ? 0.0 : static_cast<double>(make.number(-6, 6)) / (i % 2 + 1);
    CAPTURE(scalar);
    CHECK(compare(on, out, 4 * tolerance_of(to), [&](KernelContext& ctx, bool device) {
            binary_scalar(ctx, op, side(a, device), scalar, side(out, device));
          }) == "");
  }
}

TEST_CASE("integers divide on the device, and a divisor 0 is an error", "[device][binary]") {
  OnDevice on;
  TwinMaker make(on, 8);
  constexpr DType kIntegers[] = {DType::kI64, DType::kI32, DType::kU8};
  const Binary op = GENERATE(Binary::kFloorDivide, Binary::kRemainder);
  for (int i = 0; i < kCases; ++i) {
    const Shape shape = make.shape();
    const DType dtype = any_of(make, kIntegers), second = any_of(make, kIntegers);
    std::vector<double> divisors(static_cast<std::size_t>(num_elements(shape)));
    for (double& each : divisors) {
      do {
        each = static_cast<double>(make.number(second == DType::kU8 ? 1 : -4, 5));
      } while (each == 0.0);
    }
    if (i % 5 == 0 && !divisors.empty()) {
      divisors[static_cast<std::size_t>(make.number(0, std::ssize(divisors) - 1))] = 0.0;
    }
    const Twins a = make.broadcast(shape, dtype),
                b = make.of(Array::from_values(shape, second, divisors)),
                out = make.output(shape, i % 7 == 0 ? DType::kF32 : promote(dtype, second));
    CAPTURE(static_cast<int>(op), i, shape, name_of(dtype), name_of(second));
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            binary(ctx, op, side(a, device), side(b, device), side(out, device));
          }) == "");
  }
  const std::vector<double> least = {-9223372036854775808.0, -7}, minus_one = {-1, -1};
  const Twins a = make.of(Array::from_values({2}, DType::kI64, least)),
              b = make.of(Array::from_values({2}, DType::kI64, minus_one)),
              out = make.output({2}, DType::kI64);
  CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
          binary(ctx, op, side(a, device), side(b, device), side(out, device));
        }) == "");
}

TEST_CASE("choices and bounds are the same on the device", "[device][where]") {
  OnDevice on;
  TwinMaker make(on, 6);
  for (int i = 0; i < kCases; ++i) {
    const Shape shape = make.shape();
    const DType dtype = any_of(make, kAll),
                second = make.number(0, 1) == 0 ? dtype : any_of(make, kAll);
    const DType to = make.number(0, 1) == 0 ? dtype : any_of(make, kAll);
    const Twins mask = make.broadcast(shape, i % 20 == 0 ? DType::kI32 : DType::kBool);
    const Twins a = make.broadcast(shape, dtype), b = make.broadcast(shape, second),
                out = make.output(shape, to);
    const double low = i % 9 == 0 ? std::numeric_limits<double>::quiet_NaN()
                                  : static_cast<double>(make.number(-8, 4)) / 2;
    const double high = low + static_cast<double>(make.number(-1, 6)) / 2;
    CAPTURE(i, shape, name_of(dtype), name_of(second), name_of(to), low, high);
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            where(ctx, side(mask, device), side(a, device), side(b, device), side(out, device));
          }) == "");
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            masked_fill(ctx, side(a, device), side(mask, device), high, side(out, device));
          }) == "");
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            clamp(ctx, side(a, device), low, high, side(out, device));
          }) == "");
  }
}

TEST_CASE("swiglu and its gradients are the same on the device", "[device][swiglu]") {
  OnDevice on;
  TwinMaker make(on, 7);
  for (int i = 0; i < kCases; ++i) {
    const Shape shape = make.shape();
    const DType dtype = i % 25 == 0 ? DType::kI32 : any_of(make, kFloating);
    const Twins gate = make.view(shape, dtype), up = make.view(shape, dtype),
                grad = make.view(shape, dtype);
    const Twins out = make.output(shape, dtype), grad_gate = make.output(shape, dtype),
                grad_up = make.output(shape, dtype);
    const double tolerance = 8 * tolerance_of(dtype);
    CAPTURE(i, shape, name_of(dtype));
    CHECK(compare(on, out, tolerance, [&](KernelContext& ctx, bool device) {
            swiglu(ctx, side(gate, device), side(up, device), side(out, device));
          }) == "");
    CHECK(compare(on, grad_gate, tolerance, [&](KernelContext& ctx, bool device) {
            swiglu_grad(ctx, side(grad, device), side(gate, device), side(up, device),
                        side(grad_gate, device), side(grad_up, device));
          }) == "");
    if (is_floating(dtype))
      CHECK(difference(fetch(on, grad_up.device), grad_up.host, tolerance) == "");
  }
}

}  // namespace tessera::testing
