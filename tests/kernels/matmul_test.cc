#include "kernels/matmul.h"

#include <cmath>
#include <limits>

#include "kernels/elementwise.h"
#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using kernels::grouped_matmul;
using kernels::grouped_matmul_weight_grad;
using kernels::matmul;
using testing::array_in_form;
using testing::context_of;
using testing::empty_in_form;
using testing::error_of;
using testing::Form;
using testing::random_array;
using testing::same_bits;

struct Product {
  std::vector<double> values;
  std::vector<double> magnitudes;  // Σ |a·b|, what rounding errors are relative to
};

/// m x k by k x n, row-major.
Product naive_product(const std::vector<double>& a, const std::vector<double>& b, std::int64_t m,
                      std::int64_t k, std::int64_t n) {
  Product product{std::vector<double>(m * n, 0.0), std::vector<double>(m * n, 0.0)};
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t p = 0; p < k; ++p) {
      for (std::int64_t j = 0; j < n; ++j) {
        const double term = a[i * k + p] * b[p * n + j];
        product.values[i * n + j] += term;
        product.magnitudes[i * n + j] += std::abs(term);
      }
    }
  }
  return product;
}

/// The largest error in units of the bound: rounding of the result, plus k roundings of the sum.
double error_over_bound(const Array& got, const Product& want, std::int64_t k, DType in) {
  const double sum_rounding = testing::rounding(in == DType::kF64 ? in : DType::kF32);
  const std::vector<double> values = got.to_vector();
  double worst = values.size() == want.values.size() ? 0.0 : 1e30;
  for (std::size_t i = 0; i < values.size() && worst < 1e30; ++i) {
    const double bound = 1.01 * testing::rounding(got.dtype()) * std::abs(want.values[i]) +
                         static_cast<double>(k + 1) * sum_rounding * want.magnitudes[i] + 1e-300;
    const double error = std::abs(values[i] - want.values[i]) / bound;
    worst = std::isnan(error) ? 1e30 : std::max(worst, error);
  }
  return worst;
}

std::vector<double> slab(const std::vector<double>& values, std::int64_t index, std::int64_t size) {
  return {values.begin() + index * size, values.begin() + (index + 1) * size};
}

struct Sizes {
  std::int64_t m, k, n;
};

TEST_CASE("a product of any dtype and operand form is the sum of its terms", "[kernels][matmul]") {
  const auto [in, out] =
      GENERATE(std::pair{DType::kF64, DType::kF64}, std::pair{DType::kF32, DType::kF32},
               std::pair{DType::kBF16, DType::kBF16}, std::pair{DType::kBF16, DType::kF32});
  const Sizes s =
      GENERATE(Sizes{1, 1, 1}, Sizes{1, 7, 1}, Sizes{3, 1, 5}, Sizes{3, 5, 7}, Sizes{17, 9, 33},
               Sizes{64, 64, 64}, Sizes{65, 130, 67}, Sizes{1, 300, 129}, Sizes{203, 195, 390});
  for (const Form form_a : {Form::kPlain, Form::kTransposed, Form::kPadded, Form::kSpaced}) {
    for (const Form form_b : {Form::kPlain, Form::kTransposed, Form::kPadded, Form::kSpaced}) {
      for (const Form form_out : {Form::kPlain, Form::kTransposed, Form::kSpaced}) {
        CAPTURE(name_of(in), name_of(out), s.m, s.k, s.n, int(form_a), int(form_b), int(form_out));
        if (s.m == 203 && form_a != form_b) continue;
        KernelContext ctx = context_of(2);
        const Array a = random_array({s.m, s.k}, in, 1, form_a);
        const Array b = random_array({s.k, s.n}, in, 2, form_b);
        const Array c = empty_in_form({s.m, s.n}, out, form_out);
        matmul(ctx, a, b, c);
        const Product want = naive_product(a.to_vector(), b.to_vector(), s.m, s.k, s.n);
        CHECK(error_over_bound(c, want, s.k, in) <= 1.0);
      }
    }
  }
}

TEST_CASE("leading dims of a product broadcast", "[kernels][matmul]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  const std::int64_t m = 5, k = 70, n = 6;
  const Array a = random_array({2, 1, m, k}, dtype, 3, Form::kPadded);
  const Array b = random_array({3, k, n}, dtype, 4, Form::kTransposed);
  const Array c = Array::empty({2, 3, m, n}, dtype);
  KernelContext ctx = context_of(2);
  matmul(ctx, a, b, c);
  const std::vector<double> values = c.to_vector();
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) {
      CAPTURE(name_of(dtype), i, j);
      const Product want =
          naive_product(slab(a.to_vector(), i, m * k), slab(b.to_vector(), j, k * n), m, k, n);
      const Array got = Array::from_values({m, n}, dtype, slab(values, i * 3 + j, m * n));
      CHECK(error_over_bound(got, want, k, dtype) <= 1.0);
    }
  }
}

TEST_CASE("a matrix on the right multiplies all rows of leading dims, adjacent or not",
          "[kernels][matmul]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  const bool turned = GENERATE(false, true);
  // Turned: dims (B, H, L) of memory (B, L, H), which do not merge into rows.
  const Array plain = random_array({3, 4, 5, 33}, dtype, 5);
  const Array a = turned ? plain.transpose(1, 2) : plain;
  const Array b = random_array({33, 9}, dtype, 6, Form::kTransposed);
  Shape shape = a.shape();
  shape.back() = 9;
  const Array c = Array::empty(shape, dtype);
  KernelContext ctx = context_of(1);
  matmul(ctx, a, b, c);
  CHECK(error_over_bound(c, naive_product(a.to_vector(), b.to_vector(), 60, 33, 9), 33, dtype) <=
        1.0);
}

TEST_CASE("single rows that are columns of something else are no lines of one matrix",
          "[kernels][matmul]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  // (4, 1, k) of memory (4, k, 2): each product's one row is dense by itself, all four are not.
  const auto of_columns = [dtype](std::int64_t k, int seed) {
    return random_array({4, k, 2}, dtype, seed).slice(2, 0, 1).transpose(1, 2);
  };
  const Array b = random_array({7, 3}, dtype, 8);
  const bool of_operand = GENERATE(false, true), of_result = GENERATE(false, true);
  const Array a = of_operand ? of_columns(7, 7) : random_array({4, 1, 7}, dtype, 7);
  const Array c = of_result ? of_columns(3, 9) : Array::empty({4, 1, 3}, dtype);
  CAPTURE(name_of(dtype), of_operand, of_result);
  KernelContext ctx = context_of(1);
  matmul(ctx, a, b, c);
  CHECK(error_over_bound(c, naive_product(a.to_vector(), b.to_vector(), 4, 7, 3), 7, dtype) <= 1.0);
}

TEST_CASE("an empty contraction gives zeros, an empty result nothing", "[kernels][matmul]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  KernelContext ctx = context_of(1);
  const Array c = random_array({3, 4}, dtype, 7);
  matmul(ctx, Array::zeros({3, 0}, dtype), Array::zeros({0, 4}, dtype), c);
  CHECK(c.to_vector() == std::vector<double>(12, 0.0));
  matmul(ctx, Array::zeros({0, 5}, dtype), random_array({5, 4}, dtype, 8),
         Array::zeros({0, 4}, dtype));
  matmul(ctx, Array::zeros({2, 3, 5}, dtype), Array::zeros({2, 5, 0}, dtype),
         Array::zeros({2, 3, 0}, dtype));
}

TEST_CASE("an element of an F64 product has the same bits in any product that holds it",
          "[kernels][matmul]") {
  const Array a = random_array({410, 500}, DType::kF64, 9);
  const Array b = random_array({500, 803}, DType::kF64, 10);
  const Array one = Array::empty({410, 803}, DType::kF64),
              two = Array::empty({410, 803}, DType::kF64);
  KernelContext single = context_of(1), pair = context_of(2);
  matmul(single, a, b, one);
  matmul(pair, a, b, two);
  CHECK(same_bits(one, two));
  const Array part = Array::empty({7, 11}, DType::kF64);
  matmul(single, a.slice(0, 397, 404), b.slice(1, 380, 391), part);
  CHECK(same_bits(part, one.slice(0, 397, 404).slice(1, 380, 391)));
}

TEST_CASE("products repeat bit for bit", "[kernels][matmul]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  const int threads = GENERATE(1, 2);
  KernelContext ctx = context_of(threads);
  const Array a = random_array({150, 260}, dtype, 11), b = random_array({260, 190}, dtype, 12);
  const Array first = Array::empty({150, 190}, dtype), again = Array::empty({150, 190}, dtype);
  matmul(ctx, a, b, first);
  for (int i = 0; i < 5; ++i) {
    matmul(ctx, a, b, again);
    CHECK(same_bits(first, again));
  }
}

TEST_CASE("NaN times zero is not lost in a product", "[kernels][matmul]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  std::vector<double> values(20 * 30, 0.0);
  values[5 * 30 + 7] = std::numeric_limits<double>::quiet_NaN();
  const Array a = Array::from_values({20, 30}, dtype, values);
  const Array c = Array::empty({20, 40}, dtype);
  KernelContext ctx = context_of(1);
  matmul(ctx, a, Array::zeros({30, 40}, dtype), c);
  const std::vector<double> got = c.to_vector();
  for (std::int64_t i = 0; i < 20 * 40; ++i) CHECK(std::isnan(got[i]) == (i / 40 == 5));
}

TEST_CASE("a product names what it cannot take", "[kernels][matmul]") {
  KernelContext ctx = context_of(1);
  const Array f32 = Array::zeros({2, 3}, DType::kF32), f64 = Array::zeros({3, 4}, DType::kF64);
  CHECK(error_of([&] {
          matmul(ctx, f32, f64, Array::zeros({2, 4}, DType::kF32));
        }) ==
        "matmul: operands F32 and F64 into F32; both must be of one floating dtype, and the result "
        "of it, or F32 for "
        "BF16 and F16 operands");
  CHECK(error_of([&] {
          matmul(ctx, f32, f32, Array::zeros({2, 3}, DType::kF32));
        }) ==
        "matmul: [2, 3] · [2, 3] into [2, 3]; wanted [..., m, k] · [..., k, n] into [..., m, n] "
        "with leading dims that "
        "broadcast to the result's");
}

struct Counts {
  std::vector<double> counts;
  std::int64_t rows;
};

Counts counts_sample(int index) {
  const std::vector<Counts> samples = {
      {{3, 0, 5, 1}, 9}, {{0, 0, 0, 0}, 0},      {{0, 0, 7, 0}, 7},        {{4, 3, 0, 2}, 14},
      {{0, 0, 0, 0}, 5}, {{64, 65, 1, 63}, 193}, {{300, 0, 513, 17}, 830}, {{0, 1100, 0, 0}, 1103}};
  return samples[static_cast<std::size_t>(index)];
}

Array counts_array(const Counts& counts) {
  return Array::from_values({static_cast<std::int64_t>(counts.counts.size())}, DType::kI64,
                            counts.counts);
}

TEST_CASE("a grouped product multiplies every group by its own matrix",
          "[kernels][grouped_matmul]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  const Counts counts = counts_sample(GENERATE(range(0, 8)));
  const Form form = GENERATE(Form::kPlain, Form::kTransposed, Form::kSpaced);
  const std::int64_t k = 37, n = 1030;
  CAPTURE(name_of(dtype), counts.counts, counts.rows, int(form));
  const Array x = random_array({counts.rows, k}, dtype, 13, form);
  const Array w = random_array({4, k, n}, dtype, 14, form);
  const Array out =
      array_in_form({counts.rows, n}, dtype, form, std::vector<double>(counts.rows * n, 77.0));
  KernelContext ctx = context_of(2);
  grouped_matmul(ctx, x, w, counts_array(counts), out);

  std::int64_t begin = 0;
  for (std::int64_t e = 0; e < 4; ++e) {
    const auto rows = static_cast<std::int64_t>(counts.counts[e]);
    const Array x_e = x.slice(0, begin, begin + rows);
    const Product want = naive_product(x_e.to_vector(), slab(w.to_vector(), e, k * n), rows, k, n);
    CHECK(error_over_bound(out.slice(0, begin, begin + rows), want, k, dtype) <= 1.0);
    begin += rows;
  }
  const std::vector<double> rest = out.slice(0, begin, counts.rows).to_vector();
  CHECK(rest == std::vector<double>(rest.size(), 0.0));
}

TEST_CASE("the weight gradient of a grouped product sums over each group's rows",
          "[kernels][grouped_matmul]") {
  const auto [in, out] =
      GENERATE(std::pair{DType::kF64, DType::kF64}, std::pair{DType::kF32, DType::kF32},
               std::pair{DType::kBF16, DType::kBF16}, std::pair{DType::kBF16, DType::kF32});
  const Counts counts = counts_sample(GENERATE(range(0, 8)));
  const Form form = GENERATE(Form::kPlain, Form::kTransposed, Form::kSpaced);
  const std::int64_t k = 530, n = 21;
  CAPTURE(name_of(in), name_of(out), counts.counts, counts.rows, int(form));
  const Array x = random_array({counts.rows, k}, in, 15, form);
  const Array grad = random_array({counts.rows, n}, in, 16, form);
  const Array grad_w = array_in_form({4, k, n}, out, form, std::vector<double>(4 * k * n, 77.0));
  KernelContext ctx = context_of(2);
  grouped_matmul_weight_grad(ctx, x, grad, counts_array(counts), grad_w);

  std::int64_t begin = 0;
  for (std::int64_t e = 0; e < 4; ++e) {
    const auto rows = static_cast<std::int64_t>(counts.counts[e]);
    const Array x_e = x.slice(0, begin, begin + rows).transpose(0, 1);
    const Array grad_e = grad.slice(0, begin, begin + rows);
    const Product want = naive_product(x_e.to_vector(), grad_e.to_vector(), k, rows, n);
    CHECK(error_over_bound(grad_w.slice(0, e, e + 1), want, rows, in) <= 1.0);
    begin += rows;
  }
}

TEST_CASE("grouped products have the same bits on one thread and two, and when repeated",
          "[kernels][grouped_matmul]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  const Counts counts = counts_sample(6);
  const Array x = random_array({counts.rows, 64}, dtype, 17),
              w = random_array({4, 64, 80}, dtype, 18);
  const Array grad = random_array({counts.rows, 80}, dtype, 19);
  std::vector<Array> outs, grads;
  for (const int threads : {1, 2, 2, 1}) {
    KernelContext ctx = context_of(threads);
    outs.push_back(Array::empty({counts.rows, 80}, dtype));
    grads.push_back(Array::empty({4, 64, 80}, dtype));
    grouped_matmul(ctx, x, w, counts_array(counts), outs.back());
    grouped_matmul_weight_grad(ctx, x, grad, counts_array(counts), grads.back());
  }
  for (std::size_t i = 1; i < outs.size(); ++i) {
    CHECK(same_bits(outs[0], outs[i]));
    CHECK(same_bits(grads[0], grads[i]));
  }
}

TEST_CASE("counts that do not fit the rows are refused", "[kernels][grouped_matmul]") {
  KernelContext ctx = context_of(1);
  const Array x = Array::zeros({4, 2}, DType::kF32), w = Array::zeros({2, 2, 3}, DType::kF32);
  const Array out = Array::zeros({4, 3}, DType::kF32);
  const std::string beyond = error_of([&] {
    grouped_matmul(ctx, x, w, Array::from_values({2}, DType::kI64, std::vector<double>{3, 2}), out);
  });
  CHECK(beyond ==
        "grouped_matmul: counts[1] = 2 after 3 rows; counts must be >= 0 and add up to at most the "
        "4 rows given");
  const std::string negative = error_of([&] {
    grouped_matmul(ctx, x, w, Array::from_values({2}, DType::kI64, std::vector<double>{-1, 2}),
                   out);
  });
  CHECK(negative ==
        "grouped_matmul: counts[0] = -1 after 0 rows; counts must be >= 0 and add up to at most "
        "the 4 rows given");
}

TEST_CASE("products keep denormals, but in BF16 where the processor has none there",
          "[kernels][matmul][R16]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kF16, DType::kBF16);
  const auto n = GENERATE(std::int64_t{1}, std::int64_t{16}, std::int64_t{257});
  CAPTURE(std::string(name_of(dtype)), n);
  // The least normal of the type's exponent range, over 16.
  const double tiny = std::ldexp(1.0, dtype == DType::kF64   ? -1026
                                      : dtype == DType::kF16 ? -18
                                                             : -130);
  const auto diagonal = [&](double value) {
    std::vector<double> values(static_cast<std::size_t>(n * n), 0.0);
    for (std::int64_t i = 0; i < n; ++i) values[static_cast<std::size_t>(i * n + i)] = value;
    return Array::from_values({n, n}, dtype, values);
  };
  KernelContext ctx = context_of(1);
  const Array out = Array::empty({n, n}, dtype);
  const auto product = [&](double a, double b) {
    matmul(ctx, diagonal(a), diagonal(b), out);
    return out.to_vector()[static_cast<std::size_t>(n * n - 1)];
  };
  const double half = std::ldexp(1.0, std::ilogb(tiny) / 2);
  const double of_denormal = product(tiny, 1.0), of_normals = product(half, half);
  if (dtype == DType::kBF16) {
    CHECK((of_denormal == tiny || of_denormal == 0.0));
    CHECK((of_normals == half * half || of_normals == 0.0));
  } else {
    CHECK(of_denormal == tiny);
    CHECK(of_normals == half * half);
  }
  // Whatever a product does inside, the thread goes on with denormals.
  volatile float least = std::numeric_limits<float>::denorm_min();
  CHECK(least * 3.0F > 0.0F);
  Array doubled = Array::empty({n, n}, DType::kF32);
  const Array denormals = Array::from_values(
      {n, n}, DType::kF32,
      std::vector<double>(static_cast<std::size_t>(n * n), std::ldexp(1.0, -130)));
  kernels::binary(ctx, kernels::Binary::kAdd, denormals, denormals, doubled);
  CHECK(doubled.to_vector()[0] == std::ldexp(1.0, -129));
}

}  // namespace
}  // namespace tessera
