// Elements by an index on the device against the processor's.
#include "kernels/index.h"

#include "kernels/elementwise.h"
#include "kernels/index_tuple.h"
#include "tests/device/index_twins.h"

namespace tessera::testing {
namespace {

using namespace kernels;

constexpr int kCases = 400;

/// An index's shape that fits into `shape` outside of `dim`, and is long along it now and then.
Shape smaller_shape(TwinMaker& make, const Shape& shape, int dim) {
  Shape smaller = shape;
  for (std::int64_t& size : smaller) {
    if (size > 0 && make.number(0, 3) == 0) size = make.number(1, size);
  }
  smaller[static_cast<std::size_t>(dim)] =
      make.number(0, 3) == 0 ? make.number(65, 330) : make.number(0, 12);
  return smaller;
}

/// Small integers: sums and products are the same in any order of the floating types.
Twins terms(TwinMaker& make, const Shape& shape, DType dtype) {
  return make.number(0, 3) == 0 ? make.values(shape, dtype) : make.view(shape, dtype);
}

}  // namespace

TEST_CASE("gather is the same on the device, bad indices too", "[device][index]") {
  OnDevice on;
  TwinMaker make(on, 101);
  for (int i = 0; i < kCases; ++i) {
    const Shape shape = indexed_shape(make);
    const int dim = static_cast<int>(make.number(0, std::ssize(shape) - 1));
    const Shape taken = smaller_shape(make, shape, dim);
    const DType dtype = any_of(make, kAll);
    const Absent absent = any_absent(make);
    const Twins x = make.view(shape, dtype), out = make.output(taken, dtype);
    const Twins index = index_view(make, taken, dim, shape[static_cast<std::size_t>(dim)], absent,
                                   i % 40 == 7 ? DType::kU8 : any_of(make, kIndexTypes));
    CAPTURE(i, shape, dim, taken, name_of(dtype));
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            gather(ctx, side(x, device), dim, side(index, device), absent, side(out, device));
          }) == "");
    const Twins wrong = make.output(shape, DType::kF64);
    CHECK(compare(on, wrong, 0.0, [&](KernelContext& ctx, bool device) {
            gather(ctx, side(x, device), dim + i % 5, side(index, device), absent,
                   side(wrong, device));
          }) == "");
  }
}

TEST_CASE("scatters of each kind are the same on the device", "[device][index]") {
  OnDevice on;
  TwinMaker make(on, 102);
  const auto combine =
      static_cast<Combine>(GENERATE(range(0, static_cast<int>(Combine::kMin) + 1)));
  for (int i = 0; i < kCases; ++i) {
    const Shape shape = indexed_shape(make);
    const int dim = static_cast<int>(make.number(0, std::ssize(shape) - 1));
    const Shape brought = smaller_shape(make, shape, dim);
    Shape larger = brought;
    if (make.number(0, 3) == 0) larger[0] += 2;
    const DType dtype = any_of(make, kAll);
    const Absent absent = any_absent(make);
    const Twins src = terms(make, larger, dtype), out = make.output(shape, dtype);
    const Twins index = index_view(make, brought, dim, shape[static_cast<std::size_t>(dim)], absent,
                                   any_of(make, kIndexTypes));
    CAPTURE(static_cast<int>(combine), i, shape, dim, brought, larger, name_of(dtype));
    // The order of additions is the processor's: not a bit differs.
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            scatter_combine(ctx, side(out, device), dim, side(index, device), side(src, device),
                            combine, absent);
          }) == "");
  }
}

TEST_CASE("scatter, scatter_value and scatter_add are the same on the device", "[device][index]") {
  OnDevice on;
  TwinMaker make(on, 103);
  for (int i = 0; i < kCases; ++i) {
    const Shape shape = indexed_shape(make);
    const int dim = static_cast<int>(make.number(0, std::ssize(shape) - 1));
    const Shape brought = smaller_shape(make, shape, dim);
    const DType dtype = any_of(make, kAll);
    const Absent absent = any_absent(make);
    const Twins src = terms(make, i % 30 == 0 ? Shape{2} : brought, dtype),
                out = make.output(shape, dtype);
    const Twins index = index_view(make, brought, dim, shape[static_cast<std::size_t>(dim)], absent,
                                   any_of(make, kIndexTypes));
    CAPTURE(i, shape, dim, brought, name_of(dtype));
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            scatter(ctx, side(out, device), dim, side(index, device), side(src, device), absent);
          }) == "");
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            scatter_value(ctx, side(out, device), dim, side(index, device), -1.5, absent);
          }) == "");
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            scatter_add(ctx, side(out, device), dim, side(index, device), side(src, device),
                        absent);
          }) == "");
  }
}

TEST_CASE("elements of more dims than a launch covers are gathered and scattered",
          "[device][index]") {
  OnDevice on;
  TwinMaker make(on, 104);
  const Shape shape(11, 2);
  for (const int dim : {0, 5, 10}) {
    // Turned dims do not merge.
    const auto turned = [&](DType dtype) {
      const Twins whole = make.values(shape, dtype);
      Shape strides;
      for (int d = 0; d < 11; ++d) {
        strides.push_back(whole.host.strides()[static_cast<std::size_t>((d * 4) % 11)]);
      }
      return Twins{whole.host.as_strided(shape, strides, 0),
                   whole.device.as_strided(shape, strides, 0)};
    };
    const Twins x = turned(DType::kBF16), out = make.values(shape, DType::kBF16);
    const Twins index = index_into(make, shape, 2, Absent::kSkip, DType::kI32);
    CAPTURE(dim);
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            gather(ctx, side(x, device), dim, side(index, device), Absent::kSkip,
                   side(out, device));
          }) == "");
    CHECK(compare(on, x, 0.0, [&](KernelContext& ctx, bool device) {
            scatter_add(ctx, side(x, device), dim, side(index, device), side(out, device),
                        Absent::kSkip);
          }) == "");
  }
}

TEST_CASE("long lines of more dims than a launch covers are scattered element by element",
          "[device][index]") {
  OnDevice on;
  TwinMaker make(on, 106);
  for (const int dim : {0, 4, 9}) {
    Shape shape(10, 2), turned(10, 2), strides;
    shape[static_cast<std::size_t>(dim)] = 70;
    turned[static_cast<std::size_t>((dim * 3) % 10)] = 70;
    const DType dtype = dim == 4 ? DType::kF16 : DType::kF32;
    const Twins whole = make.values(turned, dtype), src = make.values(shape, dtype);
    for (int d = 0; d < 10; ++d) {
      strides.push_back(whole.host.strides()[static_cast<std::size_t>((d * 3) % 10)]);
    }
    const Twins out{whole.host.as_strided(shape, strides, 0),
                    whole.device.as_strided(shape, strides, 0)};
    const Twins index = index_into(make, shape, 70, Absent::kSkip, DType::kI64);
    CAPTURE(dim);
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            scatter_add(ctx, side(out, device), dim, side(index, device), side(src, device),
                        Absent::kSkip);
          }) == "");
  }
}

TEST_CASE("slices of an array that runs backwards are found and written", "[device][index]") {
  OnDevice on;
  TwinMaker make(on, 107);
  const Twins x = make.values({6, 4, 3}, DType::kF32);
  // The processor's kernel takes offsets below 0 for none: it gets a copy.
  const Array backwards = x.device.as_strided({6, 4, 3}, {12, -3, 1}, 9);
  KernelContext cpu;
  const Twins dense = make.of(contiguous(cpu, x.host.as_strided({6, 4, 3}, {12, -3, 1}, 9)));
  const Twins a = make.of(Array::from_values({3}, DType::kI64, std::vector<double>{5, 0, 5})),
              b = make.of(Array::from_values({3}, DType::kI64, std::vector<double>{3, 1, 3}));
  const Twins out = make.values({3, 3}, DType::kF32);
  const auto tuple_of = [&](bool device) {
    return IndexTuple{{0, 1}, {side(a, device), side(b, device)}};
  };
  CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
          index_get(ctx, device ? backwards : dense.host, tuple_of(device), Absent::kError,
                    side(out, device));
        }) == "");
  const Twins target{dense.host, backwards}, values = make.values({3, 3}, DType::kF32);
  CHECK(compare(on, target, 0.0, [&](KernelContext& ctx, bool device) {
          index_put(ctx, side(target, device), tuple_of(device), side(values, device),
                    Combine::kAdd, Absent::kError);
        }) == "");
}

TEST_CASE("slices by several indices are the same on the device", "[device][index]") {
  OnDevice on;
  TwinMaker make(on, 105);
  for (int i = 0; i < kCases; ++i) {
    const Shape shape = indexed_shape(make);
    const DType dtype = any_of(make, kAll);
    const Absent absent = any_absent(make);
    const Twins x = make.view(shape, dtype);
    Shape of_index(static_cast<std::size_t>(make.number(0, 2)));
    for (std::int64_t& size : of_index) {
      size = make.number(0, 20) == 0 ? 0 : make.number(1, make.number(0, 5) == 0 ? 40 : 5);
    }
    IndexTuple tuple[2];
    for (int d = 0; d < std::ssize(shape); ++d) {
      const bool is_last = d + 1 == std::ssize(shape);
      if (make.number(0, 1) == 0 && !(is_last && tuple[0].dims.empty())) continue;
      const Twins index =
          index_into(make, of_index, shape[static_cast<std::size_t>(d)], absent, DType::kI64);
      for (const bool device : {false, true}) {
        tuple[device ? 1 : 0].dims.push_back(d);
        tuple[device ? 1 : 0].indices.push_back(side(index, device));
      }
    }
    const Shape of_result = tuple_shape(shape, tuple[0].dims, of_index);
    const Twins values = make.view(of_result, dtype), out = make.output(of_result, dtype);
    CAPTURE(i, shape, tuple[0].dims, of_index, name_of(dtype));
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            index_get(ctx, side(x, device), tuple[device ? 1 : 0], absent, side(out, device));
          }) == "");
    for (const Combine combine : {Combine::kAssign, Combine::kAdd}) {
      CHECK(compare(on, x, 0.0, [&](KernelContext& ctx, bool device) {
              index_put(ctx, side(x, device), tuple[device ? 1 : 0], side(values, device), combine,
                        absent);
            }) == "");
    }
    if (shape[0] == 0) continue;
    const Twins first = make.of(Array::zeros({4}, DType::kI64)), wrong = make.values({3}, dtype);
    CHECK(compare(on, wrong, 0.0, [&](KernelContext& ctx, bool device) {
            index_get(ctx, side(x, device), {.dims = {0}, .indices = {side(first, device)}}, absent,
                      side(wrong, device));
          }) == "");
  }
}

}  // namespace tessera::testing
