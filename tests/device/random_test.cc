// Random values of the device against the processor's.
#include "kernels/random.h"

#include <algorithm>
#include <numeric>

#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

using namespace kernels;

using Lists = std::vector<std::vector<std::int64_t>>;

/// Indices of one dim in a whole of `size`: an interval, two of them, every second, or any order.
std::vector<std::int64_t> some_of(TwinMaker& make, std::int64_t size) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  const std::int64_t form = make.number(0, 4);
  if (form == 0 || size == 0) return all;
  const std::int64_t start = make.number(0, size), stop = make.number(start, size);
  std::vector<std::int64_t> part(all.begin() + start, all.begin() + stop);
  if (form == 2) part.insert(part.end(), all.begin(), all.begin() + start / 2);
  if (form == 3) std::erase_if(part, [](std::int64_t i) { return i % 2 != 0; });
  if (form == 4) std::reverse(part.begin(), part.end());
  return part;
}

/// Some of its results are not the same to the last bit where logarithms and the like are not.
bool is_exact(Distribution distribution) {
  return distribution == Distribution::kUniform || distribution == Distribution::kBernoulli ||
         distribution == Distribution::kInteger;
}

}  // namespace

TEST_CASE("random values of any part are the same on the device", "[device][random]") {
  OnDevice on;
  TwinMaker make(on, 71);
  const auto distribution =
      static_cast<Distribution>(GENERATE(range(0, static_cast<int>(Distribution::kInteger) + 1)));
  for (int i = 0; i < 200; ++i) {
    Shape whole = make.shape(), shape;
    for (std::int64_t& size : whole) size *= make.number(1, 3);
    Lists lists;
    for (const std::int64_t size : whole) {
      lists.push_back(some_of(make, size));
      shape.push_back(std::ssize(lists.back()));
    }
    const bool is_count = distribution >= Distribution::kGeometric;
    const DType dtype = i % 30 == 0 || is_count ? any_of(make, kAll) : any_of(make, kFloating);
    RandomSpec spec{.distribution = distribution, .a = 0.3, .b = 1.7, .low = -1.1, .high = 2.0};
    if (distribution == Distribution::kInteger) {
      spec.a = 0.0;
      spec.b = static_cast<double>(make.number(0, 300));  // too many for some dtypes
    }
    spec.seed = static_cast<std::uint64_t>(make.number(0, 1 << 30)) << 20;
    spec.stream = stream_of(std::to_string(i));
    const Twins out = make.output(shape, dtype);
    CAPTURE(static_cast<int>(distribution), i, whole, shape, name_of(dtype), spec.b);
    const double tolerance = is_exact(distribution) ? 0.0 : 8 * tolerance_of(dtype);
    CHECK(compare(on, out, tolerance, [&](KernelContext& ctx, bool device) {
            random(ctx, spec, whole, lists, side(out, device));
          }) == "");
  }
}

TEST_CASE("uniform values stay below their end on the device", "[device][random]") {
  OnDevice on;
  TwinMaker make(on, 72);
  const DType dtype = GENERATE(DType::kF32, DType::kBF16, DType::kF16);
  const RandomSpec spec{.a = 0, .b = 1, .seed = 1};
  Lists all(1, std::vector<std::int64_t>(20000));
  std::iota(all[0].begin(), all[0].end(), 0);
  const Twins out = make.values({20000}, dtype);
  CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
          random(ctx, spec, {20000}, all, side(out, device));
        }) == "");
  const std::vector<double> values = fetch(on, out.device).to_vector();
  CHECK(*std::max_element(values.begin(), values.end()) < 1.0);
}

TEST_CASE("random values follow lists of many pieces, and many dims, on the device",
          "[device][random]") {
  OnDevice on;
  TwinMaker make(on, 73);
  Lists odd(2);
  for (std::int64_t i = 0; i < 450; ++i) odd[0].push_back(2 * i + 1);
  odd[1] = {3, 2};
  const Twins out = make.output({450, 2}, DType::kF64);
  CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
          random(ctx, {.seed = 3}, {1000, 4}, odd, side(out, device));
        }) == "");
  const Shape deep(14, 2);
  const Lists pairs(14, {1, 2});
  const Twins far = make.output(deep, DType::kF32);
  CHECK(compare(on, far, 0.0, [&](KernelContext& ctx, bool device) {
          random(ctx, {.seed = 4}, Shape(14, 5), pairs, side(far, device));
        }) == "");
  CHECK(compare(on, far, 0.0, [&](KernelContext& ctx, bool device) {
          random(ctx, {.seed = 4}, Shape(14, 5), odd, side(far, device));
        }) == "");
}

}  // namespace tessera::testing
