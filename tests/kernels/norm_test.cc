#include "kernels/norm.h"

#include <algorithm>
#include <functional>

#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using namespace kernels;  // the functions under test
using testing::array_in_form;
using testing::context_of;
using testing::empty_in_form;
using testing::error_of;
using testing::Form;
using testing::random_array;
using testing::random_values;
using testing::same_bits;
using testing::worst_error;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

double tolerance(DType dtype) {
  if (dtype == DType::kF64) return 1e-14;
  return dtype == DType::kF32 ? 3e-6 : 1e-2;
}

/// Calls f(values of a line) for every line along `dim` of row-major `values`, writing its changes
/// back.
void for_each_line(std::vector<double>& values, const Shape& shape, int dim,
                   const std::function<void(std::vector<double>&)>& f) {
  std::int64_t inner = 1;
  for (std::size_t d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  const std::int64_t n = shape[dim],
                     outer = num_elements(shape) / std::max<std::int64_t>(1, n * inner);
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t i = 0; i < inner; ++i) {
      std::vector<double> line(n);
      for (std::int64_t j = 0; j < n; ++j) line[j] = values[(o * n + j) * inner + i];
      f(line);
      for (std::int64_t j = 0; j < n; ++j) values[(o * n + j) * inner + i] = line[j];
    }
  }
}

double log_sum_exp(const std::vector<double>& line) {
  double max = -kInf, sum = 0;
  for (const double x : line) max = std::max(max, x);
  for (const double x : line) sum += std::exp(x - max);
  return max + std::log(sum);
}

/// Central differences of Σ weight · f(x) with respect to every element of x.
std::vector<double> slopes(const Array& x, const std::vector<double>& weight,
                           const std::function<Array()>& f) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    double& value = x.data<double>()[i];
    const double kept = value, step = 1e-5;
    double sums[2] = {0, 0};
    for (int side = 0; side < 2; ++side) {
      value = kept + (side == 0 ? step : -step);
      const std::vector<double> out = f().to_vector();
      for (std::size_t j = 0; j < out.size(); ++j) sums[side] += weight[j] * out[j];
    }
    value = kept;
    result.push_back((sums[0] - sums[1]) / (2 * step));
  }
  return result;
}

TEST_CASE("softmax and its logarithm along any dim", "[kernels][softmax]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  const Shape shape =
      GENERATE(Shape{5, 7}, Shape{3, 4, 33}, Shape{2, 130, 6}, Shape{1, 1}, Shape{4, 1000});
  const int dim = GENERATE(0, 1, -1);
  const Form form = GENERATE(Form::kPlain, Form::kTransposed, Form::kPadded, Form::kSpaced);
  CAPTURE(name_of(dtype), to_string(shape), dim, int(form));
  std::vector<double> values = random_values(num_elements(shape), 1);
  for (double& value : values) value *= 20;
  const Array x = array_in_form(shape, dtype, form, values);
  const Array out = empty_in_form(shape, dtype, form), log_out = empty_in_form(shape, dtype, form);
  KernelContext ctx = context_of(2);
  softmax(ctx, x, dim, out);
  log_softmax(ctx, x, dim, log_out);

  std::vector<double> want = x.to_vector();
  const int along = dim < 0 ? static_cast<int>(shape.size()) - 1 : dim;
  for_each_line(want, shape, along, [](std::vector<double>& line) {
    const double lse = log_sum_exp(line);
    for (double& value : line) value -= lse;
  });
  CHECK(worst_error(log_out.to_vector(), want) < tolerance(dtype));
  for (double& value : want) value = std::exp(value);
  CHECK(worst_error(out.to_vector(), want, 1e-30) < 8 * tolerance(dtype));
}

TEST_CASE("softmax of special values follows IEEE arithmetic", "[kernels][softmax]") {
  KernelContext ctx = context_of(1);
  const std::vector<double> values = {kNan, 1, 2, -kInf, 0, -kInf, -kInf, -kInf, -kInf};
  const Array x = Array::from_values({3, 3}, DType::kF32, values),
              out = Array::empty({3, 3}, DType::kF32);
  softmax(ctx, x, 1, out);
  CHECK(worst_error(out.to_vector(), {kNan, kNan, kNan, 0, 1, 0, kNan, kNan, kNan}) == 0.0);
}

TEST_CASE("softmax's gradient is its slope", "[kernels][softmax]") {
  const int dim = GENERATE(0, 1, 2);
  KernelContext ctx = context_of(1);
  const Array x = random_array({3, 4, 5}, DType::kF64, 2);
  const Array grad = random_array({3, 4, 5}, DType::kF64, 3);
  const Array out = Array::empty({3, 4, 5}, DType::kF64),
              grad_x = Array::empty({3, 4, 5}, DType::kF64);
  const auto forward = [&] {
    softmax(ctx, x, dim, out);
    return out;
  };
  const std::vector<double> want = slopes(x, grad.to_vector(), forward);
  softmax_grad(ctx, grad, forward(), dim, grad_x);
  CHECK(worst_error(grad_x.to_vector(), want) < 1e-9);
  // The other dtypes and forms agree with this one.
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const Array g = array_in_form({3, 4, 5}, dtype, Form::kTransposed, grad.to_vector());
    const Array y = array_in_form({3, 4, 5}, dtype, Form::kSpaced, out.to_vector());
    const Array got = empty_in_form({3, 4, 5}, dtype, Form::kPadded);
    softmax_grad(ctx, g, y, dim, got);
    CHECK(worst_error(got.to_vector(), grad_x.to_vector()) < tolerance(dtype));
  }
}

TEST_CASE("rms_norm divides by the root of the mean square", "[kernels][rms_norm]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  const DType weight_dtype = GENERATE(DType::kF32, DType::kF64);
  const Shape shape = GENERATE(Shape{1, 1}, Shape{4, 7}, Shape{2, 3, 256}, Shape{300, 130});
  const Form form = GENERATE(Form::kPlain, Form::kTransposed, Form::kSpaced);
  CAPTURE(name_of(dtype), to_string(shape), int(form));
  const std::int64_t n = shape.back();
  Shape rows = shape;
  rows.pop_back();
  const Array x = random_array(shape, dtype, 4, form), weight = random_array({n}, weight_dtype, 5);
  const Array out = empty_in_form(shape, dtype, form);
  const Array rstd = Array::empty(rows, accumulation_type(dtype));
  KernelContext ctx = context_of(2);
  rms_norm(ctx, x, weight, 1e-5, out, rstd);

  std::vector<double> want = x.to_vector(), scales;
  const std::vector<double> w = weight.to_vector();
  for_each_line(want, shape, static_cast<int>(shape.size()) - 1, [&](std::vector<double>& line) {
    double square = 0;
    for (const double value : line) square += value * value;
    scales.push_back(1 / std::sqrt(square / static_cast<double>(n) + 1e-5));
    for (std::int64_t i = 0; i < n; ++i) line[i] *= scales.back() * w[i];
  });
  CHECK(worst_error(out.to_vector(), want) < tolerance(dtype));
  CHECK(worst_error(rstd.to_vector(), scales) < (dtype == DType::kF64 ? 1e-14 : 3e-6));
}

struct NormGradients {
  Array x, weight;
};

NormGradients norm_gradients(int threads, const Array& grad, const Array& x, const Array& weight,
                             double eps) {
  KernelContext ctx = context_of(threads);
  Shape rows = x.shape();
  rows.pop_back();
  const Array out = Array::empty(x.shape(), x.dtype());
  const Array rstd = Array::empty(rows, accumulation_type(x.dtype()));
  rms_norm(ctx, x, weight, eps, out, rstd);
  const NormGradients grads{Array::empty(x.shape(), x.dtype()),
                            Array::empty(weight.shape(), weight.dtype())};
  rms_norm_grad(ctx, grad, x, rstd, weight, grads.x, grads.weight);
  return grads;
}

TEST_CASE("rms_norm's gradients are its slopes", "[kernels][rms_norm]") {
  KernelContext ctx = context_of(1);
  const Array x = random_array({2, 3, 5}, DType::kF64, 6),
              weight = random_array({5}, DType::kF64, 7);
  const Array grad = random_array({2, 3, 5}, DType::kF64, 8);
  const auto forward = [&] {
    const Array out = Array::empty({2, 3, 5}, DType::kF64),
                rstd = Array::empty({2, 3}, DType::kF64);
    rms_norm(ctx, x, weight, 1e-2, out, rstd);
    return out;
  };
  const NormGradients got = norm_gradients(1, grad, x, weight, 1e-2);
  CHECK(worst_error(got.x.to_vector(), slopes(x, grad.to_vector(), forward)) < 1e-9);
  CHECK(worst_error(got.weight.to_vector(), slopes(weight, grad.to_vector(), forward)) < 1e-9);
}

TEST_CASE("rms_norm's gradients agree over dtypes, forms and threads", "[kernels][rms_norm]") {
  const DType dtype = GENERATE(DType::kF32, DType::kBF16);
  const Form form = GENERATE(Form::kPlain, Form::kTransposed, Form::kSpaced);
  const Shape shape = GENERATE(Shape{5000, 33}, Shape{64, 256}, Shape{0, 8});
  CAPTURE(name_of(dtype), int(form), to_string(shape));
  const std::int64_t n = shape.back();
  const Array x = random_array(shape, dtype, 9, form), grad = random_array(shape, dtype, 10, form);
  const Array weight = random_array({n}, DType::kF32, 11);
  const Array exact_x = Array::from_values(shape, DType::kF64, x.to_vector());
  const Array exact_grad = Array::from_values(shape, DType::kF64, grad.to_vector());
  const NormGradients want = norm_gradients(1, exact_grad, exact_x, weight, 1e-5);
  const NormGradients one = norm_gradients(1, grad, x, weight, 1e-5);
  const NormGradients two = norm_gradients(2, grad, x, weight, 1e-5);
  CHECK(worst_error(one.x.to_vector(), want.x.to_vector()) < tolerance(dtype));
  CHECK(worst_error(one.weight.to_vector(), want.weight.to_vector(), 10.0) <
        tolerance(DType::kF32));
  CHECK(same_bits(one.x, two.x));
  CHECK(same_bits(one.weight, two.weight));
}

TEST_CASE("row kernels have the same bits on one thread and two, whatever the alignment",
          "[kernels][softmax][rms_norm]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  const Shape shape = {300, 401};
  const std::vector<double> values = random_values(300 * 401, 12);
  std::vector<Array> results;
  for (const auto& [threads, form] :
       {std::pair{1, Form::kPlain}, std::pair{2, Form::kPlain}, std::pair{2, Form::kPadded}}) {
    KernelContext ctx = context_of(threads);
    const Array x = array_in_form(shape, dtype, form, values), out = Array::empty(shape, dtype);
    const Array rstd = Array::empty({300}, accumulation_type(dtype));
    rms_norm(ctx, x, random_array({401}, dtype, 13), 1e-5, out, rstd);
    softmax(ctx, out, 1, out);
    results.push_back(out);
  }
  CHECK(same_bits(results[0], results[1]));
  CHECK(same_bits(results[0], results[2]));
}

TEST_CASE("rope turns adjacent pairs by the table, and back", "[kernels][rope]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  const DType table_dtype = GENERATE(DType::kF32, DType::kF64);
  const Form form = GENERATE(Form::kPlain, Form::kTransposed, Form::kSpaced);
  const Shape shape = GENERATE(Shape{2, 5, 3, 8}, Shape{7, 1, 64}, Shape{2, 2, 40, 4, 6});
  CAPTURE(name_of(dtype), name_of(table_dtype), int(form), to_string(shape));
  const std::size_t nd = shape.size();
  const std::int64_t l = shape[nd - 3], h = shape[nd - 2], e = shape[nd - 1];
  std::vector<double> angles = random_values(l * e / 2, 14), cosines, sines;
  for (const double angle : angles) {
    cosines.push_back(std::cos(3 * angle));
    sines.push_back(std::sin(3 * angle));
  }
  const Array cos = Array::from_values({l, e / 2}, table_dtype, cosines);
  const Array sin = array_in_form({l, e / 2}, table_dtype, Form::kTransposed, sines);
  const Array x = random_array(shape, dtype, 15, form), out = empty_in_form(shape, dtype, form);
  KernelContext ctx = context_of(2);
  rope(ctx, x, cos, sin, Rotation::kForward, out);

  const std::vector<double> in = x.to_vector(), c = cos.to_vector(), s = sin.to_vector();
  std::vector<double> want(in.size());
  for (std::size_t i = 0; i < in.size(); i += 2) {
    const std::size_t pair = i % e / 2, at = i / (e * h) % l * (e / 2) + pair;
    want[i] = in[i] * c[at] - in[i + 1] * s[at];
    want[i + 1] = in[i] * s[at] + in[i + 1] * c[at];
  }
  CHECK(worst_error(out.to_vector(), want) < tolerance(dtype));
  rope(ctx, out, cos, sin, Rotation::kInverse, out);  // in place
  CHECK(worst_error(out.to_vector(), in) <
        (table_dtype == DType::kF32 ? 3 : 2) * std::max(tolerance(dtype), 2e-7));
}

TEST_CASE("the pieces of a cross-entropy are row maxima, sums and targets",
          "[kernels][cross_entropy]") {
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kBF16);
  const Form form = GENERATE(Form::kPlain, Form::kTransposed, Form::kSpaced);
  const std::int64_t classes = GENERATE(1, 37, 3000);
  CAPTURE(name_of(dtype), int(form), classes);
  const Shape rows = {4, 5};
  const DType sums = accumulation_type(dtype);
  std::vector<double> values = random_values(20 * classes, 16);
  for (double& value : values) value *= 9;
  const Array logits = array_in_form({4, 5, classes}, dtype, form, values);
  std::vector<double> ids(20);
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = i % 4 == 3 ? -1.0 : static_cast<double>(i * 7 % classes);
  const Array target =
      array_in_form(rows, GENERATE(DType::kI64, DType::kI32), Form::kTransposed, ids);
  const Array max = Array::empty(rows, sums), sum = Array::empty(rows, sums);
  const Array picked = empty_in_form(rows, sums, Form::kTransposed);
  KernelContext ctx = context_of(2);
  row_max(ctx, logits, max);
  row_sum_exp(ctx, logits, max, sum);
  row_target(ctx, logits, target, picked);

  std::vector<double> want_max, want_sum, want_target, lse, lines = logits.to_vector();
  for_each_line(lines, logits.shape(), 2, [&](std::vector<double>& line) {
    const double id = ids[lse.size()];
    want_max.push_back(*std::max_element(line.begin(), line.end()));
    want_target.push_back(id < 0 ? 0 : line[static_cast<std::size_t>(id)]);
    lse.push_back(log_sum_exp(line));
    want_sum.push_back(std::exp(lse.back() - want_max.back()));
  });
  CHECK(max.to_vector() == want_max);
  CHECK(picked.to_vector() == want_target);
  CHECK(worst_error(sum.to_vector(), want_sum) < (dtype == DType::kF64 ? 1e-14 : 3e-6));

  const Array grad = random_array(rows, sums, 17, Form::kTransposed),
              out = empty_in_form({4, 5, classes}, dtype, form);
  const Array row_lse = Array::from_values(rows, sums, lse);
  cross_entropy_grad(ctx, grad, logits, target, row_lse, out);
  const std::vector<double> g = grad.to_vector();
  std::size_t row = 0;
  for_each_line(lines, logits.shape(), 2, [&](std::vector<double>& line) {
    for (double& value : line) value = std::exp(value - lse[row]);
    if (ids[row] >= 0) line[static_cast<std::size_t>(ids[row])] -= 1;
    for (double& value : line) value *= g[row];
    ++row;
  });
  CHECK(worst_error(out.to_vector(), lines) < tolerance(dtype));
}

TEST_CASE("a shard without classes gives -inf, 0 and 0", "[kernels][cross_entropy]") {
  KernelContext ctx = context_of(1);
  const Array logits = Array::zeros({2, 3, 0}, DType::kF32),
              rows = Array::empty({2, 3}, DType::kF32);
  row_max(ctx, logits, rows);
  CHECK(rows.to_vector() == std::vector<double>(6, -kInf));
  row_sum_exp(ctx, logits, Array::zeros({2, 3}, DType::kF32), rows);
  CHECK(rows.to_vector() == std::vector<double>(6, 0.0));
  const Array absent = Array::from_values({2, 3}, DType::kI64, std::vector<double>(6, -1.0));
  kernels::fill(ctx, 5.0, rows);
  row_target(ctx, logits, absent, rows);
  CHECK(rows.to_vector() == std::vector<double>(6, 0.0));
  cross_entropy_grad(ctx, rows, logits, absent, rows, Array::empty({2, 3, 0}, DType::kF32));
}

TEST_CASE("NaN comes through row maxima and cross-entropy sums", "[kernels][cross_entropy]") {
  KernelContext ctx = context_of(1);
  const std::int64_t at = GENERATE(0, 15, 16, 39);
  std::vector<double> values(80, 1.0);
  values[40 + at] = kNan;
  const Array logits = Array::from_values({2, 40}, DType::kF32, values);
  const Array max = Array::empty({2}, DType::kF32), sum = Array::empty({2}, DType::kF32);
  row_max(ctx, logits, max);
  CHECK(worst_error(max.to_vector(), {1.0, kNan}) == 0.0);
  row_sum_exp(ctx, logits, Array::from_values({2}, DType::kF32, std::vector<double>{1, 1}), sum);
  CHECK(worst_error(sum.to_vector(), {40.0, kNan}) < 1e-6);
}

TEST_CASE("one gradient value serves all rows of a cross-entropy", "[kernels][cross_entropy]") {
  KernelContext ctx = context_of(1);
  const Array logits = random_array({3, 4}, DType::kF64, 18),
              lse = random_array({3}, DType::kF64, 19);
  const Array target = Array::from_values({3}, DType::kI64, std::vector<double>{0, -1, 3});
  const Array one = Array::empty({3, 4}, DType::kF64), all = Array::empty({3, 4}, DType::kF64);
  cross_entropy_grad(ctx, Array::from_values({}, DType::kF64, std::vector<double>{0.25}), logits,
                     target, lse, one);
  cross_entropy_grad(ctx, Array::from_values({3}, DType::kF64, std::vector<double>(3, 0.25)),
                     logits, target, lse, all);
  CHECK(same_bits(one, all));
}

TEST_CASE("row kernels name what does not fit", "[kernels][softmax][cross_entropy][rope]") {
  KernelContext ctx = context_of(1);
  const Array x = Array::zeros({2, 3}, DType::kF32),
              ids = Array::from_values({2}, DType::kI64, std::vector<double>{0, 3});
  const Array rows = Array::zeros({2}, DType::kF32);
  CHECK(error_of([&] { row_target(ctx, x, ids, rows); }) ==
        "row_target: target 3 at position 1; ids go from 0 to 2, and -1 for one held elsewhere");
  CHECK(error_of([&] { softmax(ctx, x, 1, rows); }) == "softmax: out has shape [2]; wanted [2, 3]");
  CHECK(error_of([&] { rms_norm(ctx, x, rows, 1e-5, x, rows); }) ==
        "rms_norm: weight has shape [2]; wanted [3]");
  CHECK(error_of([&] { rope(ctx, x, x, x, Rotation::kForward, x); }) ==
        "rope: x [2, 3]; wanted [..., L, H, E] with an even E");
}

}  // namespace
}  // namespace tessera
