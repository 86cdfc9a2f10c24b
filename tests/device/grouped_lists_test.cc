// The lists of matrices that a grouped product becomes for a library, and the zeros beside them.
#include "kernels/cuda/grouped_lists.h"

#include <cstring>
#include <map>

#include "kernels/elementwise.h"
#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

namespace device_kernels = kernels::TSR_CUDA;
using kernels::GroupedProduct;
using kernels::MatrixOrder;

constexpr std::int64_t kGroups = 70, kDepth = 16, kCols = 24;

struct Lists {
  std::vector<device_kernels::GroupSizes> sizes;
  std::vector<std::byte*> left, right, result;
  std::vector<std::int64_t> left_stride, right_stride, result_stride;
};

template <class T>
std::vector<T> list_of(OnDevice& on, const T* list) {
  std::vector<T> here(kGroups);
  on.device->copy(here.data(), list, here.size() * sizeof(T), on.device->compute());
  on.finish();
  return here;
}
Lists fetch_lists(OnDevice& on, const device_kernels::GroupPointers& lists) {
  return {.sizes = list_of(on, lists.sizes),
          .left = list_of(on, lists.left),
          .right = list_of(on, lists.right),
          .result = list_of(on, lists.result),
          .left_stride = list_of(on, lists.left_stride),
          .right_stride = list_of(on, lists.right_stride),
          .result_stride = list_of(on, lists.result_stride)};
}

struct Counts {
  std::vector<std::int64_t> numbers;
  std::int64_t sum = 0;
};
Counts random_counts(TwinMaker& make) {
  Counts counts;
  for (std::int64_t e = 0; e < kGroups; ++e) {
    counts.numbers.push_back(make.number(0, 2) == 0 ? 0 : make.number(1, 9));
    counts.sum += counts.numbers.back();
  }
  return counts;
}
Array counts_on(OnDevice& on, const std::vector<std::int64_t>& numbers) {
  const Array host = Array::empty({kGroups}, DType::kI64);
  std::copy(numbers.begin(), numbers.end(), host.data<std::int64_t>());
  return to_device(on.ctx, host);
}

std::byte* at(const Array& array, std::int64_t elements) {
  return array.bytes() + elements * size_of(array.dtype());
}
bool all_are(const Array& array, double value) {
  const std::vector<double> values = array.to_vector();
  return std::all_of(values.begin(), values.end(), [=](double each) { return each == value; });
}

struct Operands {
  Array x, weights, out;
  Operands(OnDevice& on, std::int64_t rows)
      : x(Array::empty({rows, kDepth}, DType::kBF16, on.memory)),
        weights(Array::empty({kGroups, kDepth, kCols}, DType::kBF16, on.memory)),
        out(Array::empty({rows, kCols}, DType::kBF16, on.memory)) {
    kernels::fill(on.ctx, 7.0, weights);
    kernels::fill(on.ctx, 7.0, out);
  }
};

}  // namespace

TEST_CASE("products of groups are listed, and rows after the last group are zeros",
          "[device][grouped][emulated]") {
  OnDevice on;
  TwinMaker make(on, 55);
  for (const std::int64_t rest : {0, 1, 37}) {
    const Counts counts = random_counts(make);
    const Operands of(on, counts.sum + rest);
    const GroupedProduct product = GroupedProduct::of(of.x, of.weights, of.out);
    const auto groups = device_kernels::groups_of(on.ctx, "grouped_matmul",
                                                  counts_on(on, counts.numbers), product.rows);
    const auto found = device_kernels::list_products(on.ctx, groups, product, MatrixOrder::kRows);
    const Lists lists = fetch_lists(on, found.pointers);
    std::int64_t begin = 0;
    for (std::size_t e = 0; e < kGroups; ++e) {
      const std::int64_t rows = counts.numbers[e];
      CAPTURE(rest, e, rows);
      REQUIRE(lists.sizes[e].m == rows);
      REQUIRE((lists.sizes[e].n == kCols && lists.sizes[e].k == kDepth));
      REQUIRE(lists.left[e] == at(of.x, begin * kDepth));
      REQUIRE(lists.right[e] == at(of.weights, static_cast<std::int64_t>(e) * kDepth * kCols));
      REQUIRE(lists.result[e] == at(of.out, begin * kCols));
      REQUIRE((lists.left_stride[e] == kDepth && lists.right_stride[e] == kCols &&
               lists.result_stride[e] == kCols));
      begin += rows;
    }
    const Array out = fetch(on, of.out);
    CHECK(all_are(out.slice(0, 0, counts.sum), 7.0));
    CHECK(all_are(out.slice(0, counts.sum, counts.sum + rest), 0.0));
    on.device->raise_faults();
  }
}

TEST_CASE("gradients of grouped weights are listed, and those of empty groups are zeros",
          "[device][grouped][emulated]") {
  OnDevice on;
  TwinMaker make(on, 56);
  const Counts counts = random_counts(make);
  const Operands of(on, counts.sum);
  const GroupedProduct product = GroupedProduct::of(of.x, of.weights, of.out);
  const auto groups = device_kernels::groups_of(on.ctx, "grouped_matmul_weight_grad",
                                                counts_on(on, counts.numbers), product.rows);
  const auto found = device_kernels::list_weight_grads(on.ctx, groups, product);
  const Lists lists = fetch_lists(on, found.pointers);
  const Array weights = fetch(on, of.weights);
  std::int64_t begin = 0;
  for (std::size_t e = 0; e < kGroups; ++e) {
    const std::int64_t rows = counts.numbers[e], group = static_cast<std::int64_t>(e);
    CAPTURE(e, rows);
    REQUIRE(lists.sizes[e].m == (rows == 0 ? 0 : kDepth));
    REQUIRE((lists.sizes[e].n == kCols && lists.sizes[e].k == rows));
    REQUIRE(lists.left[e] == at(of.x, begin * kDepth));
    REQUIRE(lists.right[e] == at(of.out, begin * kCols));
    REQUIRE(lists.result[e] == at(of.weights, group * kDepth * kCols));
    REQUIRE((lists.left_stride[e] == kDepth && lists.right_stride[e] == kCols &&
             lists.result_stride[e] == kCols));
    REQUIRE(all_are(weights.slice(0, group, group + 1), rows == 0 ? 0.0 : 7.0));
    begin += rows;
  }
  on.device->raise_faults();
}

TEST_CASE("wrong counts are listed within the rows given, and named",
          "[device][grouped][emulated]") {
  OnDevice on;
  const std::int64_t rows = 20;
  std::vector<std::int64_t> numbers(kGroups, 0);
  numbers[3] = 15;
  numbers[40] = 9;  // 5 are left
  numbers[41] = -2;
  const Operands of(on, rows);
  const GroupedProduct product = GroupedProduct::of(of.x, of.weights, of.out);
  const bool of_weights = GENERATE(false, true);
  const auto groups =
      device_kernels::groups_of(on.ctx, "grouped_matmul", counts_on(on, numbers), product.rows);
  const auto found =
      of_weights ? device_kernels::list_weight_grads(on.ctx, groups, product)
                 : device_kernels::list_products(on.ctx, groups, product, MatrixOrder::kRows);
  const Lists lists = fetch_lists(on, found.pointers);
  const auto rows_of = [&](std::size_t e) {
    return of_weights ? lists.sizes[e].k : lists.sizes[e].m;
  };
  CHECK(rows_of(3) == 15);
  CHECK(rows_of(40) == 5);
  CHECK(rows_of(41) == 0);
  CHECK(rows_of(kGroups - 1) == 0);
  CHECK(lists.left[41] == at(of.x, rows * kDepth));
  CHECK_THROWS_WITH(on.device->raise_faults(), Catch::Contains("counts[40] = 9 after 15 rows"));
}

}  // namespace tessera::testing
