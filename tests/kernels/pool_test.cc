#include "kernels/pool.h"

#include "kernels/take_map.h"
#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using kernels::Divisor;
using kernels::WindowDim;
using kernels::WindowPlane;
using testing::array_in_form;
using testing::context_of;
using testing::empty_in_form;
using testing::error_of;
using testing::Form;
using testing::worst_error;

struct Case {
  std::int64_t planes, height, width;
  WindowDim h, w;
};

WindowDim strided(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                  std::int64_t dilation = 1) {
  return {.kernel = kernel,
          .stride = stride,
          .padding = padding,
          .dilation = dilation,
          .size = size,
          .out_size = (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1};
}
WindowDim adaptive(std::int64_t size, std::int64_t out_size) {
  return {.kind = WindowDim::Kind::kAdaptive, .size = size, .out_size = out_size};
}

/// Positions inside the input that one output reads.
std::vector<std::int64_t> read_by(const WindowDim& window, std::int64_t o) {
  std::vector<std::int64_t> places;
  if (window.kind == WindowDim::Kind::kAdaptive) {
    for (std::int64_t i = 0; i < window.size; ++i) {
      // floor(o·size/out) <= i < ceil((o + 1)·size/out), without division
      if ((i + 1) * window.out_size > o * window.size &&
          i * window.out_size < (o + 1) * window.size) {
        places.push_back(i);
      }
    }
    return places;
  }
  for (std::int64_t k = 0; k < window.kernel; ++k) {
    const std::int64_t i = o * window.stride - window.padding + k * window.dilation;
    if (i >= 0 && i < window.size) places.push_back(i);
  }
  return places;
}

/// f(place in out, places in x) for the windows of all planes.
template <class F>
void for_windows(const Case& c, const F& f) {
  for (std::int64_t p = 0; p < c.planes; ++p) {
    for (std::int64_t y = 0; y < c.h.out_size; ++y) {
      for (std::int64_t z = 0; z < c.w.out_size; ++z) {
        std::vector<std::size_t> places;
        for (const std::int64_t i : read_by(c.h, y)) {
          for (const std::int64_t j : read_by(c.w, z)) {
            places.push_back(static_cast<std::size_t>((p * c.height + i) * c.width + j));
          }
        }
        f(static_cast<std::size_t>((p * c.h.out_size + y) * c.w.out_size + z), places, y, z);
      }
    }
  }
}

std::vector<Case> cases() {
  return {{2, 5, 6, strided(5, 2, 1, 0), strided(6, 3, 2, 1)},
          {3, 7, 4, strided(7, 3, 2, 1, 2), strided(4, 2, 2, 0)},
          {1, 1, 9, strided(1, 1, 1, 0), strided(9, 4, 3, 2)},
          {2, 7, 5, adaptive(7, 3), adaptive(5, 8)}};
}

std::int64_t padded_length(const WindowDim& window, std::int64_t o) {
  const std::int64_t start = o * window.stride - window.padding;
  return std::min(start + window.kernel, window.size + window.padding) - start;
}

}  // namespace

TEST_CASE("pools are the largest and the average of what each window reads", "[kernels][pool]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  const Form form = GENERATE(Form::kPlain, Form::kTransposed, Form::kSpaced);
  const double bound = 8.0 * testing::rounding(dtype);
  for (const Case& c : cases()) {
    CAPTURE(name_of(dtype), int(form), c.height, c.width);
    const Shape shape = {c.planes, c.height, c.width};
    const Shape out_shape = {c.planes, c.h.out_size, c.w.out_size};
    KernelContext ctx = context_of(2);
    const Array x = testing::random_array(shape, dtype, 3, form);
    const Array grad = testing::random_array(out_shape, dtype, 4, form);
    const std::vector<double> in = x.to_vector(), given = grad.to_vector();
    std::vector<double> most(given.size()), average(given.size()), padded(given.size());
    std::vector<double> grad_most(in.size()), grad_average(in.size());
    std::vector<std::int64_t> places_of_most(given.size());
    for_windows(c, [&](std::size_t o, const std::vector<std::size_t>& places, std::int64_t y,
                       std::int64_t z) {
      std::size_t best = places[0];
      double sum = 0.0;
      for (const std::size_t place : places) {
        if (in[place] > in[best]) best = place;
        sum += in[place];
      }
      most[o] = in[best];
      places_of_most[o] = static_cast<std::int64_t>(best) % (c.height * c.width);
      average[o] = sum / static_cast<double>(places.size());
      padded[o] = sum / static_cast<double>(padded_length(c.h, y) * padded_length(c.w, z));
      grad_most[best] += given[o];
      for (const std::size_t place : places) {
        grad_average[place] += given[o] / static_cast<double>(places.size());
      }
    });
    const WindowPlane plane{c.h, c.w};
    const Array got = empty_in_form(out_shape, dtype, form);
    const Array indices = empty_in_form(out_shape, DType::kI64, form);
    kernels::max_pool(ctx, x, plane, got, indices);
    CHECK(got.to_vector() == most);
    CHECK(indices.to_vector() == std::vector<double>(places_of_most.begin(), places_of_most.end()));
    const Array got_x = empty_in_form(shape, dtype, form);
    kernels::max_pool_grad(ctx, grad, x, plane, got_x);
    CHECK(worst_error(got_x.to_vector(), grad_most) <= bound);
    if (c.h.dilation != 1) continue;  // averages take neighbours only
    kernels::avg_pool(ctx, x, plane, {}, got);
    CHECK(worst_error(got.to_vector(), average) <= bound);
    kernels::avg_pool_grad(ctx, grad, plane, {}, got_x);
    CHECK(worst_error(got_x.to_vector(), grad_average) <= bound);
    if (c.h.kind == WindowDim::Kind::kAdaptive) continue;
    kernels::avg_pool(ctx, x, plane, {Divisor::Kind::kPadded}, got);
    CHECK(worst_error(got.to_vector(), padded) <= bound);
  }
}

TEST_CASE("a pool's maximum is NaN where its window has one", "[kernels][pool]") {
  KernelContext ctx = context_of(1);
  const Array x = Array::from_values({1, 4}, DType::kF32, std::vector<double>{1, NAN, 3, 2});
  const Array out = Array::zeros({1, 3}, DType::kF32);
  kernels::max_pool(ctx, x, {strided(1, 1, 1, 0), strided(4, 2, 1, 0)}, out, {});
  const std::vector<double> values = out.to_vector();
  CHECK(std::isnan(values[0]));
  CHECK(std::isnan(values[1]));
  CHECK(values[2] == 3.0);
}

TEST_CASE("of several NaN the last is the place of a pool's maximum", "[kernels][pool]") {
  KernelContext ctx = context_of(1);
  const Array x = Array::from_values({1, 5}, DType::kF32, std::vector<double>{NAN, 9, NAN, NAN, 1});
  const Array out = Array::zeros({1, 3}, DType::kF32), places = Array::zeros({1, 3}, DType::kI64);
  kernels::max_pool(ctx, x, {strided(1, 1, 1, 0), strided(5, 3, 1, 0)}, out, places);
  CHECK(places.to_vector() == std::vector<double>{2, 3, 3});
}

TEST_CASE("places are taken along a dim, and sums go back to them", "[kernels][take_map]") {
  KernelContext ctx = context_of(1);
  const Form form = GENERATE(Form::kPlain, Form::kTransposed, Form::kSpaced);
  const Array x = array_in_form({2, 3}, DType::kF64, form, {1, 2, 3, 4, 5, 6});
  const std::vector<std::int64_t> places = {-1, 2, 1, 1, 2, -1};
  const Array out = empty_in_form({2, 6}, DType::kF64, form);
  kernels::take_map(ctx, x, 1, places, 9.0, out);
  CHECK(out.to_vector() == std::vector<double>{9, 3, 2, 2, 3, 9, 9, 6, 5, 5, 6, 9});
  const Array sums = Array::zeros({2, 3}, DType::kF64);
  kernels::add_map(ctx, out, 1, places, sums);
  CHECK(sums.to_vector() == std::vector<double>{0, 4, 6, 0, 10, 12});
  const std::vector<std::int64_t> outside = {0, 3};
  CHECK(error_of([&] {
          kernels::take_map(ctx, x, 1, outside, 0.0, Array::zeros({2, 2}, x.dtype()));
        }) == "take_map: place 1 is 3; allowed are -1 … 2");
}

}  // namespace tessera
