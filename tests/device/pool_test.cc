// Pools of the device against the processor's: the same to the last bit.
#include "kernels/pool.h"

#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

using namespace kernels;

/// A window over a whole dim, of which the arrays hold parts; some windows reach beyond them.
struct Held {
  WindowDim window;
  std::int64_t in = 0, out = 0;
};
Held some_window(TwinMaker& make, bool is_partial) {
  Held held;
  WindowDim& window = held.window;
  window.size = make.number(1, 14);
  if (make.number(0, 3) == 0) {
    window.kind = WindowDim::Kind::kAdaptive;
    window.out_size = make.number(1, 16);
  } else {
    window.kernel = make.number(1, 5);
    window.stride = make.number(1, 4);
    window.padding = make.number(0, 3);
    window.dilation = make.number(0, 2) == 0 ? make.number(2, 3) : 1;
    const std::int64_t span = window.dilation * (window.kernel - 1) + 1;
    const std::int64_t room = window.size + 2 * window.padding - span;
    window.out_size = room < 0 ? 0 : room / window.stride + 1;
  }
  held.in = window.size;
  held.out = window.out_size;
  if (is_partial) {
    window.in_start = make.number(0, window.size);
    held.in = make.number(0, window.size - window.in_start);
    window.out_start = make.number(0, window.out_size);
    held.out = make.number(0, window.out_size - window.out_start);
  }
  return held;
}

}  // namespace

TEST_CASE("pools and their gradients are the same on the device", "[device][pool]") {
  OnDevice on;
  TwinMaker make(on, 81);
  for (int i = 0; i < 300; ++i) {
    const Held h = some_window(make, i % 3 == 0), w = some_window(make, i % 3 == 0);
    const WindowPlane window{h.window, w.window};
    Shape shape(static_cast<std::size_t>(make.number(0, 2)), 2), out_shape = shape;
    shape.insert(shape.end(), {h.in, w.in});
    out_shape.insert(out_shape.end(), {h.out, w.out});
    const DType dtype = i % 50 == 0 ? DType::kI32 : any_of(make, kFloating);
    const Twins x = make.view(shape, dtype), grad = make.view(out_shape, dtype),
                out = make.output(out_shape, dtype), places = make.output(out_shape, DType::kI64),
                grad_x = make.output(shape, dtype);
    const Divisor divisor{static_cast<Divisor::Kind>(i % 3), 3.0};
    CAPTURE(i, shape, out_shape, name_of(dtype), h.window.kernel, w.window.kernel);
    CHECK(compare(on, places, 0.0, [&](KernelContext& ctx, bool device) {
            max_pool(ctx, side(x, device), window, side(out, device), side(places, device));
          }) == "");
    if (is_floating(dtype)) CHECK(difference(fetch(on, out.device), out.host, 0.0) == "");
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            max_pool(ctx, side(x, device), window, side(out, device), {});
          }) == "");
    CHECK(compare(on, grad_x, 0.0, [&](KernelContext& ctx, bool device) {
            max_pool_grad(ctx, side(grad, device), side(x, device), window, side(grad_x, device));
          }) == "");
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            avg_pool(ctx, side(x, device), window, divisor, side(out, device));
          }) == "");
    CHECK(compare(on, grad_x, 0.0, [&](KernelContext& ctx, bool device) {
            avg_pool_grad(ctx, side(grad, device), window, divisor, side(grad_x, device));
          }) == "");
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            max_pool(ctx, side(grad_x, device).slice(0, 0, 0), window, side(out, device), {});
          }) == "");
  }
}

TEST_CASE("of several NaN, and of equal elements, the device takes the processor's",
          "[device][pool]") {
  OnDevice on;
  TwinMaker make(on, 82);
  const WindowDim one, three{.kernel = 3, .size = 6, .out_size = 4};
  const std::vector<double> numbers = {NAN, 9, NAN, NAN, 1, 1};
  const Twins x = make.of(Array::from_values({1, 6}, DType::kF32, numbers)),
              places = make.output({1, 4}, DType::kI64), out = make.output({1, 4}, DType::kF32);
  CHECK(compare(on, places, 0.0, [&](KernelContext& ctx, bool device) {
          max_pool(ctx, side(x, device), {one, three}, side(out, device), side(places, device));
        }) == "");
  CHECK(fetch(on, places.device).to_vector() == std::vector<double>{2, 3, 3, 3});
  const std::vector<double> equal = {1, 5, 5, 5, 1, 1};
  const Twins y = make.of(Array::from_values({1, 6}, DType::kF32, equal)),
              ones = make.of(Array::from_values({1, 4}, DType::kF32, std::vector<double>(4, 1.0))),
              grad_y = make.output({1, 6}, DType::kF32);
  CHECK(
      compare(on, grad_y, 0.0, [&](KernelContext& ctx, bool device) {
        max_pool_grad(ctx, side(ones, device), side(y, device), {one, three}, side(grad_y, device));
      }) == "");
  CHECK(fetch(on, grad_y.device).to_vector() == std::vector<double>{0, 2, 1, 1, 0, 0});
}

}  // namespace tessera::testing
