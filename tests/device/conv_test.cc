// Convolutions of the device against the processor's.
#include "kernels/conv.h"

#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

using namespace kernels;

/// A window over parts of larger dims: what it reads may lie outside.
WindowDim window_of(TwinMaker& make, std::int64_t kernel) {
  WindowDim dim{.kernel = kernel};
  if (make.number(0, 7) == 0) dim.kind = WindowDim::Kind::kAdaptive;
  dim.stride = make.number(1, 3);
  dim.padding = make.number(0, 3);
  dim.dilation = make.number(1, 2);
  dim.size = make.number(1, 12);
  dim.out_size = make.number(1, 12);
  dim.in_start = make.number(0, 3);
  dim.out_start = make.number(0, 2);
  return dim;
}

struct ConvCase {
  WindowPlane window;
  Shape x, weight, out;
  DType dtype;
};
ConvCase conv_case(TwinMaker& make, int i) {
  const auto size = [&](std::int64_t most) {
    return make.number(0, 25) == 0 ? 0 : make.number(1, most);
  };
  const std::int64_t groups = make.number(1, 3), in = size(3), out = size(3), batch = size(3);
  const std::int64_t kernel_h = size(3), kernel_w = size(3);
  ConvCase c{{window_of(make, kernel_h), window_of(make, kernel_w)},
             {batch, groups * in, size(8), size(8)},
             {groups * out, in, kernel_h, kernel_w},
             {batch, groups * out, size(6), size(6)},
             any_of(make, kFloating)};
  if (i % 30 == 0) c.out[1] += 1;
  if (i % 30 == 1) c.x[0] += 1;
  return c;
}

double tolerance_for(DType dtype) { return (is_half(dtype) ? 2 : 20) * tolerance_of(dtype); }

}  // namespace

TEST_CASE("convolutions and their gradients are the same on the device", "[device][conv]") {
  OnDevice on;
  TwinMaker make(on, 71);
  for (int i = 0; i < 400; ++i) {
    const ConvCase c = conv_case(make, i);
    const Twins x = make.mild(c.x, c.dtype), weight = make.mild(c.weight, c.dtype),
                grad = make.mild(c.out, c.dtype);
    const Twins out = make.output(c.out, c.dtype), grad_x = make.output(c.x, c.dtype),
                grad_weight = make.output(c.weight, c.dtype);
    CAPTURE(i, c.x, c.weight, c.out, name_of(c.dtype), static_cast<int>(c.window.h.kind),
            c.window.h.stride, c.window.h.padding, c.window.h.dilation, c.window.h.in_start,
            c.window.h.out_start);
    CHECK(compare(on, out, tolerance_for(c.dtype), [&](KernelContext& ctx, bool device) {
            conv2d(ctx, side(x, device), side(weight, device), c.window, side(out, device));
          }) == "");
    CHECK(compare(on, grad_x, tolerance_for(c.dtype), [&](KernelContext& ctx, bool device) {
            conv2d_input_grad(ctx, side(grad, device), side(weight, device), c.window,
                              side(grad_x, device));
          }) == "");
    CHECK(compare(on, grad_weight, tolerance_for(c.dtype), [&](KernelContext& ctx, bool device) {
            conv2d_weight_grad(ctx, side(grad, device), side(x, device), c.window,
                               side(grad_weight, device));
          }) == "");
  }
}

TEST_CASE("convolutions refuse other dtypes and dims as the processor does", "[device][conv]") {
  OnDevice on;
  TwinMaker make(on, 72);
  const Twins x = make.mild({1, 2, 5, 5}, DType::kF32), half = make.mild({1, 2, 5, 5}, DType::kF16),
              flat = make.mild({2, 5, 5}, DType::kF32),
              whole = make.values({1, 2, 5, 5}, DType::kI32);
  const Twins weight = make.mild({4, 2, 3, 3}, DType::kF32),
              out = make.output({1, 4, 3, 3}, DType::kF32);
  const WindowPlane window{{.kernel = 3, .size = 5, .out_size = 3},
                           {.kernel = 3, .size = 5, .out_size = 3}};
  for (const Twins& input : {x, half, flat, whole}) {
    CHECK(compare(on, out, 1e-5, [&](KernelContext& ctx, bool device) {
            conv2d(ctx, side(input, device), side(weight, device), window, side(out, device));
          }) == "");
    CHECK(compare(on, out, 1e-5, [&](KernelContext& ctx, bool device) {
            conv2d_weight_grad(ctx, side(out, device), side(input, device), window,
                               side(weight, device));
          }) == "");
    CHECK(compare(on, out, 1e-5, [&](KernelContext& ctx, bool device) {
            conv2d_input_grad(ctx, side(out, device), side(weight, device), window,
                              side(input, device));
          }) == "");
  }
}

TEST_CASE("a convolution over many pixels sums as the processor does", "[device][conv]") {
  OnDevice on;
  TwinMaker make(on, 73);
  const WindowPlane window{{.kernel = 3, .padding = 1, .size = 40, .out_size = 40},
                           {.kernel = 3, .padding = 1, .size = 40, .out_size = 40}};
  const Twins x = make.mild({2, 2, 40, 40}, DType::kF32),
              weight = make.mild({2, 2, 3, 3}, DType::kF32),
              out = make.output({2, 2, 40, 40}, DType::kF32);
  CHECK(compare(on, out, 2e-5, [&](KernelContext& ctx, bool device) {
          conv2d(ctx, side(x, device), side(weight, device), window, side(out, device));
        }) == "");
  CHECK(compare(on, weight, 2e-5, [&](KernelContext& ctx, bool device) {
          conv2d_weight_grad(ctx, side(out, device), side(x, device), window, side(weight, device));
        }) == "");
}

}  // namespace tessera::testing
