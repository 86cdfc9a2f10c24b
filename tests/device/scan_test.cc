// Scans of the device against the processor's.
#include "kernels/scan.h"

#include <cmath>

#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

using namespace kernels;

constexpr int kScanCases = 250;

/// Lines of one segment and of several, few lines and many.
Shape shape_of_lines(TwinMaker& make, int& dim) {
  Shape shape(static_cast<std::size_t>(make.number(1, 3)));
  for (std::int64_t& size : shape) size = make.number(0, 30) == 0 ? 0 : make.number(1, 6);
  dim = static_cast<int>(make.number(0, std::ssize(shape) - 1));
  const std::int64_t kind = make.number(0, 9);
  shape[static_cast<std::size_t>(dim)] = kind == 0  ? 0
                                         : kind < 4 ? make.number(30, 300)
                                                    : make.number(1, 20);
  return shape;
}
/// All are formed in F64, whose last digits depend on the order.
double scan_tolerance(DType to) { return to == DType::kF64 ? 1e-11 : 2 * tolerance_of(to); }
Shape parts_shape(std::int64_t parts, Shape shape, int dim) {
  shape.erase(shape.begin() + dim);
  shape.insert(shape.begin(), parts);
  return shape;
}

}  // namespace

TEST_CASE("running folds are the same on the device", "[device][scan]") {
  OnDevice on;
  TwinMaker make(on, 61);
  for (int i = 0; i < 3 * kScanCases; ++i) {
    int dim = 0;
    const Shape shape = shape_of_lines(make, dim);
    const auto fold = static_cast<Scan>(i % 3);
    const DType dtype = any_of(make, kAll);
    const bool converts = make.number(0, 3) == 0;  // to integers from integers alone
    const DType to = !converts            ? dtype
                     : is_floating(dtype) ? any_of(make, kFloating)
                                          : any_of(make, kAll);
    const Twins x = fold == Scan::kProd && is_floating(dtype) ? make.squares(shape, dtype)
                                                              : make.view(shape, dtype),
                out = make.output(shape, to);
    const double tolerance = scan_tolerance(to);
    CAPTURE(i, shape, dim, static_cast<int>(fold), name_of(dtype), name_of(to));
    CHECK(compare(on, out, tolerance, [&](KernelContext& ctx, bool device) {
            scan(ctx, fold, side(x, device), dim, side(out, device));
          }) == "");
    CHECK(compare(on, out, tolerance, [&](KernelContext& ctx, bool device) {
            sum_back(ctx, side(x, device), dim, side(out, device));
          }) == "");
  }
}

TEST_CASE("products of special values are the same on the device", "[device][scan]") {
  OnDevice on;
  TwinMaker make(on, 62);
  for (int i = 0; i < kScanCases; ++i) {
    const std::int64_t n = make.number(1, 200);
    const Twins x = make.view({n}, DType::kF64), out = make.output({n}, DType::kF64);
    CHECK(compare(on, out, 1e-11, [&](KernelContext& ctx, bool device) {
            scan(ctx, Scan::kProd, side(x, device), 0, side(out, device));
          }) == "");
  }
}

TEST_CASE("what comes before joins a scan on the device", "[device][scan]") {
  OnDevice on;
  TwinMaker make(on, 63);
  for (int i = 0; i < kScanCases; ++i) {
    int dim = 0;
    const Shape shape = shape_of_lines(make, dim);
    const auto fold = static_cast<Scan>(i % 3);
    const DType dtype = any_of(make, kAll);
    const std::int64_t parts = make.number(1, 5), count = make.number(0, parts);
    const Twins carries = make.view(parts_shape(parts, shape, dim), dtype),
                out = make.output(shape, dtype);
    CAPTURE(i, shape, dim, static_cast<int>(fold), name_of(dtype), parts, count);
    CHECK(compare(on, out, 10 * tolerance_of(dtype), [&](KernelContext& ctx, bool device) {
            carry_scan(ctx, fold, side(carries, device), count, dim, side(out, device));
          }) == "");
  }
}

TEST_CASE("running extremes are the same on the device, ties and NaN too", "[device][scan]") {
  OnDevice on;
  TwinMaker make(on, 64);
  for (int i = 0; i < 2 * kScanCases; ++i) {
    int dim = 0;
    const Shape shape = shape_of_lines(make, dim);
    const Extreme which = i % 2 == 0 ? Extreme::kMax : Extreme::kMin;
    const DType dtype = any_of(make, kAll);
    const Twins x = make.view(shape, dtype), values = make.output(shape, dtype),
                indices = make.output(shape, DType::kI64);
    CAPTURE(i, shape, dim, static_cast<int>(which), name_of(dtype));
    CHECK(compare(on, values, 0.0, [&](KernelContext& ctx, bool device) {
            scan_extreme(ctx, which, side(x, device), dim, side(values, device),
                         side(indices, device));
          }) == "");
    CHECK(difference(fetch(on, indices.device), indices.host, 0.0) == "");

    const std::int64_t parts = make.number(1, 4), count = make.number(0, parts);
    const Twins carries = make.view(parts_shape(parts, shape, dim), dtype),
                places = make.view(parts_shape(parts, shape, dim), DType::kI64);
    CHECK(compare(on, values, 0.0, [&](KernelContext& ctx, bool device) {
            carry_extreme(ctx, which, {side(carries, device), side(places, device), count}, dim,
                          side(values, device), side(indices, device));
          }) == "");
    CHECK(difference(fetch(on, indices.device), indices.host, 0.0) == "");
  }
}

TEST_CASE("the gradient of a log-sum-exp scan is the same on the device", "[device][scan]") {
  OnDevice on;
  TwinMaker make(on, 65);
  for (int i = 0; i < kScanCases; ++i) {
    int dim = 0;
    const Shape shape = shape_of_lines(make, dim);
    const DType dtype = any_of(make, kFloating);
    const Twins x = i % 2 == 0 ? make.view(shape, dtype) : make.squares(shape, dtype);
    const Array sums_here = Array::empty(shape, dtype);
    KernelContext cpu;
    scan(cpu, Scan::kLogSumExp, x.host, dim, sums_here);
    const Twins result = make.of(sums_here), grad = make.squares(shape, dtype);
    const Twins sums = make.output(shape, DType::kF64);
    CAPTURE(i, shape, dim, name_of(dtype));
    CHECK(compare(on, sums, 1e-11, [&](KernelContext& ctx, bool device) {
            log_scan_sums(ctx, side(grad, device), side(result, device), dim, side(sums, device));
          }) == "");

    const std::int64_t parts = make.number(1, 4), next = make.number(0, parts);
    const Shape of_parts = parts_shape(parts, shape, dim);
    const Twins results = make.view(of_parts, DType::kF64),
                firsts = make.view(of_parts, DType::kF64);
    CHECK(compare(on, sums, 1e-11, [&](KernelContext& ctx, bool device) {
            log_scan_grad(ctx, {side(x, device), side(result, device)},
                          {side(results, device), side(firsts, device), next}, dim,
                          side(sums, device));
          }) == "");
  }
}

TEST_CASE("sums of a log-sum-exp scan's gradient are never -0.0 on the device", "[device][scan]") {
  OnDevice on;
  TwinMaker make(on, 66);
  const Twins grad =
                  make.of(Array::from_values({100}, DType::kF32, std::vector<double>(100, -0.0))),
              result = make.squares({100}, DType::kF32), sums = make.values({100}, DType::kF64);
  log_scan_sums(on.ctx, grad.device, result.device, 0, sums.device);
  for (const double sum : fetch(on, sums.device).to_vector()) {
    if (sum != 0.0 || std::signbit(sum)) FAIL(sum);
  }
}

TEST_CASE("a scan in place and one of many dims are the same on the device", "[device][scan]") {
  OnDevice on;
  TwinMaker make(on, 67);
  const Twins line = make.values({400}, DType::kI64);
  CHECK(compare(on, line, 0.0, [&](KernelContext& ctx, bool device) {
          scan(ctx, Scan::kSum, side(line, device), 0, side(line, device));
        }) == "");
  const Twins cube = make.values(Shape(11, 3), DType::kI32);
  const auto part = [](Array array) {
    for (int d = 0; d < 11; ++d) array = array.slice(d, 0, 2);
    return array;
  };
  const Twins x = {part(cube.host), part(cube.device)};  // nothing merges
  const Twins out = make.output(Shape(11, 2), DType::kI64);
  CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
          scan(ctx, Scan::kSum, side(x, device), 5, side(out, device));
        }) == "");
}

TEST_CASE("what cannot be scanned is the same error on the device", "[device][scan]") {
  OnDevice on;
  TwinMaker make(on, 68);
  const Twins x = make.values({3, 4}, DType::kI32), other = make.values({4, 3}, DType::kI32),
              out = make.values({3, 4}, DType::kI32), indices = make.values({3, 4}, DType::kI64);
  const auto errors = [&](const Twins& to, int dim, Scan fold) {
    CHECK(compare(on, to, 0.0, [&](KernelContext& ctx, bool device) {
            scan(ctx, fold, side(x, device), dim, side(to, device));
          }) == "");
    CHECK(compare(on, to, 0.0, [&](KernelContext& ctx, bool device) {
            sum_back(ctx, side(x, device), dim, side(to, device));
          }) == "");
    CHECK(compare(on, to, 0.0, [&](KernelContext& ctx, bool device) {
            scan_extreme(ctx, Extreme::kMax, side(x, device), dim, side(to, device),
                         side(indices, device));
          }) == "");
    CHECK(compare(on, to, 0.0, [&](KernelContext& ctx, bool device) {
            log_scan_sums(ctx, side(x, device), side(to, device), 0, side(indices, device));
          }) == "");
  };
  errors(out, 0, Scan::kLogSumExp);
  errors(out, 2, Scan::kSum);
  errors(out, -1, Scan::kProd);
  errors(other, 1, Scan::kSum);
}

}  // namespace tessera::testing
