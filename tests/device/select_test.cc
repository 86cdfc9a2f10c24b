// Sorting and selecting kernels of the device against the processor's.
#include "kernels/select.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/elementwise.h"
#include "kernels/row_select.h"
#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

using namespace kernels;

constexpr int kSelectCases = 200;

/// Lines longer than a block's tile now and then, so long that several runs merge.
std::int64_t line_size(TwinMaker& make) {
  switch (make.number(0, 9)) {
    case 0:
      return make.number(300, 1400);
    case 1:
    case 2:
      return make.number(33, 300);
    default:
      return make.number(1, 20);
  }
}
Shape shape_of_selection(TwinMaker& make, int& dim) {
  Shape shape(static_cast<std::size_t>(make.number(1, 3)));
  for (std::int64_t& size : shape) size = make.number(0, 30) == 0 ? 0 : make.number(1, 5);
  dim = static_cast<int>(make.number(0, std::ssize(shape) - 1));
  shape[static_cast<std::size_t>(dim)] = line_size(make);
  return shape;
}
Order any_order(TwinMaker& make) {
  return make.number(0, 1) == 0 ? Order::kAscending : Order::kDescending;
}

struct Selected {
  Twins values, indices;
};
Selected outputs(TwinMaker& make, const Shape& shape, DType dtype) {
  return {make.output(shape, dtype), make.output(shape, DType::kI64)};
}
/// What both devices select of the same: values and places.
template <class F>
void check_selected(OnDevice& on, const Selected& to, const F& run) {
  CHECK(compare(on, to.values, 0.0, [&](KernelContext& ctx, bool device) {
          run(ctx, device, side(to.values, device), side(to.indices, device));
        }) == "");
  CHECK(difference(fetch(on, to.indices.device), to.indices.host, 0.0) == "");
}

}  // namespace

TEST_CASE("lines sort on the device as on the processor, ties and NaN too", "[device][select]") {
  OnDevice on;
  TwinMaker make(on, 41);
  for (int i = 0; i < 2 * kSelectCases; ++i) {
    int dim = 0;
    const Shape shape = shape_of_selection(make, dim);
    const DType dtype = any_of(make, kAll);
    const Order order = any_order(make);
    const Twins x = make.view(shape, dtype);
    CAPTURE(i, shape, dim, name_of(dtype), static_cast<int>(order));
    check_selected(on, outputs(make, shape, dtype),
                   [&](KernelContext& ctx, bool device, const Array& values, const Array& indices) {
                     sort(ctx, side(x, device), dim, order, values, indices);
                   });
  }
}

TEST_CASE("the largest of lines are the same on the device", "[device][select]") {
  OnDevice on;
  TwinMaker make(on, 42);
  for (int i = 0; i < 2 * kSelectCases; ++i) {
    int dim = 0;
    const Shape shape = shape_of_selection(make, dim);
    const std::int64_t n = shape[static_cast<std::size_t>(dim)];
    Shape some = shape;
    some[static_cast<std::size_t>(dim)] = make.number(0, std::min<std::int64_t>(n, i % 3 * 60 + 9));
    const DType dtype = any_of(make, kAll);
    const Order order = any_order(make);
    const Twins x = make.view(shape, dtype);
    CAPTURE(i, shape, dim, some, name_of(dtype), static_cast<int>(order));
    check_selected(on, outputs(make, some, dtype),
                   [&](KernelContext& ctx, bool device, const Array& values, const Array& indices) {
                     topk(ctx, side(x, device), dim, order, values, indices);
                   });
  }
}

TEST_CASE("routers' choices are the same on the device", "[device][select]") {
  OnDevice on;
  TwinMaker make(on, 43);
  for (const auto& [experts, chosen] : {std::pair<std::int64_t, std::int64_t>{64, 6},
                                        {256, 8},
                                        {8, 2},
                                        {511, 31},
                                        {512, 32},
                                        {513, 32},
                                        {32, 32}}) {
    const Twins x = make.values({37, experts}, DType::kF32);
    check_selected(on, outputs(make, {37, chosen}, DType::kF32),
                   [&](KernelContext& ctx, bool device, const Array& values, const Array& indices) {
                     topk(ctx, side(x, device), 1, Order::kDescending, values, indices);
                   });
  }
}

TEST_CASE("equal elements keep their order, zeros and NaN their bits", "[device][select]") {
  OnDevice on;
  TwinMaker make(on, 44);
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::int64_t n = GENERATE(7, 100, 1000);
  const Order order = GENERATE(Order::kAscending, Order::kDescending);
  const DType dtype = GENERATE(DType::kF64, DType::kF32, DType::kF16);
  std::vector<double> numbers(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double kinds[] = {0.0, -0.0, kNan, -kNan, 1.0};
    numbers[i] = kinds[i * 7 % 5];
  }
  const Twins x = make.of(Array::from_values({n}, dtype, numbers));
  const Selected to = outputs(make, {n}, dtype);
  check_selected(on, to,
                 [&](KernelContext& ctx, bool device, const Array& values, const Array& indices) {
                   sort(ctx, side(x, device), 0, order, values, indices);
                 });
  const std::vector<double> got = fetch(on, to.values.device).to_vector(),
                            wanted = to.values.host.to_vector();
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::signbit(got[i]) != std::signbit(wanted[i])) FAIL("the sign of element " << i);
  }
}

TEST_CASE("lines of many dims sort on the device", "[device][select]") {
  OnDevice on;
  TwinMaker make(on, 45);
  Shape larger(11, 3), shape(11, 2);
  larger[4] = shape[4] = 1;
  larger[7] = 6;
  shape[7] = 5;
  larger[1] = larger[9] = shape[1] = shape[9] = 1;
  const auto part = [&](Array array) {
    for (int d = 0; d < 11; ++d) array = array.slice(d, 0, shape[static_cast<std::size_t>(d)]);
    return array;
  };
  const Twins whole = make.values(larger, DType::kI32);
  const Twins x = {part(whole.host), part(whole.device)};  // nothing merges
  check_selected(on, outputs(make, shape, DType::kI32),
                 [&](KernelContext& ctx, bool device, const Array& values, const Array& indices) {
                   sort(ctx, side(x, device), 7, Order::kDescending, values, indices);
                 });
}

TEST_CASE("what cannot be sorted or selected is the same error on the device", "[device][select]") {
  OnDevice on;
  TwinMaker make(on, 46);
  const Twins x = make.values({3, 4}, DType::kF32), wrong = make.values({3, 4}, DType::kF64),
              other = make.values({2, 4}, DType::kF32), indices = make.values({3, 4}, DType::kI64),
              fewer = make.values({2, 4}, DType::kI64);
  const auto errors = [&](const Twins& values, const Twins& places, int dim) {
    CHECK(compare(on, values, 0.0, [&](KernelContext& ctx, bool device) {
            sort(ctx, side(x, device), dim, Order::kAscending, side(values, device),
                 side(places, device));
          }) == "");
    CHECK(compare(on, values, 0.0, [&](KernelContext& ctx, bool device) {
            topk(ctx, side(x, device), dim, Order::kAscending, side(values, device),
                 side(places, device));
          }) == "");
  };
  errors(wrong, indices, 0);
  errors(other, fewer, 0);
  errors(other, fewer, 1);
  errors(other, indices, 0);
  errors(other, other, 0);
  errors(x, indices, 2);
  errors(x, indices, -1);
}

TEST_CASE("keys sort and count on the device, bad ones are named", "[device][select]") {
  OnDevice on;
  TwinMaker make(on, 47);
  for (int i = 0; i < 2 * kSelectCases; ++i) {
    const std::int64_t count = make.number(0, 9) == 0 ? 0 : line_size(make);
    const std::int64_t num_keys = i % 20 == 0 ? 0 : make.number(1, i % 4 == 0 ? 150 : 20);
    const bool has_bad = i % 5 == 0 || num_keys == 0;
    std::vector<double> numbers(static_cast<std::size_t>(count));
    for (double& key : numbers) {
      key = static_cast<double>(has_bad && make.number(0, 30) == 0 ? make.number(-3, num_keys + 3)
                                : num_keys == 0                    ? -1
                                                                   : make.number(0, num_keys - 1));
    }
    const DType dtype = i % 2 == 0 ? DType::kI64 : DType::kI32;
    const std::int64_t step = make.number(1, 2);  // the keys lie apart
    const Twins dense = make.of(Array::from_values({count}, dtype, numbers)),
                wide = make.values({count, step}, dtype);
    const auto apart = [&](const Array& array) {
      return array.slice(1, 0, 1).as_strided({count}, {step}, array.offset());
    };
    const Twins keys = {apart(wide.host), apart(wide.device)};
    KernelContext cpu;
    copy(cpu, dense.host, keys.host);
    copy(on.ctx, dense.device, keys.device);
    const Twins permutation = make.output({count}, DType::kI64),
                counts = make.output({num_keys}, DType::kI64);
    CAPTURE(i, count, num_keys, has_bad, name_of(dtype), step);
    const std::string found = compare(on, permutation, 0.0, [&](KernelContext& ctx, bool device) {
      sort_by_key(ctx, side(keys, device), num_keys, side(permutation, device),
                  side(counts, device));
    });
    CHECK(found == "");
    if (!has_bad) CHECK(difference(fetch(on, counts.device), counts.host, 0.0) == "");
  }
}

TEST_CASE("a bad key leaves the device a permutation", "[device][select]") {
  OnDevice on;
  TwinMaker make(on, 48);
  const std::int64_t num_keys = GENERATE(0, 5, 100);
  const Twins keys = make.values({300}, DType::kI64);  // from −9 on
  const Twins permutation = make.values({300}, DType::kI64),
              counts = make.values({num_keys}, DType::kI64);
  sort_by_key(on.ctx, keys.device, num_keys, permutation.device, counts.device);
  CHECK_THROWS_AS(on.device->raise_faults(), Error);
  std::vector<double> places = fetch(on, permutation.device).to_vector();
  std::sort(places.begin(), places.end());
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i] != static_cast<double>(i)) FAIL("place " << i << " is missing");
  }
}

TEST_CASE("sort_by_key names what it cannot take on the device", "[device][select]") {
  OnDevice on;
  TwinMaker make(on, 49);
  const Twins keys = make.values({4}, DType::kI64), floats = make.values({4}, DType::kF32),
              square = make.values({2, 2}, DType::kI64), three = make.values({3}, DType::kI64);
  const auto errors = [&](const Twins& of, const Twins& to, const Twins& counts) {
    CHECK(compare(on, to, 0.0, [&](KernelContext& ctx, bool device) {
            sort_by_key(ctx, side(of, device), 3, side(to, device), side(counts, device));
          }) == "");
  };
  errors(floats, keys, three);
  errors(keys, floats, three);
  errors(square, keys, three);
  errors(keys, three, three);
  errors(keys, keys, keys);
}

TEST_CASE("ranks, medians and modes of rows are the same on the device", "[device][select]") {
  OnDevice on;
  TwinMaker make(on, 50);
  for (int i = 0; i < kSelectCases; ++i) {
    Shape rows(static_cast<std::size_t>(make.number(0, 2)));
    for (std::int64_t& size : rows) size = make.number(0, 20) == 0 ? 0 : make.number(1, 4);
    Shape shape = rows;
    shape.push_back(line_size(make));
    const DType dtype = any_of(make, kAll);
    const Twins x = make.view(shape, dtype);
    const std::int64_t k = make.number(1, shape.back());
    CAPTURE(i, shape, k, name_of(dtype));
    check_selected(on, outputs(make, rows, dtype),
                   [&](KernelContext& ctx, bool device, const Array& values, const Array& indices) {
                     kth_value(ctx, side(x, device), k, values, indices);
                   });
    for (const NanRows nan : {NanRows::kWin, NanRows::kSkip}) {
      check_selected(
          on, outputs(make, rows, dtype),
          [&](KernelContext& ctx, bool device, const Array& values, const Array& indices) {
            median(ctx, nan, side(x, device), values, indices);
          });
    }
    check_selected(on, outputs(make, rows, dtype),
                   [&](KernelContext& ctx, bool device, const Array& values, const Array& indices) {
                     mode(ctx, side(x, device), values, indices);
                   });
    if (i % 20 != 0) continue;
    rows.push_back(2);  // another shape than that of the rows
    check_selected(on, outputs(make, rows, dtype),
                   [&](KernelContext& ctx, bool device, const Array& values, const Array& indices) {
                     median(ctx, NanRows::kWin, side(x, device), values, indices);
                   });
  }
}

TEST_CASE("medians and modes of rows of NaN and of long runs", "[device][select]") {
  OnDevice on;
  TwinMaker make(on, 51);
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> rows[] = {std::vector<double>(40, kNan),
                                      std::vector<double>(40, 3.0),
                                      {0.0, -0.0, 1.0, 1.0, kNan, kNan, kNan},
                                      {2.0, 2.0, 1.0, 1.0, kNan},
                                      {kNan, 5.0}};
  for (const std::vector<double>& row : rows) {
    const Twins x = make.of(Array::from_values({std::ssize(row)}, DType::kF32, row));
    for (const NanRows nan : {NanRows::kWin, NanRows::kSkip}) {
      check_selected(
          on, outputs(make, {}, DType::kF32),
          [&](KernelContext& ctx, bool device, const Array& values, const Array& indices) {
            median(ctx, nan, side(x, device), values, indices);
          });
    }
    check_selected(on, outputs(make, {}, DType::kF32),
                   [&](KernelContext& ctx, bool device, const Array& values, const Array& indices) {
                     mode(ctx, side(x, device), values, indices);
                   });
  }
}

}  // namespace tessera::testing
