// Kernels along lines of the device against the processor's.
#include "kernels/norm.h"

#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

using namespace kernels;

constexpr int kNormCases = 200;

/// Lines longer than a warp now and then.
Shape shape_of_lines(TwinMaker& make) {
  Shape shape = make.shape();
  shape.push_back(make.number(0, 3) == 0 ? make.number(33, 150)
                                         : make.number(make.number(0, 9) == 0 ? 0 : 1, 12));
  return shape;
}
Shape without_last(Shape shape) {
  shape.pop_back();
  return shape;
}

}  // namespace

TEST_CASE("softmax, its logarithm and its gradient are the same on the device", "[device][norm]") {
  OnDevice on;
  TwinMaker make(on, 11);
  for (int i = 0; i < kNormCases; ++i) {
    const Shape shape = shape_of_lines(make);
    const int dim = static_cast<int>(make.number(0, std::ssize(shape) - 1));
    const DType dtype = i % 40 == 0 ? DType::kI64 : any_of(make, kFloating);
    const DType to = make.number(0, 2) == 0 ? any_of(make, kFloating) : dtype;
    const Twins x = make.view(shape, dtype), grad = make.view(shape, dtype),
                out = make.output(shape, to);
    const double tolerance = 8 * std::max(tolerance_of(to), tolerance_of(dtype));
    CAPTURE(i, shape, dim, name_of(dtype), name_of(to));
    CHECK(compare(on, out, tolerance, [&](KernelContext& ctx, bool device) {
            softmax(ctx, side(x, device), dim, side(out, device));
          }) == "");
    CHECK(compare(on, out, tolerance, [&](KernelContext& ctx, bool device) {
            log_softmax(ctx, side(x, device), dim, side(out, device));
          }) == "");
    CHECK(compare(on, out, 20 * tolerance, [&](KernelContext& ctx, bool device) {
            softmax_grad(ctx, side(grad, device), side(x, device), dim, side(out, device));
          }) == "");
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            softmax(ctx, side(x, device), static_cast<int>(shape.size()), side(out, device));
          }) == "");
  }
}

TEST_CASE("RMS norm and its gradients are the same on the device", "[device][norm]") {
  OnDevice on;
  TwinMaker make(on, 12);
  for (int i = 0; i < kNormCases; ++i) {
    Shape shape = shape_of_lines(make);
    if (i % 20 == 0) shape = {make.number(100, 300), 5};  // many rows: several bundles
    const Shape rows = without_last(shape);
    const DType dtype = any_of(make, kFloating),
                of_weight = make.number(0, 1) == 0 ? dtype : any_of(make, kFloating);
    const DType of_rstd = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    const Shape line = {shape.back()};
    const Twins x = make.view(shape, dtype), weight = make.view(line, of_weight),
                grad = make.view(shape, dtype);
    const Twins out = make.output(shape, dtype), rstd = make.output(rows, of_rstd);
    const Twins grad_x = make.output(shape, dtype), grad_weight = make.output(line, of_weight);
    const double tolerance = 40 * std::max(tolerance_of(dtype), tolerance_of(of_weight));
    CAPTURE(i, shape, name_of(dtype), name_of(of_weight));
    CHECK(compare(on, out, tolerance, [&](KernelContext& ctx, bool device) {
            rms_norm(ctx, side(x, device), side(weight, device), 1e-5, side(out, device),
                     side(rstd, device));
          }) == "");
    CHECK(difference(fetch(on, rstd.device), rstd.host, tolerance) == "");
    CHECK(compare(on, grad_x, tolerance, [&](KernelContext& ctx, bool device) {
            rms_norm_grad(ctx, side(grad, device), side(x, device), side(rstd, device),
                          side(weight, device), side(grad_x, device), side(grad_weight, device));
          }) == "");
    CHECK(difference(fetch(on, grad_weight.device), grad_weight.host, tolerance) == "");
    const Twins wrong = make.values({shape.back() + 1}, of_weight);
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            rms_norm(ctx, side(x, device), side(wrong, device), 1e-5, side(out, device),
                     side(rstd, device));
          }) == "");
  }
}

TEST_CASE("gradients of a norm's weight add up many rows as the processor does", "[device][norm]") {
  OnDevice on;
  TwinMaker make(on, 36);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::int64_t rows = 64 * 64 * 2 + 70;  // tasks of three bundles, the last ones short
    const Twins x = make.mild({rows, 5}, dtype), grad = make.mild({rows, 5}, dtype);
    const Twins rstd = make.mild({rows}, DType::kF32), weight = make.mild({5}, DType::kF32);
    const Twins grad_x = make.output({rows, 5}, dtype), grad_weight = make.output({5}, DType::kF32);
    CHECK(compare(on, grad_weight, 1e-5, [&](KernelContext& ctx, bool device) {
            rms_norm_grad(ctx, side(grad, device), side(x, device), side(rstd, device),
                          side(weight, device), side(grad_x, device), side(grad_weight, device));
          }) == "");
  }
}

TEST_CASE("rotations are the same on the device, and their inverse", "[device][norm]") {
  OnDevice on;
  TwinMaker make(on, 13);
  for (int i = 0; i < kNormCases; ++i) {
    const std::int64_t length = make.number(0, 5), pairs = make.number(1, 20);
    Shape shape = make.shape();
    shape.push_back(length);
    shape.push_back(make.number(1, 4));
    shape.push_back(2 * pairs);
    const DType dtype = any_of(make, kFloating),
                of_table = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    const Twins x = make.view(shape, dtype), cos = make.view({length, pairs}, of_table);
    const Twins sin = make.view({length, pairs}, of_table), out = make.output(shape, dtype);
    const Rotation rotation = i % 2 == 0 ? Rotation::kForward : Rotation::kInverse;
    CAPTURE(i, shape, name_of(dtype));
    CHECK(compare(on, out, 60 * tolerance_of(dtype), [&](KernelContext& ctx, bool device) {
            rope(ctx, side(x, device), side(cos, device), side(sin, device), rotation,
                 side(out, device));
          }) == "");
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            rope(ctx, side(x, device), side(x, device), side(sin, device), rotation,
                 side(out, device));
          }) == "");
  }
}

TEST_CASE("the pieces of a cross-entropy are the same on the device, bad targets too",
          "[device][norm]") {
  OnDevice on;
  TwinMaker make(on, 14);
  for (int i = 0; i < kNormCases; ++i) {
    const Shape shape = shape_of_lines(make), rows = without_last(shape);
    const std::int64_t classes = shape.back();
    const DType dtype = any_of(make, kFloating),
                of_rows = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    const DType of_ids = make.number(0, 1) == 0 ? DType::kI64 : DType::kI32;
    const Twins logits = make.view(shape, dtype), max = make.output(rows, of_rows),
                sum = make.output(rows, of_rows);
    const Twins grad = make.view(i % 3 == 0 ? Shape{} : rows, of_rows),
                out = make.output(shape, dtype);
    std::vector<double> ids(static_cast<std::size_t>(num_elements(rows)));
    for (double& id : ids)
      id = static_cast<double>(make.number(-1, std::max<std::int64_t>(classes - 1, -1)));
    const bool is_bad = i % 5 == 0 && !ids.empty();
    if (is_bad) {
      ids[static_cast<std::size_t>(make.number(0, std::ssize(ids) - 1))] =
          static_cast<double>(classes + 3);
      ids.back() = -2;
    }
    const Twins target = make.of(Array::from_values(rows, of_ids, ids));
    const double tolerance = 20 * tolerance_of(dtype);
    CAPTURE(i, shape, name_of(dtype), is_bad);
    CHECK(compare(on, max, 0.0, [&](KernelContext& ctx, bool device) {
            row_max(ctx, side(logits, device), side(max, device));
          }) == "");
    CHECK(compare(on, sum, tolerance, [&](KernelContext& ctx, bool device) {
            row_sum_exp(ctx, side(logits, device), side(max, device), side(sum, device));
          }) == "");
    CHECK(compare(on, sum, 0.0, [&](KernelContext& ctx, bool device) {
            row_target(ctx, side(logits, device), side(target, device), side(sum, device));
          }) == "");
    CHECK(compare(on, out, tolerance, [&](KernelContext& ctx, bool device) {
            cross_entropy_grad(ctx, side(grad, device), side(logits, device), side(target, device),
                               side(max, device), side(out, device));
          }) == "");
  }
}

}  // namespace tessera::testing
