// Which grouped products a card's library takes.
#include "kernels/grouped_plan.h"

#include <functional>

#include "catch2/catch.hpp"

namespace tessera::testing {
namespace {

using namespace kernels;

/// 100 rows of 64 in 3 groups, weights of 64 x 96, all of them dense and in rows.
GroupedProduct dense_product() {
  return GroupedProduct::of(Array::empty({100, 64}, DType::kBF16),
                            Array::empty({3, 64, 96}, DType::kBF16),
                            Array::empty({100, 96}, DType::kBF16));
}
GroupedProduct changed(const std::function<void(GroupedProduct&)>& change) {
  GroupedProduct product = dense_product();
  change(product);
  return product;
}

}  // namespace

TEST_CASE("grouped products of dense BF16 rows are a library's, whose weights lie either way",
          "[kernels][grouped]") {
  const GroupedProduct rows = dense_product();
  CHECK(plan_grouped_product(rows) == MatrixOrder::kRows);
  CHECK(takes_grouped_weight_grad(rows));

  // Weights [E, N, K], seen as [E, K, N].
  const GroupedProduct columns =
      GroupedProduct::of(Array::empty({100, 64}, DType::kBF16),
                         Array::empty({3, 96, 64}, DType::kBF16).transpose(1, 2),
                         Array::empty({100, 96}, DType::kBF16));
  CHECK(plan_grouped_product(columns) == MatrixOrder::kColumns);
  CHECK_FALSE(takes_grouped_weight_grad(columns));

  // Rows that lie apart, and one row only.
  CHECK(plan_grouped_product(changed([](auto& p) { p.x.row_stride = 72; })).has_value());
  CHECK(plan_grouped_product(changed([](auto& p) { p.rows = 1; })).has_value());
  // Weights that all groups share.
  CHECK(plan_grouped_product(changed([](auto& p) { p.weights.batch_stride = 0; })).has_value());
}

TEST_CASE("grouped products that a library's copies of tiles cannot reach are left to the kernel",
          "[kernels][grouped]") {
  const std::pair<const char*, std::function<void(GroupedProduct&)>> changes[] = {
      {"another dtype", [](auto& p) { p.x.dtype = DType::kF16; }},
      {"a result of another dtype", [](auto& p) { p.out.dtype = DType::kF32; }},
      {"no rows", [](auto& p) { p.rows = 0; }},
      {"no depth", [](auto& p) { p.depth = 0; }},
      {"no columns", [](auto& p) { p.cols = 0; }},
      {"no groups", [](auto& p) { p.num_groups = 0; }},
      {"more rows than 32 bits count", [](auto& p) { p.rows = std::int64_t{1} << 31; }},
      {"a depth of part of a word", [](auto& p) { p.depth = 60; }},
      {"columns of part of a word", [](auto& p) { p.cols = 90; }},
      {"rows that begin within a word", [](auto& p) { p.x.row_stride = 68; }},
      {"rows that overlap", [](auto& p) { p.x.row_stride = 32; }},
      {"rows that repeat", [](auto& p) { p.x.row_stride = 0; }},
      {"elements that lie apart", [](auto& p) { p.x.col_stride = 2; }},
      {"a result in columns", [](auto& p) { p.out.row_stride = 1, p.out.col_stride = 104; }},
      {"an address within a word", [](auto& p) { p.x.data += 8; }},
      {"a result within a word", [](auto& p) { p.out.data += 2; }},
      {"weights that begin within a word", [](auto& p) { p.weights.batch_stride += 4; }},
      {"weights that overlap", [](auto& p) { p.weights.row_stride = 8; }},
  };
  for (const auto& [what, change] : changes) {
    CAPTURE(what);
    CHECK_FALSE(plan_grouped_product(changed(change)).has_value());
    CHECK_FALSE(takes_grouped_weight_grad(changed(change)));
  }
}

}  // namespace tessera::testing
