// Folds of rows of the device against the processor's.
#include "kernels/row_fold.h"

#include <cmath>
#include <limits>

#include "kernels/reduce.h"
#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

using namespace kernels;

constexpr int kRowFoldCases = 250;

/// Of up to 3 dims; (…) of rows of one segment and of several, few and many.
Shape shape_of_rows(TwinMaker& make) {
  Shape shape(static_cast<std::size_t>(make.number(0, 3)));
  for (std::int64_t& size : shape) size = make.number(0, 30) == 0 ? 0 : make.number(1, 5);
  return shape;
}
std::int64_t row_size(TwinMaker& make) {
  const std::int64_t kind = make.number(0, 9);
  return kind == 0 ? 0 : kind < 4 ? make.number(30, 300) : make.number(1, 20);
}
Shape joined(std::int64_t first, Shape shape) {
  shape.insert(shape.begin(), first);
  return shape;
}
Shape joined(Shape shape, std::int64_t last) {
  shape.push_back(last);
  return shape;
}
/// Dense, unlike what an output is in general.
Twins dense(TwinMaker& make, const Shape& shape) { return make.values(shape, DType::kF64); }

}  // namespace

TEST_CASE("folds of rows are the same on the device", "[device][row_fold]") {
  OnDevice on;
  TwinMaker make(on, 71);
  const auto fold =
      static_cast<RowFold>(GENERATE(range(0, static_cast<int>(RowFold::kMinAbs) + 1)));
  const double power = GENERATE(0.5, 3.0);
  if (fold != RowFold::kSumAbsPower && power == 0.5) return;
  for (int i = 0; i < kRowFoldCases; ++i) {
    const Shape rows = shape_of_rows(make);
    const DType dtype = any_of(make, kAll);
    const DType to = make.number(0, 1) == 0 ? DType::kF64 : any_of(make, kFloating);
    const Twins x = make.view(joined(rows, row_size(make)), dtype), out = make.output(rows, to);
    CAPTURE(static_cast<int>(fold), power, i, x.host.shape(), name_of(dtype), name_of(to));
    CHECK(compare(on, out, 100 * tolerance_of(to), [&](KernelContext& ctx, bool device) {
            fold_rows(ctx, {fold, power}, side(x, device), side(out, device));
          }) == "");
  }
  const Twins x = make.values({3, 4}, DType::kF32), wrong = make.values({4}, DType::kF64);
  CHECK(compare(on, wrong, 0.0, [&](KernelContext& ctx, bool device) {
          fold_rows(ctx, {fold, power}, side(x, device), side(wrong, device));
        }) == "");
}

TEST_CASE("products of others are the same on the device", "[device][row_fold]") {
  OnDevice on;
  TwinMaker make(on, 72);
  for (int i = 0; i < kRowFoldCases; ++i) {
    const Shape rows = shape_of_rows(make), shape = joined(rows, row_size(make));
    const DType dtype = any_of(make, kAll);
    const Twins x =
        i % 2 == 0 && is_floating(dtype) ? make.squares(shape, dtype) : make.view(shape, dtype);
    const Twins others = dense(make, shape), totals = dense(make, joined(rows, 1));
    CAPTURE(i, shape, name_of(dtype));
    CHECK(compare(on, others, 1e-11, [&](KernelContext& ctx, bool device) {
            products_of_others(ctx, side(x, device), side(others, device), side(totals, device));
          }) == "");
    CHECK(difference(fetch(on, totals.device), totals.host, 1e-11) == "");
  }
}

TEST_CASE("moments of rows, and of parts of them, are the same on the device",
          "[device][row_fold]") {
  OnDevice on;
  TwinMaker make(on, 73);
  for (int i = 0; i < kRowFoldCases; ++i) {
    const Shape rows = shape_of_rows(make);
    const DType dtype = i % 30 == 0 ? DType::kI32 : any_of(make, kFloating);
    Shape shape = joined(rows, row_size(make));
    if (i % 25 == 1) shape = {2, make.number(1000, 2500)};
    const Shape kept(shape.begin(), shape.end() - 1);
    const Twins x = i % 3 == 0 ? make.view(shape, dtype) : make.squares(shape, dtype),
                out = i % 20 == 0 ? make.values(joined(2, kept), DType::kF64)
                                  : dense(make, joined(3, kept));
    CAPTURE(i, shape, name_of(dtype));
    CHECK(compare(on, out, 1e-11, [&](KernelContext& ctx, bool device) {
            row_moments(ctx, side(x, device), side(out, device));
          }) == "");

    const std::int64_t parts = make.number(0, 5);
    const Twins of_parts = make.view(joined(parts, joined(3, kept)), DType::kF64),
                whole = dense(make, joined(3, kept));
    CHECK(compare(on, whole, 1e-9, [&](KernelContext& ctx, bool device) {
            combine_moments(ctx, side(of_parts, device), side(whole, device));
          }) == "");
    CHECK(compare(on, whole, 1e-9, [&](KernelContext& ctx, bool device) {
            combine_moments(ctx, side(of_parts, device), side(x, device));
          }) == "");
  }
}

TEST_CASE("moments far from zero keep their digits on the device", "[device][row_fold]") {
  OnDevice on;
  TwinMaker make(on, 74);
  std::vector<double> numbers(2000);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 1e8 + static_cast<double>(i % 2);
  const Twins x = make.of(Array::from_values({2000}, DType::kF64, numbers)), out = dense(make, {3});
  row_moments(on.ctx, x.device, out.device);
  const std::vector<double> moments = fetch(on, out.device).to_vector();
  CHECK(moments[0] == 2000.0);
  CHECK(moments[1] == 1e8 + 0.5);
  CHECK(std::fabs(moments[2] - 500.0) < 1e-6);
}

TEST_CASE("first extremes along any dim are the same on the device", "[device][row_fold]") {
  OnDevice on;
  TwinMaker make(on, 75);
  for (int i = 0; i < 2 * kRowFoldCases; ++i) {
    Shape shape = shape_of_rows(make);
    const auto dim = static_cast<int>(make.number(0, std::ssize(shape)));
    shape.insert(shape.begin() + dim, row_size(make));
    const auto d = static_cast<std::size_t>(dim);
    const auto output_shape = [&] {
      Shape out = shape;
      out[d] = 1;
      if (make.number(0, 1) == 0) out.erase(out.begin() + dim);
      if (i % 30 == 0) out.push_back(2);
      return out;
    };
    const DType dtype = any_of(make, kAll);
    const Extreme which = i % 2 == 0 ? Extreme::kMax : Extreme::kMin;
    const Twins x = make.view(shape, dtype), indices = make.output(output_shape(), DType::kI64),
                values = make.output(output_shape(), dtype);
    const bool wants_values = make.number(0, 2) > 0;
    CAPTURE(i, shape, dim, name_of(dtype), static_cast<int>(which), wants_values);
    CHECK(compare(on, indices, 0.0, [&](KernelContext& ctx, bool device) {
            arg_extreme(ctx, which, side(x, device), dim,
                        wants_values ? side(values, device) : Array(), side(indices, device));
          }) == "");
    CHECK(difference(fetch(on, values.device), values.host, 0.0) == "");
  }
  const Twins x = make.values({3, 4}, DType::kF32), indices = make.values({3}, DType::kI32),
              values = make.values({3}, DType::kF64);
  for (const int dim : {-1, 1, 2}) {
    CHECK(compare(on, indices, 0.0, [&](KernelContext& ctx, bool device) {
            arg_extreme(ctx, Extreme::kMax, side(x, device), dim, Array(), side(indices, device));
          }) == "");
    CHECK(compare(on, values, 0.0, [&](KernelContext& ctx, bool device) {
            arg_extreme(ctx, Extreme::kMax, side(x, device), dim, side(values, device),
                        side(values, device));
          }) == "");
  }
}

TEST_CASE("sums of squares of all elements are the same on the device", "[device][row_fold]") {
  OnDevice on;
  TwinMaker make(on, 76);
  for (int i = 0; i < kRowFoldCases; ++i) {
    const Shape shape = i % 3 == 0 ? Shape{make.number(0, 4000)} : make.shape();
    const DType dtype = any_of(make, kAll);
    Twins x = i % 2 == 0 ? make.squares(shape, dtype) : make.view(shape, dtype);
    if (shape.size() == 1 && shape[0] > 3) {  // not aligned
      x = {x.host.slice(0, 1, shape[0]), x.device.slice(0, 1, shape[0])};
    }
    CAPTURE(i, shape, name_of(dtype));
    const Twins out = make.of(Array::zeros({}, DType::kF64));
    CHECK(compare(on, out, 1e-12, [&](KernelContext& ctx, bool device) {
            sum_of_squares(ctx, side(x, device), side(out, device));
          }) == "");
  }
}

}  // namespace tessera::testing
