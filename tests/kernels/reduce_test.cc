#include "kernels/reduce.h"

#include <functional>

#include "kernels/scan.h"
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
using testing::rounding;
using testing::same_bits;
using testing::worst_error;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");
constexpr Form kForms[] = {Form::kPlain, Form::kTransposed, Form::kPadded, Form::kSpaced};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kMax, ReduceOp::kMin,
                             ReduceOp::kProd};

double fold(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return a + b;
    case ReduceOp::kProd:
      return a * b;
    case ReduceOp::kMax:
      return std::isnan(a) || std::isnan(b) ? kNan : std::max(a, b);
    case ReduceOp::kMin:
      break;
  }
  return std::isnan(a) || std::isnan(b) ? kNan : std::min(a, b);
}

double identity(ReduceOp op) {
  if (op == ReduceOp::kProd) return 1;
  if (op == ReduceOp::kMax) return -kInf;
  return op == ReduceOp::kMin ? kInf : 0;
}

bool contains(const std::vector<int>& dims, int dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

Shape reduced_shape(const Shape& shape, const std::vector<int>& dims, bool keeps) {
  Shape out;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    if (!contains(dims, d))
      out.push_back(shape[d]);
    else if (keeps)
      out.push_back(1);
  }
  return out;
}

/// By one loop over all elements in double.
std::vector<double> reference(ReduceOp op, const Array& x, const std::vector<int>& dims) {
  const Shape kept = reduced_shape(x.shape(), dims, true);
  std::vector<double> out(static_cast<std::size_t>(num_elements(kept)), identity(op));
  const std::vector<double> values = x.to_vector();
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t at = 0, step = 1;
    for (int d = x.ndim() - 1; d >= 0; --d) {
      if (!contains(dims, d)) at += rest % x.size(d) * step;
      step *= kept[d];
      rest /= x.size(d);
    }
    out[static_cast<std::size_t>(at)] = fold(op, out[static_cast<std::size_t>(at)], values[i]);
  }
  double count = 1;
  for (const int d : dims) count *= static_cast<double>(x.size(d));
  if (op == ReduceOp::kAvg)
    for (double& value : out) value /= count;
  return out;
}

double squares_of(KernelContext& ctx, const Array& x) {
  const Array out = Array::empty({}, DType::kF64);
  sum_of_squares(ctx, x, out);
  return out.to_vector()[0];
}

TEST_CASE("every subset of dims reduces like a loop, in any form", "[kernels][reduce]") {
  for (const Shape& shape : {Shape{3, 4, 5}, Shape{2, 3, 2, 37}, Shape{70, 1, 40}, Shape{19}}) {
    const int ndim = static_cast<int>(shape.size());
    for (unsigned subset = 0; subset < (1U << ndim); ++subset) {
      std::vector<int> dims;
      for (int d = 0; d < ndim; ++d)
        if ((subset >> d & 1U) != 0) dims.push_back(d);
      for (const Form form : kForms) {
        for (const ReduceOp op : kOps) {
          CAPTURE(to_string(shape), subset, static_cast<int>(form), std::string(name_of(op)));
          KernelContext ctx;
          const Array x = random_array(shape, DType::kF64, 3, form);
          for (const bool keeps : {false, true}) {
            const Array out = Array::empty(reduced_shape(shape, dims, keeps), DType::kF64);
            reduce(ctx, op, x, dims, out);
            REQUIRE(worst_error(out.to_vector(), reference(op, x, dims)) < 1e-13);
          }
        }
      }
    }
  }
}

TEST_CASE("long reductions in every dtype, along rows and columns", "[kernels][reduce]") {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI64, DType::kI32, DType::kBool}) {
    for (const Form form : kForms) {
      for (const int dim : {0, 1}) {
        for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kAvg}) {
          CAPTURE(std::string(name_of(dtype)), static_cast<int>(form), dim,
                  std::string(name_of(op)));
          KernelContext ctx;
          std::vector<double> values = random_values(1237 * 531, 5);
          if (!is_floating(dtype))
            for (double& value : values) value = std::floor(value * 10);
          if (dtype == DType::kBool)
            for (double& value : values) value = value > 0 ? 1 : 0;
          const Array x = array_in_form({1237, 531}, dtype, form, values);
          const bool whole = op == ReduceOp::kSum && !is_floating(dtype);
          const DType to = whole ? DType::kI64 : op == ReduceOp::kAvg ? DType::kF64 : dtype;
          const Array out = Array::empty({dim == 0 ? 531 : 1237}, to);
          const std::vector<int> dims = {dim};
          reduce(ctx, op, x, dims, out);
          // F64 sums, so one rounding into the output is all that may be seen.
          const double allowed = is_floating(to) ? std::max(1.01 * rounding(to), 1e-12) : 0.0;
          CHECK(worst_error(out.to_vector(), reference(op, x, dims), 1e-3) <= allowed);
        }
      }
    }
  }
}

TEST_CASE("reductions give the same bits on 1 and 2 threads", "[kernels][reduce]") {
  KernelContext one = context_of(1), two = context_of(2);
  for (const Shape& shape :
       {Shape{300000}, Shape{2, 150000}, Shape{50000, 6}, Shape{700, 900}, Shape{40, 70, 90}}) {
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
      const Array x = random_array(shape, dtype, 9);
      for (int dim = 0; dim < static_cast<int>(shape.size()); ++dim) {
        const std::vector<int> dims = {dim};
        const Array a = Array::empty(reduced_shape(shape, dims, false), dtype);
        const Array b = Array::empty(a.shape(), dtype);
        reduce(one, ReduceOp::kSum, x, dims, a);
        reduce(two, ReduceOp::kSum, x, dims, b);
        CHECK(same_bits(a, b));
      }
      CHECK(squares_of(one, x) == squares_of(two, x));
    }
  }
}

TEST_CASE("NaN wins extremes wherever it stands; empty reductions give identities",
          "[kernels][reduce]") {
  KernelContext ctx;
  const std::vector<int> last = {1};
  for (const std::int64_t n : {1, 5, 32, 100}) {
    for (const std::int64_t at : {std::int64_t{0}, n / 2, n - 1}) {
      const Array x = random_array({2, n}, DType::kF32, 1);
      x.data<float>()[at] = std::nanf("");
      const Array out = Array::empty({2}, DType::kF32);
      for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin, ReduceOp::kSum}) {
        reduce(ctx, op, x, last, out);
        CHECK(worst_error(out.to_vector(), reference(op, x, last)) < 1e-6);
        CHECK(std::isnan(out.to_vector()[0]));
      }
    }
  }
  for (const ReduceOp op : kOps) {
    const Array out = Array::empty({3}, DType::kF64);
    reduce(ctx, op, Array::zeros({3, 0}, DType::kF64), last, out);
    const double want = op == ReduceOp::kAvg ? kNan : identity(op);
    CHECK(worst_error(out.to_vector(), {want, want, want}) == 0);
    reduce(ctx, op, Array::zeros({0, 3}, DType::kF64).transpose(0, 1), last, out);
    CHECK(worst_error(out.to_vector(), {want, want, want}) == 0);
    reduce(ctx, op, Array::zeros({0, 4}, DType::kF32), last, Array::zeros({0}, DType::kF32));
  }
  const Array whole = Array::empty({1}, DType::kI32);
  reduce(ctx, ReduceOp::kMax, Array::zeros({1, 0}, DType::kI32), last, whole);
  CHECK(whole.to_vector()[0] == std::numeric_limits<std::int32_t>::min());
  CHECK(error_of([&] {
          reduce(ctx, ReduceOp::kSum, Array::zeros({2, 3}, DType::kF32), last,
                 Array::zeros({3}, DType::kF32));
        }) == "reduce: the output has shape [3], expected [2] or [2, 1]");
  const std::vector<int> missing = {2};
  CHECK(error_of([&] {
          reduce(ctx, ReduceOp::kSum, Array::zeros({2, 3}, DType::kF32), missing,
                 Array::zeros({3}, DType::kF32));
        }) == "reduce: dim 2 of an array of shape [2, 3]");
}

TEST_CASE("an F32 sum of many terms loses nothing to its own length", "[kernels][reduce]") {
  KernelContext ctx;
  const std::int64_t n = 3'000'000;
  const Array x = Array::empty({n}, DType::kF32);
  fill(ctx, 0.1, x);
  const Array out = Array::empty({}, DType::kF32);
  const std::vector<int> dims = {0};
  reduce(ctx, ReduceOp::kSum, x, dims, out);
  const float want = static_cast<float>(static_cast<double>(0.1F) * static_cast<double>(n));
  CHECK(out.data<float>()[0] == want);
}

TEST_CASE("outputs of any strides", "[kernels][reduce]") {
  KernelContext ctx;
  const Array x = random_array({5, 6, 7}, DType::kF64, 2);
  for (const Form form : kForms) {
    const std::vector<int> dims = {1};
    const Array out = empty_in_form({5, 7}, DType::kF64, form);
    reduce(ctx, ReduceOp::kSum, x, dims, out);
    CHECK(worst_error(out.to_vector(), reference(ReduceOp::kSum, x, dims)) < 1e-14);
  }
}

TEST_CASE("arg_extreme takes the first of equals, and NaN before all", "[kernels][reduce]") {
  KernelContext ctx;
  const std::vector<double> values = {3, 7, 7, 1,      1,    7, /**/ 2, 2,  2,
                                      2, 2, 2, /**/ 0, kNan, 9, kNan,   -1, 3};
  for (const Form form : kForms) {
    const Array x = array_in_form({3, 6}, DType::kF32, form, values);
    const Array best = Array::empty({3}, DType::kF32), at = Array::empty({3, 1}, DType::kI64);
    arg_extreme(ctx, Extreme::kMax, x, 1, best, at);
    CHECK(at.to_vector() == std::vector<double>{1, 0, 1});
    CHECK(worst_error(best.to_vector(), {7, 2, kNan}) == 0);
    arg_extreme(ctx, Extreme::kMin, x, 1, best, at);
    CHECK(at.to_vector() == std::vector<double>{3, 0, 1});
    const Array column = Array::empty({6}, DType::kI64);
    arg_extreme(ctx, Extreme::kMax, x, 0, Array(), column);
    CHECK(column.to_vector() == std::vector<double>{0, 2, 2, 2, 1, 0});
  }
  const Array empty = Array::zeros({2, 0}, DType::kF32);
  CHECK(error_of([&] {
          arg_extreme(ctx, Extreme::kMax, empty, 1, Array(), Array::zeros({2}, DType::kI64));
        }) == "arg_extreme: dim 1 of shape [2, 0] is empty");
}

TEST_CASE("cumsum runs along any dim", "[kernels][reduce]") {
  KernelContext one = context_of(1), two = context_of(2);
  for (const Form form : kForms) {
    const Array x = random_array({30, 40, 50}, DType::kF64, 4, form);
    for (int dim = 0; dim < 3; ++dim) {
      const Array out = empty_in_form({30, 40, 50}, DType::kF64, form),
                  again = Array::empty({30, 40, 50}, DType::kF64);
      scan(one, Scan::kSum, x, dim, out);
      scan(two, Scan::kSum, x, dim, again);
      CHECK(same_bits(out, again));
      std::vector<double> want = x.to_vector();
      const std::int64_t step = dim == 0 ? 2000 : dim == 1 ? 50 : 1;
      for (std::int64_t i = 0; i < 60000; ++i) {
        if (i / step % x.size(dim) > 0)
          want[static_cast<std::size_t>(i)] += want[static_cast<std::size_t>(i - step)];
      }
      CHECK(worst_error(out.to_vector(), want) < 1e-14);
    }
  }
  const Array flags = Array::from_values({4}, DType::kBool, std::vector<double>{1, 0, 1, 1});
  const Array counts = Array::empty({4}, DType::kI64);
  scan(one, Scan::kSum, flags, 0, counts);
  CHECK(counts.to_vector() == std::vector<double>{1, 1, 2, 3});
}

TEST_CASE("sum_of_squares adds up in F64", "[kernels][reduce]") {
  KernelContext ctx;
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kI32}) {
    for (const Form form : kForms) {
      const Array x = random_array({123, 457}, dtype, 6, form);
      double want = 0;
      for (const double value : x.to_vector()) want += value * value;
      CHECK(std::abs(squares_of(ctx, x) - want) <= 1e-12 * want);
    }
  }
  CHECK(squares_of(ctx, Array::zeros({0}, DType::kF32)) == 0.0);
}

}  // namespace
}  // namespace tessera
