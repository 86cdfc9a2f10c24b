#include "kernels/scan.h"

#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using namespace kernels;  // the functions under test
using testing::Form;
using testing::random_array;
using testing::worst_error;
using Values = std::vector<double>;

const double kNan = std::nan("");

Array numbers(const Values& values) {
  return Array::from_values({static_cast<std::int64_t>(values.size())}, DType::kF64, values);
}

Values scanned(Scan fold, const Values& values) {
  KernelContext ctx;
  const Array x = numbers(values);
  const Array out = Array::empty(x.shape(), x.dtype());
  scan(ctx, fold, x, 0, out);
  return out.to_vector();
}

TEST_CASE("running folds of a line", "[kernels][scan]") {
  CHECK(scanned(Scan::kSum, {1, 2, -4}) == Values{1, 3, -1});
  CHECK(scanned(Scan::kProd, {1, 2, -4}) == Values{1, 2, -8});
  const Values logs = scanned(Scan::kLogSumExp, {std::log(1.0), std::log(2.0), std::log(5.0)});
  CHECK(worst_error(logs, {0, std::log(3.0), std::log(8.0)}) < 1e-15);
  CHECK(scanned(Scan::kLogSumExp, {1000, -1000}) == Values{1000, 1000});
}

TEST_CASE("running extremes take the last of equals, and NaN for good", "[kernels][scan]") {
  KernelContext ctx;
  const Array x = numbers({2, 1, 2, kNan, 9, kNan});
  const Array values = Array::empty({6}, DType::kF64), indices = Array::empty({6}, DType::kI64);
  scan_extreme(ctx, Extreme::kMax, x, 0, values, indices);
  CHECK(worst_error(values.to_vector(), {2, 2, 2, kNan, kNan, kNan}) == 0.0);
  CHECK(indices.to_vector() == Values{0, 0, 2, 3, 3, 5});
  scan_extreme(ctx, Extreme::kMin, numbers({2, 1, 2, 1}), 0, values.slice(0, 0, 4),
               indices.slice(0, 0, 4));
  CHECK(indices.slice(0, 0, 4).to_vector() == Values{0, 1, 1, 3});
}

TEST_CASE("parts with the carry of those before are the whole scan", "[kernels][scan]") {
  KernelContext ctx;
  const std::int64_t borders[] = {0, 3, 3, 7};  // the second part is empty
  for (const Scan fold : {Scan::kSum, Scan::kProd, Scan::kLogSumExp}) {
    const Array x = random_array({2, 7}, DType::kF64, 3, Form::kTransposed);
    const Array whole = Array::empty({2, 7}, DType::kF64),
                joined = Array::empty({2, 7}, DType::kF64);
    scan(ctx, fold, x, 1, whole);
    const double identity = fold == Scan::kSum ? 0 : fold == Scan::kProd ? 1 : -HUGE_VAL;
    const Array totals = Array::empty({3, 2}, DType::kF64);
    fill(ctx, identity, totals);
    for (int p = 0; p < 3; ++p) {
      const Array out = joined.slice(1, borders[p], borders[p + 1]);
      scan(ctx, fold, x.slice(1, borders[p], borders[p + 1]), 1, out);
      if (out.size(1) == 0) continue;
      copy(ctx, out.slice(1, out.size(1) - 1, out.size(1)),
           totals.slice(0, p, p + 1).transpose(0, 1));
    }
    for (int p = 0; p < 3; ++p) {
      carry_scan(ctx, fold, totals, p, 1, joined.slice(1, borders[p], borders[p + 1]));
    }
    CAPTURE(static_cast<int>(fold));
    CHECK(worst_error(joined.to_vector(), whole.to_vector()) < 1e-14);
  }
}

TEST_CASE("sums from each element on, of any form, with an infinite one in front",
          "[kernels][scan]") {
  KernelContext ctx;
  const Array out = Array::empty({3}, DType::kF64);
  sum_back(ctx, numbers({HUGE_VAL, 1, 2}), 0, out);
  CHECK(out.to_vector() == Values{HUGE_VAL, 3, 2});
  const Array x = random_array({3, 5}, DType::kF32, 4, Form::kTransposed);
  const Array sums = Array::empty({3, 5}, DType::kF64);
  sum_back(ctx, x, 0, sums);
  const Values values = x.to_vector();
  Values want(15);
  for (std::size_t i = 0; i < 15; ++i) {
    for (std::size_t j = i; j < 15; j += 5) want[i] += values[j];
  }
  CHECK(worst_error(sums.to_vector(), want) < 1e-15);
}

TEST_CASE("running folds of integers wrap", "[kernels][scan]") {
  KernelContext ctx;
  const Array x = Array::from_values({2}, DType::kI64, Values{-0x1p63, -1});
  const Array out = Array::empty({2}, DType::kI64);
  scan(ctx, Scan::kSum, x, 0, out);
  CHECK(out.data<std::int64_t>()[1] == std::numeric_limits<std::int64_t>::max());
  scan(ctx, Scan::kProd, x, 0, out);
  CHECK(out.data<std::int64_t>()[1] == std::numeric_limits<std::int64_t>::min());
}

TEST_CASE("the gradient of a running log-sum-exp is its double sum", "[kernels][scan]") {
  KernelContext ctx;
  const Values x = {0.3, -700.0, 1.5, 700.0, -0.2}, grad = {0.5, -1.0, 2.0, 0.25, -0.75};
  const Values y = scanned(Scan::kLogSumExp, x);
  Values want(5, 0.0);
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = i; j < 5; ++j) want[i] += grad[j] * std::exp(x[i] - y[j]);
  }
  const Array sums = Array::empty({5}, DType::kF64);
  const Array results = numbers(y), operand = numbers(x);
  log_scan_sums(ctx, numbers(grad), results, 0, sums);
  const Array none = numbers({-0.0});
  log_scan_grad(ctx, {operand, results}, {none, none, 0}, 0, sums);
  CHECK(worst_error(sums.to_vector(), want) < 1e-12);
}

TEST_CASE("integers have no running log-sum-exp", "[kernels][scan]") {
  KernelContext ctx;
  const Array x = Array::zeros({2}, DType::kI64);
  CHECK(testing::error_of([&] { scan(ctx, Scan::kLogSumExp, x, 0, x); }) ==
        "scan: dtype I64 is not supported; allowed: floating types");
}

}  // namespace
}  // namespace tessera
