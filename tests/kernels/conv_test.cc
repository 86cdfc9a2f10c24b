#include "kernels/conv.h"

#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using kernels::WindowDim;
using kernels::WindowPlane;
using testing::array_in_form;
using testing::context_of;
using testing::empty_in_form;
using testing::error_of;
using testing::Form;
using testing::worst_error;

struct Case {
  Shape x, weight;
  std::int64_t stride_h = 1, stride_w = 1, padding_h = 0, padding_w = 0, dilation_h = 1,
               dilation_w = 1;

  WindowDim h() const { return window(2, stride_h, padding_h, dilation_h); }
  WindowDim w() const { return window(3, stride_w, padding_w, dilation_w); }
  WindowPlane plane() const { return {h(), w()}; }
  Shape out() const { return {x[0], weight[0], h().out_size, w().out_size}; }

 private:
  WindowDim window(std::size_t dim, std::int64_t stride, std::int64_t padding,
                   std::int64_t dilation) const {
    const std::int64_t span = x[dim] + 2 * padding - dilation * (weight[dim] - 1) - 1;
    return {.kernel = weight[dim],
            .stride = stride,
            .padding = padding,
            .dilation = dilation,
            .size = x[dim],
            .out_size = span / stride + 1};
  }
};

std::size_t at(const Shape& shape, std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
  return static_cast<std::size_t>(((a * shape[1] + b) * shape[2] + c) * shape[3] + d);
}

/// f(place in out, place in x, place in weight) for every product of the convolution.
template <class F>
void for_products(const Case& c, const F& f) {
  const Shape out = c.out();
  const std::int64_t groups = c.x[1] / c.weight[1], outputs = c.weight[0] / groups;
  for (std::int64_t n = 0; n < out[0]; ++n) {
    for (std::int64_t o = 0; o < out[1]; ++o) {
      for (std::int64_t y = 0; y < out[2]; ++y) {
        for (std::int64_t z = 0; z < out[3]; ++z) {
          for (std::int64_t ic = 0; ic < c.weight[1]; ++ic) {
            for (std::int64_t i = 0; i < c.weight[2]; ++i) {
              for (std::int64_t j = 0; j < c.weight[3]; ++j) {
                const std::int64_t row = y * c.stride_h - c.padding_h + i * c.dilation_h;
                const std::int64_t column = z * c.stride_w - c.padding_w + j * c.dilation_w;
                if (row < 0 || row >= c.x[2] || column < 0 || column >= c.x[3]) continue;
                f(at(out, n, o, y, z), at(c.x, n, o / outputs * c.weight[1] + ic, row, column),
                  at(c.weight, o, ic, i, j));
              }
            }
          }
        }
      }
    }
  }
}

/// Small integers: sums are exact in every type but for the last rounding.
std::vector<double> small_integers(const Shape& shape, unsigned seed) {
  std::vector<double> values = testing::random_values(num_elements(shape), seed);
  for (double& value : values) value = std::floor(value * 4.0);
  return values;
}

std::vector<Case> cases() {
  return {{.x = {1, 1, 1, 1}, .weight = {1, 1, 1, 1}},
          {.x = {2, 3, 5, 7}, .weight = {4, 3, 3, 2}},
          {.x = {2, 4, 6, 5}, .weight = {6, 2, 3, 3}, .padding_h = 1, .padding_w = 2},
          {.x = {1, 2, 9, 8}, .weight = {2, 1, 2, 3}, .stride_h = 2, .stride_w = 3, .padding_h = 1},
          {.x = {2, 3, 9, 9},
           .weight = {3, 3, 3, 2},
           .stride_w = 2,
           .padding_h = 2,
           .padding_w = 1,
           .dilation_h = 2,
           .dilation_w = 3},
          {.x = {1, 5, 1, 11}, .weight = {2, 5, 1, 4}, .stride_w = 2, .padding_w = 3}};
}

TEST_CASE("a convolution and its cotangents are the sums of their products", "[kernels][conv]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  const Form form = GENERATE(Form::kPlain, Form::kTransposed, Form::kSpaced);
  const double bound = 1.01 * testing::rounding(dtype);
  unsigned seed = 0;
  for (const Case& c : cases()) {
    CAPTURE(name_of(dtype), int(form), to_string(c.x), to_string(c.weight));
    const std::vector<double> x = small_integers(c.x, ++seed);
    const std::vector<double> weight = small_integers(c.weight, ++seed);
    const std::vector<double> grad = small_integers(c.out(), ++seed);
    std::vector<double> out(grad.size()), grad_x(x.size()), grad_weight(weight.size());
    for_products(c, [&](std::size_t o, std::size_t i, std::size_t w) {
      out[o] += x[i] * weight[w];
      grad_x[i] += grad[o] * weight[w];
      grad_weight[w] += grad[o] * x[i];
    });
    KernelContext ctx = context_of(2);
    const Array in = array_in_form(c.x, dtype, form, x);
    const Array kernel = array_in_form(c.weight, dtype, form, weight);
    const Array given = array_in_form(c.out(), dtype, form, grad);
    const Array got = empty_in_form(c.out(), dtype, form);
    kernels::conv2d(ctx, in, kernel, c.plane(), got);
    CHECK(worst_error(got.to_vector(), out) <= bound);
    const Array got_x = empty_in_form(c.x, dtype, form);
    kernels::conv2d_input_grad(ctx, given, kernel, c.plane(), got_x);
    CHECK(worst_error(got_x.to_vector(), grad_x) <= bound);
    const Array got_weight = empty_in_form(c.weight, dtype, form);
    kernels::conv2d_weight_grad(ctx, given, in, c.plane(), got_weight);
    CHECK(worst_error(got_weight.to_vector(), grad_weight) <= bound);
  }
}

TEST_CASE("a convolution of a part and its halo is that part of the convolution",
          "[kernels][conv]") {
  KernelContext ctx = context_of(1);
  for (const Case& c : cases()) {
    CAPTURE(to_string(c.x), to_string(c.weight));
    const Array x = Array::from_values(c.x, DType::kF64, small_integers(c.x, 1));
    const Array weight = Array::from_values(c.weight, DType::kF64, small_integers(c.weight, 2));
    const Array whole = Array::zeros(c.out(), DType::kF64);
    kernels::conv2d(ctx, x, weight, c.plane(), whole);
    for (std::int64_t start = 0; start < c.out()[2]; ++start) {
      const std::int64_t stop = std::min(start + 2, c.out()[2]);
      WindowPlane plane = c.plane();
      const Interval halo = plane.h.inputs_of({start, stop});
      plane.h.out_start = start;
      plane.h.in_start = halo.start;
      Shape shape = c.out();
      shape[2] = stop - start;
      const Array part = Array::zeros(shape, DType::kF64);
      kernels::conv2d(ctx, x.slice(2, halo.start, halo.stop), weight, plane, part);
      CHECK(part.to_vector() == whole.slice(2, start, stop).to_vector());
    }
  }
}

TEST_CASE("a convolution names shapes and dtypes that do not fit", "[kernels][conv]") {
  KernelContext ctx = context_of(1);
  const Array x = Array::zeros({1, 3, 4, 4}, DType::kF32);
  const Array weight = Array::zeros({2, 2, 3, 3}, DType::kF32);
  const Array out = Array::zeros({1, 2, 2, 2}, DType::kF32);
  CHECK(error_of([&] { kernels::conv2d(ctx, x, weight, {}, out); }) ==
        "conv2d: input F32 [1, 3, 4, 4], weight F32 [2, 2, 3, 3], result F32 [1, 2, 2, 2]; wanted "
        "[N, C, H, W], [O, C / groups, KH, KW] and [N, O, OH, OW] of one floating dtype");
}

TEST_CASE("windows know which inputs they read and which outputs read an input",
          "[kernels][window]") {
  const std::vector<WindowDim> windows = {
      {.kernel = 3, .stride = 2, .padding = 1, .dilation = 2, .size = 11, .out_size = 5},
      {.kernel = 2, .stride = 3, .padding = 0, .dilation = 1, .size = 11, .out_size = 4},
      {.kind = WindowDim::Kind::kAdaptive, .size = 11, .out_size = 4},
      {.kind = WindowDim::Kind::kAdaptive, .size = 3, .out_size = 7}};
  for (const WindowDim& window : windows) {
    for (std::int64_t o = 0; o < window.out_size; ++o) {
      const Interval read = window.inputs_of({o, o + 1});
      for (std::int64_t i = 0; i < window.size; ++i) {
        const bool spans = i >= window.begin(o) && i < window.end(o);
        CAPTURE(o, i, window.size);
        CHECK((i >= read.start && i < read.stop) == spans);
        const Interval readers = window.outputs_of({i, i + 1});
        CHECK((o >= readers.start && o < readers.stop) == spans);
      }
    }
  }
}

}  // namespace
}  // namespace tessera
