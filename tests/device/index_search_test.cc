// Searches, counts and the grouping of keys on the device against the processor's.
#include "kernels/index_search.h"

#include <limits>

#include "kernels/row_select.h"
#include "tests/device/index_twins.h"

namespace tessera::testing {
namespace {

using namespace kernels;

constexpr int kCases = 300;

/// Each line of `shape`'s last dim ascending, NaN last.
Twins ascending(TwinMaker& make, const Shape& shape, DType dtype) {
  const Twins random = make.values(shape, dtype);
  std::vector<double> values = random.host.to_vector();
  const std::int64_t n = shape.back();
  for (std::size_t begin = 0; n > 0 && begin < values.size();
       begin += static_cast<std::size_t>(n)) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(begin);
    std::sort(first, first + n, [](double a, double b) { return b != b ? a == a : a < b; });
  }
  return make.of(Array::from_values(shape, dtype, values));
}

}  // namespace

TEST_CASE("places in sorted lines are the same on the device", "[device][index]") {
  OnDevice on;
  TwinMaker make(on, 121);
  for (int i = 0; i < kCases; ++i) {
    const Shape shape = i % 3 == 0 ? make.shape() : indexed_shape(make);
    const bool one_line = i % 3 == 0 || i % 2 == 0;
    Shape of_sorted = shape;
    if (one_line) of_sorted = {0};
    of_sorted.back() = make.number(0, 5) == 0 ? 0 : make.number(1, 70);
    if (i % 25 == 0) of_sorted.push_back(2);
    const DType of_lines = any_of(make, kAll), of_values = any_of(make, kAll),
                to = i % 3 == 1 ? DType::kI32 : DType::kI64;
    const Twins sorted = ascending(make, of_sorted, of_lines), values = make.view(shape, of_values),
                out = make.output(shape, to);
    CAPTURE(i, of_sorted, shape, name_of(of_lines), name_of(of_values));
    for (const Side at : {Side::kLeft, Side::kRight}) {
      CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
              searchsorted(ctx, side(sorted, device), side(values, device), at, side(out, device));
            }) == "");
    }
  }
}

TEST_CASE("values are counted, with weights and without, as on the processor", "[device][index]") {
  OnDevice on;
  TwinMaker make(on, 122);
  for (int i = 0; i < kCases; ++i) {
    Shape shape = make.shape();
    if (i % 10 == 0) shape = {make.number(250, 1500)};
    const std::int64_t bins = i % 12 == 0 ? make.number(4090, 5000) : make.number(0, 20);
    const Absent absent = any_absent(make);
    const DType dtype = any_of(make, kAll);
    const Twins x = shape.empty()
                        ? index_into(make, shape, bins, absent, DType::kI64)
                        : index_view(make, shape, 0, bins, absent, any_of(make, kIndexTypes));
    const Twins weights = make.view(i % 40 == 0 ? Shape{17} : shape, dtype);
    const Twins counts = make.output({bins}, DType::kI64), sums = make.output({bins}, dtype);
    CAPTURE(i, shape, bins, name_of(dtype));
    CHECK(compare(on, counts, 0.0, [&](KernelContext& ctx, bool device) {
            bincount(ctx, side(x, device), Array(), absent, side(counts, device));
          }) == "");
    if (i % 40 == 0 && shape.size() != 0) continue;  // both are wrong: which one is said first
    CHECK(compare(on, sums, 0.0, [&](KernelContext& ctx, bool device) {
            bincount(ctx, side(x, device), side(weights, device), absent, side(sums, device));
          }) == "");
  }
}

TEST_CASE("elements that are not 0 are found as on the processor", "[device][index]") {
  OnDevice on;
  TwinMaker make(on, 123);
  for (int i = 0; i < kCases; ++i) {
    Shape shape = make.shape();
    if (i % 10 == 0) shape = {make.number(250, 2500)};
    const DType dtype = any_of(make, kAll);
    const Twins x = make.view(shape, dtype);
    KernelContext cpu;
    CAPTURE(i, shape, name_of(dtype));
    CHECK(nonzero_positions(on.ctx, x.device) == nonzero_positions(cpu, x.host));
  }
}

TEST_CASE("histograms are the same on the device", "[device][index]") {
  OnDevice on;
  TwinMaker make(on, 124);
  for (int i = 0; i < kCases; ++i) {
    const Shape shape = i % 10 == 0 ? Shape{make.number(250, 1500)} : make.shape();
    const std::int64_t bins = i % 20 == 0 ? make.number(4090, 5000) : make.number(1, 20);
    const DType dtype = any_of(make, kAll), to = any_of(make, kAll);
    const Twins x = make.view(shape, dtype), out = make.output({bins}, to);
    const double low = i % 7 == 0 ? 0.0 : -2.5, high = i % 5 == 0 ? 1.0 : 3.0;
    CAPTURE(i, shape, bins, name_of(dtype), name_of(to));
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            histogram(ctx, side(x, device), low, high, side(out, device));
          }) == "");
  }
}

}  // namespace tessera::testing
