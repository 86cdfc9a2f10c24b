// Lists of rows, on the device against the processor.
#include "kernels/row_lists.h"

#include <numeric>

#include "tests/device/device_arrays.h"

namespace tessera::testing {
namespace {

using namespace kernels;

constexpr int kRowListsCases = 200;

Twins ints(TwinMaker& make, const Shape& shape, std::int64_t low, std::int64_t high) {
  std::vector<double> values(static_cast<std::size_t>(num_elements(shape)));
  for (double& value : values) value = static_cast<double>(make.number(low, high));
  return make.of(Array::from_values(shape, DType::kI64, values));
}
Twins list(TwinMaker& make, std::int64_t size) { return ints(make, {size}, -9, -9); }

std::int64_t sum_of(const Array& counts) {
  const std::vector<double> values = counts.to_vector();
  return static_cast<std::int64_t>(std::accumulate(values.begin(), values.end(), 0.0));
}

}  // namespace

TEST_CASE("orders by key are the same on the device", "[device][row_lists]") {
  OnDevice on;
  TwinMaker make(on, 91);
  int refused = 0;
  for (int i = 0; i < kRowListsCases; ++i) {
    const std::int64_t p = make.number(1, 3), s = make.number(1, 40), k = make.number(0, 40);
    const bool small = make.number(0, 2) > 0;
    const Twins table = ints(make, {s, p, 2, k}, 0, small ? 3 : 20);
    const auto view = [&](const Array& all) {  // as ranks of two axes tell it of two chunks
      return all.as_strided({p, s, k}, {2 * k, 2 * k * p, 1}, all.offset() + k);
    };
    const Twins counts = {view(table.host), view(table.device)};
    const std::int64_t all = sum_of(counts.host);
    const std::int64_t room = make.number(0, 1) == 0 ? kAnyNumber : make.number(0, 30);
    const KeySize size{.rows = make.number(0, 3) == 0 ? make.number(0, 4 * p * s) : kAnyNumber,
                       .alignment = make.number(1, 4)};
    const std::int64_t received = room == kAnyNumber ? all : room * p * s;
    const std::int64_t rows = received +
                              k * (size.alignment + std::max<std::int64_t>(0, size.rows)) -
                              (make.number(0, 9) == 0 ? make.number(0, received) : 0);
    const Twins of = ints(make, {received}, 0, 1000), source = list(make, rows),
                restore = list(make, received), held = list(make, k);
    const bool tells = make.number(0, 1) == 0, inverts = make.number(0, 1) == 0;
    CAPTURE(i, p, s, k, room, size.rows, size.alignment, rows, received, tells, inverts);
    const auto run = [&](KernelContext& ctx, bool device) {
      order_by_key(
          ctx, {side(counts, device), room}, size, tells ? side(of, device) : Array(),
          {side(source, device), inverts ? side(restore, device) : Array(), side(held, device)});
    };
    KernelContext cpu;
    bool fails = false;
    try {
      run(cpu, false);
    } catch (const Error&) {
      fails = true;
      ++refused;
    }
    CHECK(compare(on, source, 0.0, run) == "");
    if (fails) continue;
    CHECK(difference(fetch(on, held.device), held.host, 0.0) == "");
    CHECK(difference(fetch(on, restore.device), restore.host, 0.0) == "");
  }
  CHECK(refused > 10);
  CHECK(refused < kRowListsCases / 2);
}

// Tables of more bytes than a block has unasked.
TEST_CASE("packed parts of thousands of peers are the same on the device", "[device][row_lists]") {
  OnDevice on;
  TwinMaker make(on, 95);
  const PartRooms rooms{.parts = 5000, .keys_per_part = 1, .most = 2};
  const Twins counts = ints(make, {rooms.parts}, 0, 4);
  const Twins sorted = ints(make, {sum_of(counts.host)}, 0, 500), out = list(make, rooms.total());
  CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
          pack_parts(ctx, side(sorted, device), side(counts, device), rooms, side(out, device));
        }) == "");
}

TEST_CASE("packed parts, places and keys are the same on the device", "[device][row_lists]") {
  OnDevice on;
  TwinMaker make(on, 92);
  for (int i = 0; i < kRowListsCases; ++i) {
    PartRooms rooms{.parts = make.number(1, 70),
                    .keys_per_part = make.number(1, 5),
                    .most = make.number(0, 20)};
    if (make.number(0, 1) == 0) {
      rooms.rows_per_expert = make.number(0, 5);
      rooms.experts_per_part = make.number(1, 4);
      rooms.experts = make.number(0, rooms.parts * rooms.experts_per_part);
    }
    const std::int64_t keys =
        make.number((rooms.parts - 1) * rooms.keys_per_part, rooms.parts * rooms.keys_per_part);
    const Twins counts = ints(make, {keys}, 0, 9);
    const Twins sorted = ints(make, {sum_of(counts.host)}, 0, 500), out = list(make, rooms.total());
    CAPTURE(i, rooms.parts, rooms.keys_per_part, rooms.most, rooms.rows_per_expert, keys);
    CHECK(compare(on, out, 0.0, [&](KernelContext& ctx, bool device) {
            pack_parts(ctx, side(sorted, device), side(counts, device), rooms, side(out, device));
          }) == "");

    std::vector<double> slots(static_cast<std::size_t>(make.number(0, 200)));
    std::iota(slots.begin(), slots.end(), 0);
    for (double& slot : slots) slot = make.number(0, 3) == 0 ? -1 : slot;
    std::reverse(slots.begin(), slots.end());
    const Twins entries =
        make.of(Array::from_values({static_cast<std::int64_t>(slots.size())}, DType::kI64, slots));
    const Twins places = list(make, static_cast<std::int64_t>(slots.size()) + make.number(0, 9));
    CHECK(compare(on, places, 0.0, [&](KernelContext& ctx, bool device) {
            invert_list(ctx, side(entries, device), side(places, device));
          }) == "");

    const ExpertParts parts{.experts = make.number(0, 40),
                            .experts_per_part = make.number(1, 9),
                            .parts = make.number(1, 9)};
    const ExpertParts fitting{std::min(parts.experts, parts.parts * parts.experts_per_part),
                              parts.experts_per_part, parts.parts};
    const Twins ids = ints(make, {make.number(0, 40), make.number(1, 8)}, 0, 41);
    const Twins of_parts = ints(make, {ids.host.size(0), parts.parts}, -9, -9);
    CHECK(compare(on, of_parts, 0.0, [&](KernelContext& ctx, bool device) {
            keys_of_parts(ctx, side(ids, device), fitting, side(of_parts, device));
          }) == "");
    const std::int64_t flat_size = ids.host.num_elements();
    const KeyRange range{make.number(0, 20), make.number(0, 20)};
    const Twins in_range = list(make, flat_size);
    CHECK(compare(on, in_range, 0.0, [&](KernelContext& ctx, bool device) {
            keys_in_range(ctx, side(ids, device).try_view({flat_size}), range,
                          side(in_range, device));
          }) == "");
  }
}

TEST_CASE("tokens that pass a node are the same on the device", "[device][row_lists]") {
  OnDevice on;
  TwinMaker make(on, 93);
  for (int i = 0; i < kRowListsCases; ++i) {
    PassedTokens tokens{.experts = {make.number(0, 20), make.number(0, 20)}};
    std::int64_t all = 0, next_row = 0;
    const bool bounds = make.number(0, 1) == 0;
    for (std::int64_t part = make.number(1, 6); part > 0; --part) {
      const std::int64_t held = make.number(0, 30);
      const std::int64_t room = bounds ? make.number(0, 20) : kAnyNumber;
      tokens.parts.push_back({held, room, next_row});
      next_row += room;
      all += held;
    }
    const Twins ids = ints(make, {all, make.number(1, 6)}, 0, 40);
    const std::int64_t slots = ids.host.num_elements();
    const Twins keys = list(make, slots), rows = list(make, slots),
                counts = list(make, static_cast<std::int64_t>(tokens.parts.size()));
    CAPTURE(i, all, bounds, tokens.experts.begin, tokens.experts.count);
    CHECK(compare(on, keys, 0.0, [&](KernelContext& ctx, bool device) {
            slots_of_passed(ctx, side(ids, device), tokens,
                            {side(keys, device), side(rows, device), side(counts, device)});
          }) == "");
    CHECK(difference(fetch(on, rows.device), rows.host, 0.0) == "");
    CHECK(difference(fetch(on, counts.device), counts.host, 0.0) == "");
  }
}

TEST_CASE("counts are compared with ids on the device", "[device][row_lists]") {
  OnDevice on;
  TwinMaker make(on, 94);
  const Twins ids = ints(make, {300}, 0, 12);
  std::vector<double> counts(10, 0.0);
  for (const double id : ids.host.to_vector()) {
    if (id < 10) ++counts[static_cast<std::size_t>(id)];
  }
  for (const int wrong : {-1, 3, 9}) {
    if (wrong >= 0) ++counts[static_cast<std::size_t>(wrong)];
    const Twins said = make.of(Array::from_values({10}, DType::kI64, counts));
    CAPTURE(wrong);
    CHECK(compare(on, said, 0.0, [&](KernelContext& ctx, bool device) {
            check_counts(ctx, side(ids, device), side(said, device), "layers.3");
          }) == "");
    if (wrong < 0) continue;
    check_counts(on.ctx, ids.device, said.device, "layers.3");
    CHECK_THROWS_AS(on.device->raise_faults(), Error);
    --counts[static_cast<std::size_t>(wrong)];
  }
}

}  // namespace tessera::testing
