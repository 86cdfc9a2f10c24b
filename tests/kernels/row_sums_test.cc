#include "kernels/row_sums.h"

#include <algorithm>
#include <numeric>

#include "kernels/host/row_order.h"
#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using namespace kernels;  // the functions under test
using testing::context_of;
using testing::error_of;
using testing::random_array;
using testing::same_bits;
using testing::worst_error;

constexpr DType kFloating[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};
DType sums_of(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

/// Slots and rows that are inverse lists; every `gap`-th row has no slot.
struct Routes {
  Array slot_N, place_TK;
};
Routes shuffled_routes(std::int64_t tokens, std::int64_t top_k, unsigned gap) {
  const std::int64_t count = tokens * top_k;
  std::vector<std::int64_t> slots(static_cast<std::size_t>(count));
  std::iota(slots.begin(), slots.end(), 0);
  std::mt19937 engine(5);
  std::shuffle(slots.begin(), slots.end(), engine);
  std::vector<double> slot(slots.size()), place(slots.size(), -1.0);
  for (std::size_t n = 0; n < slots.size(); ++n) {
    slot[n] = n % gap == 0 ? -1.0 : static_cast<double>(slots[n]);
    if (slot[n] >= 0) place[static_cast<std::size_t>(slots[n])] = static_cast<double>(n);
  }
  return {Array::from_values({count}, DType::kI64, slot),
          Array::from_values({tokens, top_k}, DType::kI64, place)};
}
/// Powers of two: products are exact, so that only the order of additions can show in a sum.
Array exact_weights(std::int64_t tokens, std::int64_t top_k, DType dtype) {
  std::vector<double> values(static_cast<std::size_t>(tokens * top_k));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::ldexp(i % 2 == 0 ? 1.0 : -1.0, static_cast<int>(i % 3));
  return Array::from_values({tokens, top_k}, dtype, values);
}

/// Σ weight · row in the order of k, in the type of the sums.
template <class Sum>
std::vector<double> sums_in_order(const Array& rows_ND, const std::vector<double>& weights,
                                  const Array& place_TK) {
  const std::vector<double> rows = rows_ND.to_vector(), places = place_TK.to_vector();
  const auto dim = static_cast<std::size_t>(rows_ND.size(1));
  const auto top_k = static_cast<std::size_t>(place_TK.size(1));
  std::vector<double> sums;
  for (std::size_t t = 0; t * top_k < places.size(); ++t) {
    for (std::size_t c = 0; c < dim; ++c) {
      Sum sum = 0;
      for (std::size_t k = t * top_k; k < (t + 1) * top_k; ++k) {
        if (places[k] < 0) continue;
        const auto row = static_cast<std::size_t>(places[k]);
        const double weight = weights.empty() ? 1.0 : weights[k];
        sum += static_cast<Sum>(weight * rows[row * dim + c]);
      }
      sums.push_back(static_cast<double>(sum));
    }
  }
  return sums;
}

struct Size {
  std::int64_t tokens, top_k, dim;
};

TEST_CASE("a token's sum adds its rows in the order of its choices, bit by bit",
          "[kernels][row_sums]") {
  for (const DType dtype : kFloating) {
    for (const Size& size : {Size{0, 6, 64}, Size{3, 1, 1}, Size{5, 2, 15}, Size{4, 9, 64},
                             Size{7, 6, 131}, Size{3, 6, 700}, Size{1200, 2, 1030}}) {
      CAPTURE(std::string(name_of(dtype)), size.tokens, size.top_k, size.dim);
      const Routes routes = shuffled_routes(size.tokens, size.top_k, 7);
      const Array rows = random_array({size.tokens * size.top_k, size.dim}, dtype, 1);
      const Array weights = exact_weights(size.tokens, size.top_k, sums_of(dtype));
      for (const Array& w : {weights, Array()}) {
        const std::vector<double> of = w.is_null() ? std::vector<double>() : w.to_vector();
        const Array want = Array::from_values(
            {size.tokens, size.dim}, sums_of(dtype),
            dtype == DType::kF64 ? sums_in_order<double>(rows, of, routes.place_TK)
                                 : sums_in_order<float>(rows, of, routes.place_TK));
        for (const DType out_dtype : {dtype, sums_of(dtype)}) {
          for (const int threads : {1, 2}) {
            KernelContext ctx = context_of(threads);
            const Array out = Array::empty(want.shape(), out_dtype);
            weighted_row_sum(ctx, rows, w, routes.place_TK, out);
            const Array rounded = Array::empty(want.shape(), out_dtype);
            copy(ctx, want, rounded);
            REQUIRE(same_bits(out, rounded));
          }
        }
      }
    }
  }
}

TEST_CASE("sums and gradients too large for the caches equal those of a few tokens at a time",
          "[kernels][row_sums]") {
  // 17 MiB of tokens: outputs are written past the caches, rows are asked for ahead.
  const std::int64_t tokens = 2200, top_k = 2, dim = 2051;
  const Routes routes = shuffled_routes(tokens, top_k, 5);
  const Array rows = random_array({tokens * top_k, dim}, DType::kF32, 1);
  const Array weights = random_array({tokens, top_k}, DType::kF32, 2);
  const Array grad = random_array({tokens, dim}, DType::kF32, 3);
  KernelContext ctx = context_of(2);
  const Array sums = Array::empty({tokens, dim}, DType::kF32);
  weighted_row_sum(ctx, rows, weights, routes.place_TK, sums);
  const RowSumGrads grads = {Array::empty(rows.shape(), DType::kF32),
                             Array::empty(weights.shape(), DType::kF32)};
  weighted_row_sum_grad(ctx, rows, weights, routes.slot_N, grad, grads);
  const auto* place = routes.place_TK.data<std::int64_t>();
  std::int64_t wrong = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const Array out = Array::empty({1, dim}, DType::kF32);
    const Array w = weights.slice(0, t, t + 1);
    weighted_row_sum(ctx, rows, w, routes.place_TK.slice(0, t, t + 1), out);
    wrong += same_bits(out, sums.slice(0, t, t + 1)) ? 0 : 1;
    for (std::int64_t k = 0; k < top_k; ++k) {
      const std::int64_t n = place[t * top_k + k];
      if (n < 0) {
        wrong += grads.weights_TK.data<float>()[t * top_k + k] == 0.0F ? 0 : 1;
        continue;
      }
      const RowSumGrads one = {Array::empty({1, dim}, DType::kF32),
                               Array::empty({1, top_k}, DType::kF32)};
      weighted_row_sum_grad(
          ctx, rows.slice(0, n, n + 1), w,
          Array::from_values({1}, DType::kI64, std::vector<double>{static_cast<double>(k)}),
          grad.slice(0, t, t + 1), one);
      wrong += same_bits(one.rows_ND, grads.rows_ND.slice(0, n, n + 1)) ? 0 : 1;
      wrong +=
          one.weights_TK.data<float>()[k] == grads.weights_TK.data<float>()[t * top_k + k] ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
  const std::vector<double> slots = routes.slot_N.to_vector();
  for (std::int64_t n = 0; n < 50; ++n) {
    if (slots[static_cast<std::size_t>(n)] >= 0) continue;
    const float* row = grads.rows_ND.data<float>() + n * dim;
    CHECK(std::all_of(row, row + dim, [](float value) { return value == 0.0F; }));
  }
}

TEST_CASE("gradients of row sums are weight times cotangent and row times cotangent",
          "[kernels][row_sums]") {
  for (const DType dtype : kFloating) {
    const std::int64_t tokens = 9, top_k = 3, dim = 37;
    CAPTURE(std::string(name_of(dtype)));
    const Routes routes = shuffled_routes(tokens, top_k, 4);
    const Array rows = random_array({tokens * top_k, dim}, dtype, 1);
    const Array weights = exact_weights(tokens, top_k, sums_of(dtype));
    const Array grad = random_array({tokens, dim}, dtype, 3);
    KernelContext ctx = context_of(2);
    const RowSumGrads got = {Array::empty(rows.shape(), dtype),
                             Array::empty(weights.shape(), sums_of(dtype))};
    weighted_row_sum_grad(ctx, rows, weights, routes.slot_N, grad, got);
    const auto x = rows.to_vector(), w = weights.to_vector(), g = grad.to_vector(),
               slots = routes.slot_N.to_vector();
    std::vector<double> want_rows(x.size(), 0.0), want_weights(w.size(), 0.0);
    for (std::size_t n = 0; n < slots.size(); ++n) {
      if (slots[n] < 0) continue;
      const auto slot = static_cast<std::size_t>(slots[n]);
      for (std::size_t c = 0; c < 37; ++c) {
        want_rows[n * 37 + c] = w[slot] * g[slot / 3 * 37 + c];
        want_weights[slot] += x[n * 37 + c] * g[slot / 3 * 37 + c];
      }
    }
    CHECK(got.rows_ND.to_vector() == want_rows);
    CHECK(worst_error(got.weights_TK.to_vector(), want_weights) <
          (dtype == DType::kF64 ? 1e-14 : 1e-5));
  }
}

TEST_CASE("a place or a slot outside is named with its position", "[kernels][row_sums]") {
  KernelContext ctx;
  const Array rows = Array::zeros({4, 8}, DType::kF32), tokens = Array::zeros({2, 8}, DType::kF32);
  const Array weights = Array::zeros({2, 2}, DType::kF32);
  const Array places = Array::from_values({2, 2}, DType::kI64, std::vector<double>{0, -1, 4, 1});
  CHECK(error_of([&] { weighted_row_sum(ctx, rows, weights, places, tokens); }) ==
        "weighted_row_sum: place 4 at position [2] lies outside [-1, 4)");
  const RowSumGrads grads = {Array::zeros({4, 8}, DType::kF32), Array::zeros({2, 2}, DType::kF32)};
  const Array slots = Array::from_values({4}, DType::kI64, std::vector<double>{0, 3, -2, 1});
  CHECK(error_of([&] { weighted_row_sum_grad(ctx, rows, weights, slots, tokens, grads); }) ==
        "weighted_row_sum_grad: place -2 at position [2] lies outside [-1, 4)");
}

TEST_CASE("a list by row keeps the order of entries that name one row", "[kernels][row_sums]") {
  KernelContext ctx;
  const Array list =
      Array::from_values({8}, DType::kI64, std::vector<double>{3, -1, 0, 3, 5, 0, -1, 3});
  CHECK(by_row(ctx, list, 6).to_vector() == std::vector<double>{1, 6, 2, 5, 0, 3, 7, 4});
  CHECK(by_row(ctx, Array::empty({0}, DType::kI64), 0).num_elements() == 0);
}

}  // namespace
}  // namespace tessera
