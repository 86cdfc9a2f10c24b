#include "kernels/select.h"

#include <algorithm>
#include <numeric>

#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using namespace kernels;  // the functions under test
using testing::array_in_form;
using testing::context_of;
using testing::empty_in_form;
using testing::error_of;
using testing::Form;
using testing::random_values;
using testing::worst_error;

const double kNan = std::nan("");
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr Form kForms[] = {Form::kPlain, Form::kTransposed, Form::kPadded, Form::kSpaced};
constexpr DType kAll[] = {DType::kF64, DType::kF32, DType::kBF16,
                          DType::kI64, DType::kI32, DType::kBool};

/// The order of positions along `dim` of a 2-D array, by std::stable_sort: NaN is the largest.
std::vector<std::vector<std::int64_t>> reference_orders(const Array& x, int dim, Order order) {
  const std::vector<double> values = x.to_vector();
  const std::int64_t n = x.size(dim), lines = x.size(1 - dim);
  std::vector<std::vector<std::int64_t>> orders;
  for (std::int64_t line = 0; line < lines; ++line) {
    const auto value = [&](std::int64_t i) {
      return values[static_cast<std::size_t>(dim == 1 ? line * n + i : i * lines + line)];
    };
    const auto less = [&](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
    std::vector<std::int64_t> positions(static_cast<std::size_t>(n));
    std::iota(positions.begin(), positions.end(), 0);
    std::stable_sort(positions.begin(), positions.end(), [&](std::int64_t a, std::int64_t b) {
      return order == Order::kAscending ? less(value(a), value(b)) : less(value(b), value(a));
    });
    orders.push_back(positions);
  }
  return orders;
}

/// Compares the first k of every line with the reference.
void check_selected(const Array& x, int dim, Order order, const Array& values,
                    const Array& indices) {
  const auto orders = reference_orders(x, dim, order);
  const std::vector<double> all = x.to_vector(), got = values.to_vector(), at = indices.to_vector();
  const std::int64_t n = x.size(dim), lines = x.size(1 - dim), k = values.size(dim);
  std::vector<double> want_at(got.size()), want(got.size());
  for (std::int64_t line = 0; line < lines; ++line) {
    for (std::int64_t rank = 0; rank < k; ++rank) {
      const std::int64_t source =
          orders[static_cast<std::size_t>(line)][static_cast<std::size_t>(rank)];
      const auto to = static_cast<std::size_t>(dim == 1 ? line * k + rank : rank * lines + line);
      want_at[to] = static_cast<double>(source);
      want[to] =
          all[static_cast<std::size_t>(dim == 1 ? line * n + source : source * lines + line)];
    }
  }
  REQUIRE(at == want_at);
  REQUIRE(worst_error(got, want) == 0);
}

std::vector<double> values_with_ties(std::int64_t count, unsigned seed) {
  std::vector<double> values = random_values(count, seed);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 3 == 0) values[i] = std::floor(values[i] * 3);  // many equal values, −0.0 below
    if (i % 17 == 0) values[i] = -0.0;
    if (i % 23 == 0) values[i] = 0.0;
    if (i % 41 == 0) values[i] = kNan;
    if (i % 43 == 0) values[i] = i % 2 == 0 ? kInf : -kInf;
  }
  return values;
}

TEST_CASE("topk and sort follow a stable sort in every dtype, form and direction",
          "[kernels][select]") {
  for (const DType dtype : kAll) {
    for (const Form form : kForms) {
      for (const Order order : {Order::kAscending, Order::kDescending}) {
        for (const int dim : {0, 1}) {
          CAPTURE(std::string(name_of(dtype)), static_cast<int>(form), static_cast<int>(order),
                  dim);
          KernelContext ctx;
          std::vector<double> values = values_with_ties(70 * 90, 3);
          if (!is_floating(dtype))
            for (double& v : values) v = std::isfinite(v) ? std::floor(v * 5) : 7;
          const Array x = array_in_form({70, 90}, dtype, form, values);
          for (const std::int64_t k : {0, 1, 6, 33, 70}) {
            const Shape shape = dim == 0 ? Shape{k, 90} : Shape{70, k};
            const Array best = empty_in_form(shape, dtype, Form::kPlain);
            const Array at = empty_in_form(shape, DType::kI64, form);
            topk(ctx, x, dim, order, best, at);
            check_selected(x, dim, order, best, at);
          }
          const Array sorted = empty_in_form({70, 90}, dtype, form),
                      at = Array::empty({70, 90}, DType::kI64);
          sort(ctx, x, dim, order, sorted, at);
          check_selected(x, dim, order, sorted, at);
        }
      }
    }
  }
}

TEST_CASE("topk of every row length up to 300, and of long rows", "[kernels][select]") {
  KernelContext one = context_of(1), two = context_of(2);
  for (const std::int64_t n : {1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 64, 65, 256, 300, 513, 5000}) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      CAPTURE(n, std::string(name_of(dtype)));
      const Array x = Array::from_values({20, n}, dtype, values_with_ties(20 * n, 8));
      const std::int64_t k = std::min<std::int64_t>(n, 8);
      const Array best = Array::empty({20, k}, dtype), at = Array::empty({20, k}, DType::kI64);
      topk(one, x, 1, Order::kDescending, best, at);
      check_selected(x, 1, Order::kDescending, best, at);
      const Array again = Array::empty({20, k}, DType::kI64);
      topk(two, x, 1, Order::kDescending, best, again);
      CHECK(again.to_vector() == at.to_vector());
    }
  }
}

TEST_CASE("topk of many short lines, for every k and any number of lines", "[kernels][select]") {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI32, DType::kBool}) {
    for (const std::int64_t lines : {15, 16, 17, 31, 50}) {
      for (const std::int64_t n : {1, 6, 16, 23, 64, 129, 512, 513}) {
        for (const Order order : {Order::kAscending, Order::kDescending}) {
          CAPTURE(std::string(name_of(dtype)), lines, n, static_cast<int>(order));
          std::vector<double> values = values_with_ties(lines * n, 11);
          if (!is_floating(dtype))
            for (double& v : values) v = std::isfinite(v) ? std::floor(v * 5) : 7;
          const Array x =
              array_in_form({lines, n}, dtype, n % 2 == 0 ? Form::kPlain : Form::kSpaced, values);
          KernelContext ctx = context_of(lines == 50 ? 2 : 1);
          for (std::int64_t k = 1; k <= std::min<std::int64_t>(n, 9); ++k) {
            const Array best = Array::empty({lines, k}, dtype);
            const Array at = Array::empty({lines, k}, DType::kI64);
            topk(ctx, x, 1, order, best, at);
            check_selected(x, 1, order, best, at);
          }
        }
      }
    }
  }
}

TEST_CASE("topk and sort refuse outputs that do not fit", "[kernels][select]") {
  KernelContext ctx;
  const Array x = Array::zeros({2, 3}, DType::kF32);
  CHECK(error_of([&] {
          topk(ctx, x, 1, Order::kDescending, Array::zeros({2, 4}, DType::kF32),
               Array::zeros({2, 4}, DType::kI64));
        }) == "topk: values has shape [2, 4], expected [2, 3]");
  CHECK(error_of([&] { topk(ctx, x, 2, Order::kDescending, x, x); }) ==
        "topk: dim 2 of an array of shape [2, 3]");
  CHECK(error_of([&] {
          sort(ctx, x, 1, Order::kDescending, x, Array::zeros({2, 3}, DType::kI32));
        }) == "sort: dtype I32 is not supported; allowed: I64 for indices");
}

TEST_CASE("sort_by_key is the stable permutation and counts keys", "[kernels][select]") {
  KernelContext ctx;
  for (const DType dtype : {DType::kI64, DType::kI32}) {
    for (const std::int64_t n : {0, 1, 5, 1000}) {
      std::vector<double> keys = random_values(n, 5);
      for (double& key : keys) key = std::floor((key + 1) * 6);  // 0 … 11 of 13
      const Array keys_N = Array::from_values({n}, dtype, keys);
      const Array permutation_N = Array::empty({n}, DType::kI64),
                  counts_E = Array::empty({13}, DType::kI64);
      sort_by_key(ctx, keys_N, 13, permutation_N, counts_E);
      std::vector<double> want(static_cast<std::size_t>(n)), counts(13, 0.0);
      std::iota(want.begin(), want.end(), 0.0);
      std::stable_sort(want.begin(), want.end(), [&](double a, double b) {
        return keys[static_cast<std::size_t>(a)] < keys[static_cast<std::size_t>(b)];
      });
      for (const double key : keys) counts[static_cast<std::size_t>(key)] += 1;
      CHECK(permutation_N.to_vector() == want);
      CHECK(counts_E.to_vector() == counts);
    }
  }
  const Array bad = Array::from_values({3}, DType::kI64, std::vector<double>{0, 5, -1});
  CHECK(error_of([&] {
          sort_by_key(ctx, bad, 5, Array::zeros({3}, DType::kI64), Array::zeros({5}, DType::kI64));
        }) == "sort_by_key: key 5 at position [1] lies outside [0, 5)");
}

}  // namespace
}  // namespace tessera
