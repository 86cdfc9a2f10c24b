// Rows that lie beyond 2^31 elements and 2^32 bytes of their tensor. Pages that nobody writes take
// no memory, so that such tensors cost only the rows that go somewhere. (Without the tag
// [dispatch]: the thread sanitizer's memory of them would not fit.)
#include "dtensor/local_rows.h"
#include "dtensor/ops.h"
#include "kernels/host/row_order.h"
#include "moe/layer/dispatcher.h"
#include "testing/ranks.h"

namespace tessera::testing {
namespace {

constexpr std::int64_t kFarDim = std::int64_t{1} << 16;
constexpr std::int64_t kFarRows = (std::int64_t{1} << 15) + 8;
static_assert(kFarDim * kFarRows > std::int64_t{1} << 31);
constexpr std::int64_t kFirstFar = std::int64_t{1} << 15;  ///< its first element is number 2^31

/// What a row of such a tensor holds at the start of dim 1 and at its end; 0 between.
double first_of(std::int64_t row) { return static_cast<double>(row % 64 + 1); }
double last_of(std::int64_t row) { return -static_cast<double>(row % 32 + 1); }

/// BF16 (kFarRows, kFarDim), zeros but for these rows.
Array far_array(std::initializer_list<std::int64_t> rows) {
  Array array = Array::empty({kFarRows, kFarDim}, DType::kBF16);
  for (const std::int64_t row : rows) {
    Array one = array.slice(0, row, row + 1);
    std::vector<double> values(static_cast<std::size_t>(kFarDim), 0.0);
    values.front() = first_of(row);
    values.back() = last_of(row);
    KernelContext context;
    kernels::copy(context, Array::from_values({1, kFarDim}, DType::kBF16, values), one);
  }
  return array;
}

using Ends = std::vector<std::pair<double, double>>;
/// First and last element of each row.
Ends ends_of(const Array& rows_ND) {
  Ends ends;
  for (std::int64_t row = 0; row < rows_ND.size(0); ++row) {
    const std::vector<double> values = rows_ND.slice(0, row, row + 1).to_vector();
    ends.emplace_back(values.front(), values.back());
  }
  return ends;
}
Ends expected_ends(const std::vector<std::int64_t>& rows) {
  Ends ends;
  for (const std::int64_t row : rows) ends.emplace_back(first_of(row), last_of(row));
  return ends;
}

DTensor ints(Runtime& runtime, const Shape& shape, const std::vector<std::int64_t>& values) {
  return plain(runtime, Array::from_values(shape, DType::kI64,
                                           std::vector<double>(values.begin(), values.end())));
}

}  // namespace

TEST_CASE("tokens beyond 2^31 elements are dispatched like the first ones", "[moe][far][C32]") {
  // Of each rank's tokens one near and three far ones have an expert: 0, 1, 0, 1.
  const std::vector<std::int64_t> routed = {1, kFirstFar, kFirstFar + 3, kFarRows - 1};
  const std::string dispatcher_name = GENERATE(as<std::string>{}, "all_to_all", "hierarchical");
  const auto ranks =
      results_of(2, {}, [&](World& world) {
        Runtime runtime(world);
        const Shape mesh_shape = {2};
        const Mesh mesh = value_or_throw(Mesh::make(view_of(mesh_shape), {"ep"}));
        const DTensor x_TD = plain(runtime, far_array({1, kFirstFar, kFirstFar + 3, kFarRows - 1}));
        std::vector<std::int64_t> ids(static_cast<std::size_t>(kFarRows), 2);  // nowhere
        for (std::size_t i = 0; i < routed.size(); ++i) {
          ids[static_cast<std::size_t>(routed[i])] = static_cast<std::int64_t>(i % 2);
        }
        const auto dispatcher = value_or_throw(Dispatcher::make(
            {"experts", {mesh, {0}}, 2, {.dispatcher = dispatcher_name, .ranks_per_node = 1}}));
        const Dispatched there = dispatch(
            *dispatcher, x_TD,
            {.ids_TK = ints(runtime, {kFarRows, 1}, ids), .tokens_by_rank = {kFarRows, kFarRows}});
        return ends_of(there.rows.rows_RD.local());
      }).value();
  CHECK(ranks[0] == expected_ends({1, kFirstFar + 3, 1, kFirstFar + 3}));
  CHECK(ranks[1] == expected_ends({kFirstFar, kFarRows - 1, kFirstFar, kFarRows - 1}));
}

TEST_CASE("rows beyond 2^31 elements are summed, reordered and multiplied like the first ones",
          "[moe][far][C32]") {
  const std::vector<Ends> seen =
      results_of(1, {}, [&](World& world) {
        Runtime runtime(world);
        const std::int64_t far = kFirstFar + 5, last = kFarRows - 1;
        const DTensor y_ND = plain(runtime, far_array({2, far, last}));
        // Token 0 has rows 2 and `last`, token 1 the row `far`.
        std::vector<std::int64_t> slot_N(static_cast<std::size_t>(kFarRows), -1);
        slot_N[2] = 0;
        slot_N[static_cast<std::size_t>(last)] = 1;
        slot_N[static_cast<std::size_t>(far)] = 2;
        const RowPlaces places = {ints(runtime, {kFarRows}, slot_N),
                                  ints(runtime, {2, 2}, {2, last, far, -1})};
        const DTensor weights = plain(
            runtime, Array::from_values({2, 2}, DType::kF32, std::vector<double>{1, 1, 1, 0}));
        const DTensor summed = sum_rows(y_ND, weights, places, DType::kF32);
        const DTensor added = add_rows(y_ND, places);
        const DTensor picked =
            reorder_rows(y_ND, ints(runtime, {2}, {last, far}), ints(runtime, {kFarRows}, [&] {
                           std::vector<std::int64_t> restore(slot_N.size(), -1);
                           restore[static_cast<std::size_t>(last)] = 0;
                           restore[static_cast<std::size_t>(far)] = 1;
                           return restore;
                         }()));
        // Two groups, the border between them beyond 2^31 elements: each sums its rows' elements,
        // the second twice.
        const DTensor w_EKN =
            plain(runtime, Array::from_values({2, 1, kFarDim}, DType::kBF16, [] {
                    std::vector<double> w(2 * static_cast<std::size_t>(kFarDim), 1.0);
                    std::fill(w.begin() + kFarDim, w.end(), 2.0);
                    return w;
                  }()));
        const DTensor product = grouped_mm(y_ND, w_EKN, ints(runtime, {2}, {far, kFarRows - far}));
        Ends sums;
        for (const std::int64_t row : {std::int64_t{2}, far, last}) {
          const double sum = product.local().slice(0, row, row + 1).to_vector()[0];
          sums.emplace_back(sum, first_of(row) + last_of(row));
        }
        return std::vector<Ends>{ends_of(summed.local()), ends_of(added.local()),
                                 ends_of(picked.local()), sums};
      }).value()[0];
  const std::int64_t far = kFirstFar + 5, last = kFarRows - 1;
  const Ends sums = {{first_of(2) + first_of(last), last_of(2) + last_of(last)},
                     {first_of(far), last_of(far)}};
  CHECK(seen[0] == sums);
  CHECK(seen[1] == sums);
  CHECK(seen[2] == expected_ends({last, far}));
  CHECK(seen[3][0].first == seen[3][0].second);
  CHECK(seen[3][1].first == 2 * seen[3][1].second);
  CHECK(seen[3][2].first == 2 * seen[3][2].second);
}

TEST_CASE("sizes of a dispatch beyond 2^31 rows stay exact", "[moe][far][C32]") {
  const std::int64_t far = (std::int64_t{1} << 32) + 3;
  CHECK(padded_bound(far, 8, 16) == (far + 8 * 15 + 15) / 16 * 16);
  const TokenRange third = chunk_of(far, 4, 3);
  CHECK(third.begin == far * 3 / 4);
  CHECK(third.end == far);
  // Row numbers are 32 bits in one list only, which is not made of more entries than those count.
  static_assert(kernels::orders_by_row((std::int64_t{1} << 31) - 1, 8));
  static_assert(!kernels::orders_by_row(std::int64_t{1} << 31, 8));
}

}  // namespace tessera::testing
