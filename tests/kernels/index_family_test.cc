// Combining scatters, tuples of indices, sorted searches and counts against plain loops.
#include <algorithm>
#include <cmath>

#include "kernels/index.h"
#include "kernels/index_search.h"
#include "kernels/index_tuple.h"
#include "kernels/random.h"
#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using namespace kernels;  // the functions under test
using testing::array_in_form;
using testing::context_of;
using testing::error_of;
using testing::Form;
using testing::random_array;
using testing::random_values;
using testing::rounding;
using testing::worst_error;

constexpr Form kForms[] = {Form::kPlain, Form::kTransposed, Form::kPadded, Form::kSpaced};
constexpr DType kNumbers[] = {DType::kF64, DType::kF32, DType::kBF16,
                              DType::kF16, DType::kI64, DType::kI32};

/// Integers in [0, size), every fifth −1.
std::vector<double> positions_with_gaps(std::int64_t count, std::int64_t size, unsigned seed) {
  std::vector<double> values = random_values(count, seed);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = i % 5 == 3 ? -1 : std::floor((values[i] + 1) / 2 * static_cast<double>(size));
  }
  return values;
}

double combined(Combine combine, double held, double given) {
  switch (combine) {
    case Combine::kAssign:
      return given;
    case Combine::kAdd:
      return held + given;
    case Combine::kProduct:
      return held * given;
    case Combine::kMax:
      return std::max(held, given);
    case Combine::kMin:
      return std::min(held, given);
  }
  return 0;
}

TEST_CASE("scatters combine in operand order by a loop's definition", "[kernels][index]") {
  const Shape shape = {6, 5}, updates = {9, 5};
  for (const Combine combine :
       {Combine::kAssign, Combine::kAdd, Combine::kProduct, Combine::kMax, Combine::kMin}) {
    for (const DType dtype : kNumbers) {
      for (const Form form : kForms) {
        CAPTURE(static_cast<int>(combine), name_of(dtype), static_cast<int>(form));
        KernelContext ctx = context_of(1);
        std::vector<double> start = random_values(30, 1), given = random_values(45, 2);
        if (!is_floating(dtype)) {
          for (double& value : start) value = std::floor(value * 4);
          for (double& value : given) value = std::floor(value * 3);
        }
        const Array out = array_in_form(shape, dtype, form, start);
        const Array src = array_in_form(updates, dtype, form, given);
        const std::vector<double> at = positions_with_gaps(45, 6, 3);
        std::vector<double> want = out.to_vector();
        const std::vector<double> from = src.to_vector();
        for (std::size_t i = 0; i < at.size(); ++i) {
          if (at[i] < 0) continue;
          double& target = want[static_cast<std::size_t>(at[i]) * 5 + i % 5];
          target = combined(combine, target, from[i]);
        }
        scatter_combine(ctx, out, 0, Array::from_values(updates, DType::kI64, at), src, combine,
                        Absent::kSkip);
        const double allowed = is_floating(dtype) ? 12 * rounding(dtype) : 0.0;
        CHECK(worst_error(out.to_vector(), want) <= allowed);
      }
    }
  }
}

TEST_CASE("NaN wins a scatter's maximum and minimum", "[kernels][index]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  KernelContext ctx = context_of(1);
  for (const Combine combine : {Combine::kMax, Combine::kMin}) {
    const std::vector<double> start = {nan, 1, 2}, given = {5, nan, 3}, at = {0, 1, 2};
    const Array out = Array::from_values({3}, DType::kF64, start);
    scatter_combine(ctx, out, 0, Array::from_values({3}, DType::kI64, at),
                    Array::from_values({3}, DType::kF64, given), combine, Absent::kError);
    const std::vector<double> got = out.to_vector();
    CHECK(std::isnan(got[0]));
    CHECK(std::isnan(got[1]));
    CHECK(got[2] == (combine == Combine::kMax ? 3 : 2));
  }
}

struct TupleCase {
  Shape x;
  std::vector<int> dims;
  Shape index;
};
const std::vector<TupleCase>& tuple_cases() {
  static const std::vector<TupleCase> all = {
      {{7, 4}, {0}, {9}},          {{7, 4}, {1}, {2, 3}},      {{3, 5, 4}, {1, 2}, {6}},
      {{3, 5, 4}, {0, 2}, {2, 2}}, {{4, 3, 2, 5}, {1, 3}, {}}, {{6}, {0}, {0}}};
  return all;
}

/// For element i of the result: the element of x, or −1 where an index is −1.
std::vector<std::int64_t> sources(const TupleCase& c, const std::vector<std::vector<double>>& at) {
  const Shape out = tuple_shape(c.x, c.dims, c.index);
  const auto position = static_cast<std::size_t>(tuple_position(c.dims));
  std::vector<std::int64_t> from;
  for (std::int64_t i = 0; i < num_elements(out); ++i) {
    Shape coord(out.size(), 0);
    std::int64_t rest = i;
    for (std::size_t d = out.size(); d-- > 0;) {
      coord[d] = rest % out[d];
      rest /= out[d];
    }
    std::int64_t n = 0;
    for (std::size_t d = 0; d < c.index.size(); ++d) n = n * c.index[d] + coord[position + d];
    std::int64_t offset = 0;
    bool held = true;
    std::size_t next = 0;
    for (std::size_t d = 0; d < c.x.size(); ++d) {
      const auto found = std::find(c.dims.begin(), c.dims.end(), static_cast<int>(d));
      std::int64_t place = 0;
      if (found != c.dims.end()) {
        const auto k = static_cast<std::size_t>(found - c.dims.begin());
        place = static_cast<std::int64_t>(at[k][static_cast<std::size_t>(n)]);
        held = held && place >= 0;
      } else {
        if (next == position) next += c.index.size();
        place = coord[next++];
      }
      offset = offset * c.x[d] + place;
    }
    from.push_back(held ? offset : -1);
  }
  return from;
}

TEST_CASE("tuples of indices read and write by a loop's definition", "[kernels][index]") {
  for (const TupleCase& c : tuple_cases()) {
    for (const DType dtype : kNumbers) {
      for (const Form form : kForms) {
        CAPTURE(to_string(c.x), to_string(c.index), name_of(dtype), static_cast<int>(form));
        KernelContext ctx = context_of(1);
        std::vector<std::vector<double>> at;
        IndexTuple tuple{c.dims, {}};
        for (std::size_t k = 0; k < c.dims.size(); ++k) {
          at.push_back(positions_with_gaps(num_elements(c.index),
                                           c.x[static_cast<std::size_t>(c.dims[k])],
                                           static_cast<unsigned>(k + 1)));
          tuple.indices.push_back(Array::from_values(c.index, DType::kI64, at.back()));
        }
        const std::vector<std::int64_t> from = sources(c, at);
        const Array x = random_array(c.x, dtype, 5, form);
        const Shape shape = tuple_shape(c.x, c.dims, c.index);
        const Array out = testing::empty_in_form(shape, dtype, form);
        index_get(ctx, x, tuple, Absent::kSkip, out);
        const std::vector<double> held = x.to_vector();
        std::vector<double> read, written = held, added = held;
        const Array values = random_array(shape, dtype, 6, form);
        const std::vector<double> given = values.to_vector();
        for (std::size_t i = 0; i < from.size(); ++i) {
          read.push_back(from[i] < 0 ? 0.0 : held[static_cast<std::size_t>(from[i])]);
          if (from[i] < 0) continue;
          written[static_cast<std::size_t>(from[i])] = given[i];
          added[static_cast<std::size_t>(from[i])] += given[i];
        }
        CHECK(out.to_vector() == read);
        const Array put = array_in_form(c.x, dtype, form, held);
        index_put(ctx, put, tuple, values, Combine::kAssign, Absent::kSkip);
        // Of equal places the last wins, in the tuple's order, which is the loop's where the
        // tuple's dims lead or stand alone.
        if (tuple_position(c.dims) == 0) CHECK(put.to_vector() == written);
        const Array sum = array_in_form(c.x, dtype, form, held);
        index_put(ctx, sum, tuple, values, Combine::kAdd, Absent::kSkip);
        CHECK(worst_error(sum.to_vector(), added) <=
              (is_floating(dtype) ? 16 * rounding(dtype) : 0.0));
      }
    }
  }
}

TEST_CASE("a tuple's index outside its dim is named with its position", "[kernels][index]") {
  KernelContext ctx = context_of(1);
  const Array x = random_array({4, 3}, DType::kF64, 1);
  const std::vector<double> at = {0, 1, 4};
  const IndexTuple tuple{{0}, {Array::from_values({3}, DType::kI64, at)}};
  const Array out = Array::zeros({3, 3}, DType::kF64);
  CHECK(error_of([&] {
          index_get(ctx, x, tuple, Absent::kError, out);
        }).find("index: index 4 at position [2] lies outside [0, 4)") != std::string::npos);
}

TEST_CASE("searchsorted counts what comes before", "[kernels][index]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> line = {-2, -0.5, -0.5, 0, 1, 1, 1, 3, nan};
  std::vector<double> points = {-3, -2, -0.5, 0.25, 1, 3, 4, nan};
  const auto counts = [&](const std::vector<double>& sorted, double value, bool right) {
    double count = 0;
    for (const double each : sorted) {
      const bool less = std::isnan(value) ? !std::isnan(each) : each < value;
      const bool equal = std::isnan(value) ? std::isnan(each) : each == value;
      count += less || (right && equal) ? 1 : 0;
    }
    return count;
  };
  KernelContext ctx = context_of(2);
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    for (const bool right : {false, true}) {
      CAPTURE(name_of(dtype), right);
      const Array out = Array::zeros({2, 4}, DType::kI32);
      searchsorted(ctx, Array::from_values({9}, dtype, line),
                   Array::from_values({2, 4}, dtype, points), right ? Side::kRight : Side::kLeft,
                   out);
      std::vector<double> want;
      for (const double value : points) want.push_back(counts(line, value, right));
      CHECK(out.to_vector() == want);
    }
  }
  // One line for each row of the values.
  const std::vector<double> rows = {0, 1, 2, 10, 20, 30}, values = {1.5, -1, 15, 40};
  const Array out = Array::zeros({2, 2}, DType::kI64);
  searchsorted(ctx, Array::from_values({2, 3}, DType::kI64, rows),
               Array::from_values({2, 2}, DType::kF64, values), Side::kLeft, out);
  CHECK(out.to_vector() == std::vector<double>{2, 0, 1, 3});
  CHECK_FALSE(error_of([&] {
                searchsorted(ctx, Array::zeros({3, 3}, DType::kF64),
                             Array::zeros({2, 2}, DType::kF64), Side::kLeft, out);
              }).empty());
}

TEST_CASE("bincount counts, or sums weights", "[kernels][index]") {
  KernelContext ctx = context_of(1);
  const std::vector<double> ids = {3, 0, -1, 3, 1, 3}, weights = {0.5, 2, 9, 1.5, -1, 4};
  const Array x = Array::from_values({6}, DType::kI32, ids);
  const Array counts = Array::zeros({4}, DType::kI64);
  bincount(ctx, x, Array(), Absent::kSkip, counts);
  CHECK(counts.to_vector() == std::vector<double>{1, 1, 0, 3});
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    const Array sums = Array::zeros({4}, dtype);
    bincount(ctx, x, Array::from_values({6}, dtype, weights), Absent::kSkip, sums);
    CHECK(sums.to_vector() == std::vector<double>{2, -1, 0, 6});
  }
  CHECK(error_of([&] {
          bincount(ctx, x, Array(), Absent::kError, counts);
        }).find("index -1 at position [2]") != std::string::npos);
  const Array few = Array::zeros({3}, DType::kI64);
  CHECK(error_of([&] {
          bincount(ctx, x, Array(), Absent::kSkip, few);
        }).find("index 3 at position [0] lies outside [0, 3)") != std::string::npos);
}

TEST_CASE("nonzero_positions lists what is not 0 in row-major order", "[kernels][index]") {
  KernelContext ctx = context_of(1);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> values = {0, 1, -0.0, nan, 0, -2};
  const std::vector<std::int64_t> want = {1, 3, 5};
  for (const Form form : kForms) {
    CHECK(nonzero_positions(ctx, array_in_form({2, 3}, DType::kF32, form, values)) == want);
  }
}

/// Mean of many draws, as one dim.
double mean_of(const RandomSpec& spec, DType dtype) {
  KernelContext ctx = context_of(1);
  constexpr std::int64_t kCount = 20000;
  std::vector<std::vector<std::int64_t>> all(1, std::vector<std::int64_t>(kCount));
  for (std::int64_t i = 0; i < kCount; ++i) all[0][static_cast<std::size_t>(i)] = i;
  const Array out = Array::empty({kCount}, dtype);
  kernels::random(ctx, spec, {kCount}, all, out);
  double sum = 0;
  for (const double value : out.to_vector()) sum += value;
  return sum / kCount;
}

TEST_CASE("further distributions have their means", "[kernels][random]") {
  const auto of = [](Distribution d, double a, double b = 1.0) {
    return RandomSpec{.distribution = d, .a = a, .b = b, .seed = 3};
  };
  const DType kF = DType::kF64;
  CHECK(std::abs(mean_of(of(Distribution::kExponential, 2.0), kF) - 0.5) < 0.02);
  CHECK(std::abs(mean_of(of(Distribution::kLogNormal, 0.2, 0.5), kF) - std::exp(0.2 + 0.125)) <
        0.03);
  CHECK(std::abs(mean_of(of(Distribution::kGeometric, 0.25), DType::kI64) - 4.0) < 0.15);
  CHECK(std::abs(mean_of(of(Distribution::kBernoulli, 0.3), DType::kBool) - 0.3) < 0.02);
  CHECK(std::abs(mean_of(of(Distribution::kInteger, -3.0, 8.0), DType::kI32) - 2.0) < 0.15);
  CHECK_FALSE(
      error_of([&] { mean_of(of(Distribution::kInteger, 4.0, 4.0), DType::kI32); }).empty());
  CHECK_FALSE(error_of([&] { mean_of(of(Distribution::kBernoulli, 1.5), kF); }).empty());
  CHECK_FALSE(error_of([&] { mean_of(of(Distribution::kExponential, 0.0), kF); }).empty());
  CHECK_FALSE(error_of([&] { mean_of(of(Distribution::kNormal, 0.0), DType::kI64); }).empty());
}

}  // namespace
}  // namespace tessera
