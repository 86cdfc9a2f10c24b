#include "kernels/row_fold.h"

#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using namespace kernels;  // the functions under test
using testing::array_in_form;
using testing::context_of;
using testing::Form;
using testing::random_array;
using testing::same_bits;
using testing::worst_error;
using Values = std::vector<double>;

const double kNan = std::nan("");
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr Form kForms[] = {Form::kPlain, Form::kTransposed, Form::kPadded, Form::kSpaced};

Values folded(RowFolding folding, const Array& x, DType dtype = DType::kF64) {
  KernelContext ctx;
  const Array out = Array::empty(Shape(x.shape().begin(), x.shape().end() - 1), dtype);
  fold_rows(ctx, folding, x, out);
  return out.to_vector();
}

TEST_CASE("row folds of one row with zeros, signs and NaN", "[kernels][row_fold]") {
  const Array plain = Array::from_values({1, 4}, DType::kF64, Values{3, 0, -4, 1});
  const Array with_nan = Array::from_values({1, 4}, DType::kF32, Values{3, kNan, -4, 0});
  CHECK(folded({RowFold::kSumAbs}, plain) == Values{8});
  CHECK(folded({RowFold::kSumSquares}, plain) == Values{26});
  CHECK(folded({RowFold::kSumAbsPower, 3.0}, plain) == Values{92});
  CHECK(folded({RowFold::kMaxAbs}, plain) == Values{4});
  CHECK(folded({RowFold::kMinAbs}, plain) == Values{0});
  CHECK(folded({RowFold::kCountNonzero}, plain, DType::kI64) == Values{3});
  CHECK(folded({RowFold::kAny}, plain, DType::kBool) == Values{1});
  CHECK(folded({RowFold::kAll}, plain, DType::kBool) == Values{0});
  CHECK(folded({RowFold::kSumNumbers}, with_nan) == Values{-1});
  CHECK(folded({RowFold::kCountNumbers}, with_nan) == Values{3});
  CHECK(folded({RowFold::kCountNonzero}, with_nan) == Values{3});
  CHECK(std::isnan(folded({RowFold::kMaxAbs}, with_nan)[0]));
  CHECK(std::isnan(folded({RowFold::kMinAbs}, with_nan)[0]));
}

TEST_CASE("row folds of no element give the identity", "[kernels][row_fold]") {
  const Array none = Array::empty({2, 0}, DType::kF64);
  CHECK(folded({RowFold::kSumSquares}, none) == Values{0, 0});
  CHECK(folded({RowFold::kMaxAbs}, none) == Values{0, 0});
  CHECK(folded({RowFold::kMinAbs}, none) == Values{kInf, kInf});
  CHECK(folded({RowFold::kAny}, none) == Values{0, 0});
  CHECK(folded({RowFold::kAll}, none) == Values{1, 1});
}

TEST_CASE("moments agree with two plain passes, in any form", "[kernels][row_fold]") {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    for (const Form form : kForms) {
      const Array x = random_array({3, 2500}, dtype, 8, form);
      const Array out = Array::empty({3, 3}, DType::kF64),
                  again = Array::empty({3, 3}, DType::kF64);
      KernelContext one = context_of(1), two = context_of(2);
      row_moments(one, x, out);
      row_moments(two, x, again);
      CHECK(same_bits(out, again));
      const Values values = x.to_vector();
      Values want(9);
      for (std::size_t row = 0; row < 3; ++row) {
        double sum = 0, deviations = 0;
        for (std::size_t i = 0; i < 2500; ++i) sum += values[row * 2500 + i];
        for (std::size_t i = 0; i < 2500; ++i) {
          deviations += std::pow(values[row * 2500 + i] - sum / 2500, 2);
        }
        want[row] = 2500;
        want[3 + row] = sum / 2500;
        want[6 + row] = deviations;
      }
      CHECK(worst_error(out.to_vector(), want) < 1e-12);
    }
  }
}

TEST_CASE("products of others take zeros and infinities for factors like others",
          "[kernels][row_fold]") {
  KernelContext ctx;
  constexpr double kInf = HUGE_VAL;
  const Array x =
      Array::from_values({4, 3}, DType::kF32, Values{2, 3, 5, 0, 3, 5, kInf, 2, -1, 0, 0, 7});
  const Array others = Array::empty({4, 3}, DType::kF64), totals = Array::empty({4}, DType::kF64);
  products_of_others(ctx, x, others, totals);
  CHECK(others.to_vector() == Values{15, 10, 6, 15, 0, 0, -2, -kInf, kInf, 0, 0, 0});
  CHECK(totals.to_vector() == Values{30, 0, -kInf, 0});
  const Array none = Array::empty({2, 0}, DType::kF64), ones = Array::empty({2}, DType::kF64);
  products_of_others(ctx, none, none, ones);
  CHECK(ones.to_vector() == Values{1, 1});
}

TEST_CASE("moments of a far mean keep their digits", "[kernels][row_fold]") {
  KernelContext ctx;
  Values values(4000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 1e8 + (i % 2 == 0 ? 1.0 : -1.0);
  const Array out = Array::empty({3, 1}, DType::kF64);
  row_moments(ctx, Array::from_values({1, 4000}, DType::kF64, values), out);
  CHECK(out.to_vector() == Values{4000, 1e8, 4000});
}

TEST_CASE("moments of uneven and empty parts join to those of the whole", "[kernels][row_fold]") {
  KernelContext ctx;
  const Array x = random_array({2, 11}, DType::kF64, 5);
  const Array whole = Array::empty({3, 2}, DType::kF64);
  row_moments(ctx, x, whole);
  const std::int64_t borders[] = {0, 4, 4, 10, 11};
  const Array parts = Array::empty({4, 3, 2}, DType::kF64);
  for (std::int64_t p = 0; p < 4; ++p) {
    const Array part = parts.slice(0, p, p + 1).try_view({3, 2});
    row_moments(ctx, x.slice(1, borders[p], borders[p + 1]), part);
  }
  const Array joined = Array::empty({3, 2}, DType::kF64);
  combine_moments(ctx, parts, joined);
  CHECK(worst_error(joined.to_vector(), whole.to_vector()) < 1e-14);
}

}  // namespace
}  // namespace tessera
