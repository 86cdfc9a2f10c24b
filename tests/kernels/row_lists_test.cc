// Lists of rows: the order of experts, parts with room, inverses, tokens that pass a node.
#include "kernels/row_lists.h"

#include <algorithm>
#include <numeric>

#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using namespace kernels;
using testing::error_of;
using Ints = std::vector<std::int64_t>;

Array ints(const Ints& values) {
  const Array out = Array::empty({static_cast<std::int64_t>(values.size())}, DType::kI64);
  std::copy(values.begin(), values.end(), out.data<std::int64_t>());
  return out;
}
Ints of(const Array& list) {
  const auto* first = list.data<std::int64_t>();
  return {first, first + list.num_elements()};
}
Array list(std::int64_t size) { return ints(Ints(static_cast<std::size_t>(size), -7)); }

struct Ordered {
  Ints source, restore, counts;
};
/// `counts`: by part, then key.
Ordered order(const Ints& counts, std::int64_t parts, KeyedRows rows, const KeySize& size,
              std::int64_t num_rows, std::int64_t received) {
  const auto keys = static_cast<std::int64_t>(counts.size()) / parts;
  rows.counts_PSK = ints(counts).as_strided({1, parts, keys}, {0, keys, 1}, 0);
  const OrderedLists out = {list(num_rows), list(received), list(keys)};
  KernelContext ctx;
  order_by_key(ctx, rows, size, {}, out);
  return {of(out.source_R), of(out.restore_N), of(out.counts_K)};
}

}  // namespace

TEST_CASE("rows go from rank-major to expert-major order", "[kernels][row_lists][C28]") {
  struct Vector {
    Ints counts;
    std::int64_t senders;
    Ints source;
    Ints per_expert;
  };
  const std::vector<Vector> vectors = {
      {{2, 3, 1, 4}, 2, {0, 1, 5, 2, 3, 4, 6, 7, 8, 9}, {3, 7}},
      {{0, 3, 2, 0}, 2, {3, 4, 0, 1, 2}, {2, 3}},
      {{2, 2, 2, 2, 2, 2}, 3, {0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11}, {6, 6}},
      {{0, 0, 0, 0}, 2, {}, {0, 0}},
      {{3}, 1, {0, 1, 2}, {3}},
      {{1, 2, 3}, 3, {0, 1, 2, 3, 4, 5}, {6}}};
  for (const Vector& vector : vectors) {
    const auto rows = static_cast<std::int64_t>(vector.source.size());
    const Ordered found = order(vector.counts, vector.senders, {}, {}, rows, rows);
    CHECK(found.source == vector.source);
    CHECK(found.counts == vector.per_expert);
    for (std::int64_t r = 0; r < rows; ++r) {
      CHECK(found.restore[static_cast<std::size_t>(found.source[static_cast<std::size_t>(r)])] ==
            r);
    }
  }
}

TEST_CASE("an order has rooms, alignment and rows to spare", "[kernels][row_lists]") {
  // Two senders with room for 4 rows each; the second has 5, its last is left out.
  const Ints counts = {1, 2, 3, 2};
  const Ordered found = order(counts, 2, {.counts_PSK = {}, .room = 4}, {.alignment = 2}, 12, 8);
  CHECK(found.source == Ints{0, 4, 5, 6, 1, 2, 7, -1, -1, -1, -1, -1});
  CHECK(found.restore == Ints{0, 4, 5, -1, 1, 2, 3, 6});
  CHECK(found.counts == Ints{4, 4});
  const Ordered filled = order({1, 2}, 1, {}, {.rows = 3, .alignment = 4}, 8, 3);
  CHECK(filled.source == Ints{0, -1, -1, -1, 1, 2, -1, -1});
  CHECK(filled.counts == Ints{4, 4});
  CHECK(error_of([&] {
          order({1, 4}, 1, {}, {.rows = 3}, 8, 5);
        }) == "order_by_key: key 1 has 4 rows, but room for 3");
  CHECK(error_of([&] {
          order({1, 4}, 1, {}, {.alignment = 4}, 7, 5);
        }) == "order_by_key: the keys have 8 rows, but the lists have room for 7");
}

TEST_CASE("an order may tell what stands at its rows", "[kernels][row_lists]") {
  const Array counts = ints({1, 2});
  const OrderedLists out = {list(5), {}, list(2)};
  KernelContext ctx;
  order_by_key(ctx, {counts.as_strided({1, 1, 2}, {0, 0, 1}, 0)}, {.alignment = 2},
               ints({30, 10, 20, 99}), out);
  CHECK(of(out.source_R) == Ints{30, -1, 10, 20, -1});
}

TEST_CASE("parts are cut where their room ends, or filled up", "[kernels][row_lists]") {
  const Array sorted = ints({5, 6, 7, 8, 9, 10}), counts = ints({2, 1, 0, 3, 0});
  KernelContext ctx;
  const auto pack = [&](const PartRooms& rooms) {
    const Array out = list(rooms.total());
    pack_parts(ctx, sorted, counts, rooms, out);
    return of(out);
  };
  CHECK(pack({.parts = 3, .keys_per_part = 2, .most = 2}) == Ints{5, 6, 8, 9, -1, -1});
  CHECK(pack({.parts = 3,
              .keys_per_part = 2,
              .most = 3,
              .rows_per_expert = 2,
              .experts_per_part = 2,
              .experts = 5}) == Ints{5, 6, 7, 8, 9, 10, -1, -1});
  CHECK(pack({.parts = 1, .keys_per_part = 5, .most = 7}) == Ints{5, 6, 7, 8, 9, 10, -1});
}

TEST_CASE("places are the inverse of a list", "[kernels][row_lists]") {
  const Array places = list(5);
  KernelContext ctx;
  invert_list(ctx, ints({3, -1, 0, 4}), places);
  CHECK(of(places) == Ints{2, -1, -1, 0, 3});
}

TEST_CASE("keys of ranges and of parts", "[kernels][row_lists]") {
  const Array ids = ints({0, 4, 2, 3, 5, 1});
  const Array keys = list(6);
  KernelContext ctx;
  keys_in_range(ctx, ids, {2, 2}, keys);
  CHECK(of(keys) == Ints{2, 2, 0, 1, 2, 2});
  // 5 experts in parts of 2; an id of 5 goes nowhere.
  const Array by_part = list(9).as_strided({3, 3}, {3, 1}, 0);
  keys_of_parts(ctx, ids.as_strided({3, 2}, {2, 1}, 0), {5, 2, 3}, by_part);
  CHECK(of(by_part) == Ints{0, 3, 2, 3, 1, 3, 0, 3, 3});
}

TEST_CASE("tokens with an expert in the range come, as far as there is room",
          "[kernels][row_lists]") {
  // Experts 2 and 3 lie here; two parts of 3 and 2 tokens.
  const Array ids = ints({0, 2, 3, 2, 1, 0, 4, 3, 2, 0}).as_strided({5, 2}, {2, 1}, 0);
  KernelContext ctx;
  const auto pass = [&](std::int64_t room) {
    const PassedSlots out = {list(10), list(10), list(2)};
    slots_of_passed(ctx, ids, {{2, 2}, {{3, room, 0}, {2, room, room}}}, out);
    CHECK(of(out.counts_P) == Ints{2, 2});
    Ints found = of(out.keys_N);
    const Ints slots = of(out.row_slots_N);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (found[i] < 2) found[i] += 10 * slots[i];
    }
    return found;
  };
  CHECK(pass(kAnyNumber) == Ints{2, 10, 21, 30, 2, 2, 2, 51, 60, 2});
  CHECK(pass(1) == Ints{2, 10, 2, 2, 2, 2, 2, 31, 2, 2});
  CHECK(pass(3) == Ints{2, 10, 21, 30, 2, 2, 2, 71, 80, 2});
}

TEST_CASE("counts are those of the ids", "[kernels][row_lists]") {
  KernelContext ctx;
  const Array ids = ints({1, 0, 1, 3, 9});
  check_counts(ctx, ids, ints({1, 2, 0}), "layer 1");
  CHECK(error_of([&] {
          check_counts(ctx, ids, ints({1, 2, 1}), "layer 1");
        }) ==
        "layer 1: counts_E says 1 assignments of expert 2, ids_BLK have 0 on this rank; both must "
        "be of one Routing");
}

TEST_CASE("lists of rows name what they cannot take", "[kernels][row_lists]") {
  KernelContext ctx;
  CHECK(error_of([&] { invert_list(ctx, Array::zeros({2}, DType::kI32), list(2)); }) ==
        "invert_list: the list is I32[2]; expected a dense I64 array of shape [2]");
  CHECK(error_of([&] { pack_parts(ctx, list(2), list(2), {.parts = 2, .most = 3}, list(5)); }) ==
        "pack_parts: the result is I64[5]; expected a dense I64 array of shape [6]");
}

}  // namespace tessera
