// Reductions of the device against the processor's.
#include "kernels/reduce.h"

#include "tests/device/device_arrays.h"

namespace tessera::testing {

using namespace kernels;

TEST_CASE("reductions over any dims are the same on the device", "[device][reduce]") {
  OnDevice on;
  TwinMaker make(on, 31);
  const auto op = static_cast<ReduceOp>(GENERATE(range(0, static_cast<int>(ReduceOp::kProd) + 1)));
  for (int i = 0; i < 200; ++i) {
    const Shape shape = make.shape();
    const bool keeps_ones = make.number(0, 1) == 0;
    std::vector<int> dims;
    Shape left;
    for (int d = 0; d < std::ssize(shape); ++d) {
      const bool goes = make.number(0, 1) == 0;
      if (goes) dims.push_back(d);
      if (!goes || keeps_ones) left.push_back(goes ? 1 : shape[static_cast<std::size_t>(d)]);
    }
    if (i % 50 == 0) dims.push_back(static_cast<int>(std::ssize(shape)));  // there is none
    const DType dtype = any_of(make, kAll),
                to = make.number(0, 2) == 0 ? any_of(make, kAll) : dtype;
    const Twins x = make.view(shape, dtype), out = make.output(left, to);
    CAPTURE(static_cast<int>(op), i, shape, dims, left, name_of(dtype), name_of(to));
    CHECK(compare(on, out, 50 * tolerance_of(to), [&](KernelContext& ctx, bool device) {
            reduce(ctx, op, side(x, device), dims, side(out, device));
          }) == "");
  }
}

TEST_CASE("few long lines fold in parts, rows as columns", "[device][reduce]") {
  OnDevice on;
  TwinMaker make(on, 33);
  const auto op = static_cast<ReduceOp>(GENERATE(range(0, static_cast<int>(ReduceOp::kProd) + 1)));
  for (int i = 0; i < 40; ++i) {
    const Shape shape = {make.number(1, 4) * 48, make.number(1, 9), make.number(1, 3)};
    const DType dtype = any_of(make, kAll);
    const bool by_columns = make.number(0, 1) == 0;
    const auto lines = [&](const Array& x) { return by_columns ? x : x.transpose(0, 2); };
    const Twins x = make.mild(shape, dtype);
    const int along = by_columns ? 0 : 2;
    const Twins out =
        make.output(by_columns ? Shape{shape[1], shape[2]} : Shape{shape[2], shape[1]}, dtype);
    const std::vector<int> dims = {along};
    CAPTURE(static_cast<int>(op), i, shape, name_of(dtype), by_columns);
    CHECK(compare(on, out, 50 * tolerance_of(dtype), [&](KernelContext& ctx, bool device) {
            reduce(ctx, op, lines(side(x, device)), dims, side(out, device));
          }) == "");
    const Twins whole = make.output({}, dtype);
    const std::vector<int> all = {0, 1, 2};
    CHECK(compare(on, whole, 50 * tolerance_of(dtype), [&](KernelContext& ctx, bool device) {
            reduce(ctx, op, side(x, device), all, side(whole, device));
          }) == "");
  }
}

TEST_CASE("a reduction covers more dims than a launch", "[device][reduce]") {
  OnDevice on;
  TwinMaker make(on, 32);
  const Shape shape(20, 2);
  const Twins whole = make.values(shape, DType::kI64);
  // Every second dim goes: nothing merges.
  std::vector<int> dims;
  for (int d = 0; d < 20; d += 2) dims.push_back(d);
  const Twins out = make.output(Shape(10, 2), DType::kI64);
  CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
          reduce(ctx, ReduceOp::kSum, side(whole, device), dims, side(out, device));
        }) == "");
}

}  // namespace tessera::testing
