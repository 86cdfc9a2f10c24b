#include "kernels/row_select.h"

#include <algorithm>

#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using namespace kernels;  // the functions under test
using testing::Form;
using testing::random_array;
using testing::worst_error;
using Values = std::vector<double>;

const double kNan = std::nan("");

struct Picked {
  Values values, indices;
};
template <class Kernel>
Picked picked(const Array& x, const Kernel& kernel) {
  KernelContext ctx;
  const Shape kept(x.shape().begin(), x.shape().end() - 1);
  const Array values = Array::empty(kept, x.dtype()), indices = Array::empty(kept, DType::kI64);
  kernel(ctx, values, indices);
  return {values.to_vector(), indices.to_vector()};
}
Picked median_of(NanRows nan, const Array& x) {
  return picked(x, [&](KernelContext& ctx, const Array& values, const Array& indices) {
    median(ctx, nan, x, values, indices);
  });
}
Picked mode_of(const Array& x) {
  return picked(x, [&](KernelContext& ctx, const Array& values, const Array& indices) {
    mode(ctx, x, values, indices);
  });
}
Array row(const Values& values) {
  return Array::from_values({1, static_cast<std::int64_t>(values.size())}, DType::kF64, values);
}

TEST_CASE("the k-th of a row is that of its stable sort, in any form", "[kernels][row_select]") {
  for (const Form form : {Form::kPlain, Form::kTransposed, Form::kPadded, Form::kSpaced}) {
    const Array x = random_array({5, 13}, DType::kF32, 2, form);
    const Values values = x.to_vector();
    for (std::int64_t k = 1; k <= 13; ++k) {
      const Picked got = picked(x, [&](KernelContext& ctx, const Array& to, const Array& indices) {
        kth_value(ctx, x, k, to, indices);
      });
      for (std::size_t r = 0; r < 5; ++r) {
        Values line(values.begin() + static_cast<std::ptrdiff_t>(13 * r),
                    values.begin() + static_cast<std::ptrdiff_t>(13 * r + 13));
        CHECK(line[static_cast<std::size_t>(got.indices[r])] == got.values[r]);
        std::sort(line.begin(), line.end());
        CHECK(line[static_cast<std::size_t>(k - 1)] == got.values[r]);
      }
    }
  }
}

TEST_CASE("the median is the lower of two, and NaN wins or does not count",
          "[kernels][row_select]") {
  CHECK(median_of(NanRows::kWin, row({4, 1, 3, 2})).values == Values{2});
  CHECK(median_of(NanRows::kWin, row({4, 1, 3})).indices == Values{2});
  const Array with_nan = row({4, kNan, 1, kNan, 3});
  CHECK(std::isnan(median_of(NanRows::kWin, with_nan).values[0]));
  CHECK(median_of(NanRows::kWin, with_nan).indices == Values{1});
  CHECK(median_of(NanRows::kSkip, with_nan).values == Values{3});
  CHECK(std::isnan(median_of(NanRows::kSkip, row({kNan, kNan})).values[0]));
}

TEST_CASE("the mode is the smallest of the most frequent, at its last place",
          "[kernels][row_select]") {
  CHECK(mode_of(row({3, 1, 3, 1, 2})).values == Values{1});
  CHECK(mode_of(row({3, 1, 3, 1, 2})).indices == Values{3});
  CHECK(mode_of(row({5, 7, 7})).indices == Values{2});
}

TEST_CASE("a histogram closes its last range and leaves out the rest", "[kernels][row_select]") {
  KernelContext ctx;
  const Array out = Array::empty({2}, DType::kF64);
  histogram(ctx, row({0, 0.9, 1, 2, 2.1, -0.1, kNan}), 0, 2, out);
  CHECK(out.to_vector() == Values{2, 2});
}

}  // namespace
}  // namespace tessera
