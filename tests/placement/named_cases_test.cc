// Layouts stated in the documents, sizes that no loop could visit, and the texts of the main
// mistakes.
#include <chrono>

#include "placement/plan.h"
#include "tests/placement/brute.h"

using namespace tessera;  // NOLINT
using brute::mesh_of;

namespace {

Spec spec_of(const Mesh& mesh, Shape shape, std::string_view placements) {
  return value_or_throw(Spec::make(mesh, std::move(shape), DType::kF32,
                                   value_or_throw(parse_placements(placements))));
}
std::string error_of(const Mesh& mesh, Shape shape, std::string_view placements) {
  const auto spec =
      Spec::make(mesh, std::move(shape), DType::kF32, value_or_throw(parse_placements(placements)));
  return std::string(message_of(spec.status()));
}
/// The intervals of dim 0 by rank.
std::vector<std::vector<Interval>> rows_of(const Spec& spec) {
  std::vector<std::vector<Interval>> rows;
  for (const Coord& coord : brute::coords_of(spec.mesh())) {
    rows.push_back(
        local_intervals(spec.mesh(), spec.global_shape()[0], spec.layout().dims[0], coord));
  }
  return rows;
}

}  // namespace

TEST_CASE("(5, 3) as S(0), S(0) on 2x2 has 2, 1, 1, 1 rows", "[placement][layout]") {
  const Spec spec = spec_of(mesh_of({2, 2}, {"dp", "tp"}), {5, 3}, "S(0), S(0)");
  CHECK(to_string(spec.mesh(), spec.layout().dims[0]) == "[dp, tp]");
  CHECK(spec.local_shape({0, 0}) == Shape{2, 3});
  CHECK(spec.local_shape({0, 1}) == Shape{1, 3});
  CHECK(spec.local_shape({1, 0}) == Shape{1, 3});
  CHECK(spec.local_shape({1, 1}) == Shape{1, 3});
}

TEST_CASE("FSDP over TP of 5 rows follows the level order", "[placement][layout][C48]") {
  const Spec spec = spec_of(mesh_of({2, 2}, {"dp", "tp"}), {5}, "SS(0,2), S(0)");
  CHECK(to_string(spec.mesh(), spec.layout().dims[0]) == "[tp, dp]");
  CHECK(rows_of(spec) ==
        std::vector<std::vector<Interval>>{{{0, 2}}, {{3, 4}}, {{2, 3}}, {{4, 5}}});
}

// pytorch#168134: what 5 elements are under one strided cut of factor 2 has two readings. Pieces of
// 3 and 2 are cut by themselves; or all of them as a piece of 3 is, the last one padded, which a
// grain of 2 says.
TEST_CASE("a strided cut of 5 elements has both readings, each exact", "[placement][layout][C48]") {
  const Mesh mesh = mesh_of({2}, {"tp"});
  const Spec own = spec_of(mesh, {5}, "SS(0,2)");
  CHECK(to_string(mesh, own.layout().dims[0]) == "[2*, tp]");
  CHECK(rows_of(own) == std::vector<std::vector<Interval>>{{{0, 2}, {3, 4}}, {{2, 3}, {4, 5}}});
  Layout layout = own.layout();
  layout.dims[0] = {Level::of_block(2), Level::of_axis(0, 2)};
  const Spec padded = value_or_throw(Spec::make(mesh, {5}, DType::kF32, layout));
  CHECK(to_string(mesh, padded.layout().dims[0]) == "[2*, tp%2]");
  CHECK(rows_of(padded) == std::vector<std::vector<Interval>>{{{0, 2}, {3, 5}}, {{2, 3}}});
  // And a plan leads from one to the other: rank 0 lacks the last element, which rank 1 has.
  const PlanCost cost = cost_of(value_or_throw(plan(own, padded)));
  CHECK(cost.bytes_received.total == 4);
  CHECK(cost.ratio() == 1.0);
}

TEST_CASE("R, SS(0,3) of 12 keeps two elements of each third", "[placement][layout]") {
  const Spec spec = spec_of(mesh_of({2, 2}, {"dp", "tp"}), {12}, "R, SS(0,3)");
  CHECK(to_string(spec.mesh(), spec.layout().dims[0]) == "[3*, tp]");
  const std::vector<Interval> low = {{0, 2}, {4, 6}, {8, 10}};
  const std::vector<Interval> high = {{2, 4}, {6, 8}, {10, 12}};
  CHECK(rows_of(spec) == std::vector<std::vector<Interval>>{low, high, low, high});
}

TEST_CASE("an uneven strided shard follows its levels, not the list from left to right",
          "[placement][layout]") {
  const Spec spec = spec_of(mesh_of({3, 2}), {7}, "SS(0,2), S(0)");
  CHECK(to_string(spec.mesh(), spec.layout().dims[0]) == "[1, 0]");
  CHECK(rows_of(spec) ==
        std::vector<std::vector<Interval>>{{{0, 2}}, {{4, 5}}, {{2, 4}}, {{5, 6}}, {}, {{6, 7}}});
}

TEST_CASE("a local size that does not divide is cut unevenly, whatever the global size",
          "[placement][layout][C49]") {
  // Two TP ranks hold 5 rows each of 10; two data ranks cut them into 3 and 2.
  const Spec spec = spec_of(mesh_of({2, 2}, {"dp", "tp"}), {10}, "SS(0,2), S(0)");
  CHECK(rows_of(spec) ==
        std::vector<std::vector<Interval>>{{{0, 3}}, {{5, 8}}, {{3, 5}}, {{8, 10}}});
}

TEST_CASE("axes of size 1 are dropped, and come back as R", "[placement][layout][C57]") {
  const Mesh mesh = mesh_of({1, 2, 1}, {"pp", "dp", "cp"});
  const Spec spec = spec_of(mesh, {4}, "S(0), S(0), P");
  CHECK(spec == spec_of(mesh, {4}, "P(max), S(0), SS(0,7)"));
  CHECK(to_string(value_or_throw(spec.placements())) == "(R, S(0), R)");
  CHECK_FALSE(spec.has_partial());
}

TEST_CASE("2^14 ranks and dims of 2^40 cost no loop over either", "[placement][large]") {
  const auto start = std::chrono::steady_clock::now();
  const Mesh mesh = mesh_of({128, 128}, {"dp", "tp"});
  const std::int64_t size = std::int64_t{1} << 40;
  const Coord coord{77, 123};
  const std::int64_t rank = mesh.rank_of(coord);
  CHECK(rank == 77 * 128 + 123);
  CHECK(mesh.coord_of(rank).value() == coord);
  const Spec nested = spec_of(mesh, {size, 3}, "S(0), S(0)");
  const Spec fsdp_over_tp = spec_of(mesh, {size, 3}, "SS(0,128), S(0)");
  const Spec strided = spec_of(mesh, {size, 3}, "R, SS(0,4294967296)");
  const std::int64_t chunk = size >> 14;
  CHECK(nested.local_shape(coord) == Shape{chunk, 3});
  CHECK(strided.local_shape(coord) == Shape{size / 128, 3});
  const Levels& nested_rows = nested.layout().dims[0];
  const Levels& fsdp_rows = fsdp_over_tp.layout().dims[0];
  const Levels& strided_rows = strided.layout().dims[0];
  CHECK(local_to_global(mesh, size, nested_rows, coord, 5) == rank * chunk + 5);
  CHECK(local_to_global(mesh, size, fsdp_rows, coord, 5) == (123 * 128 + 77) * chunk + 5);
  // 2^32 blocks of 256: each gives coord 123 of tp the two elements from 246 on.
  const std::int64_t index = 1'000'000'007 * 256LL + 247;
  CHECK(local_to_global(mesh, size, strided_rows, coord, 2'000'000'015) == index);
  CHECK(global_to_local(mesh, size, strided_rows, coord, index) == 2'000'000'015);
  CHECK(global_to_local(mesh, size, strided_rows, coord, index + 1) == -1);
  CHECK(owner_of(mesh, size, strided_rows, index) == Coord{0, 123});
  CHECK_FALSE(same_index_sets(mesh, size, nested_rows, fsdp_rows));
  CHECK_FALSE(same_index_sets(mesh, size, nested_rows, strided_rows));
  CHECK(intersect(mesh, nested_rows, coord, mesh, fsdp_rows, {123, 77}, size) ==
        std::vector<Run>{{0, 0, chunk}});
  CHECK(intersect(mesh, nested_rows, coord, mesh, fsdp_rows, coord, size).empty());

  const Plan swap = value_or_throw(plan(fsdp_over_tp, nested));
  CHECK(bytes_received(swap, rank) == chunk * 3 * 4);
  CHECK(transfers_into(swap.steps.at(0), rank).size() == 1);
  CHECK(transfers_into(swap.steps.at(0), rank).at(0).peer == 123 * 128 + 77);
  CHECK(transfers_from(swap.steps.at(0), rank).at(0).peer == 123 * 128 + 77);
  const Plan gather = value_or_throw(plan(nested, spec_of(mesh, {size, 3}, "S(0), R")));
  CHECK(transfers_into(gather.steps.at(0), rank).size() == 128);
  CHECK(bytes_received(gather, rank) == chunk * 127 * 3 * 4);

  const Levels one_row = value_or_throw(flatten_levels(mesh, {Level::of_axis(0)}, 1, {}, size));
  CHECK(local_size(mesh, size, one_row, {0, 0}) == size);
  CHECK(local_intervals(mesh, size, one_row, {0, 0}) == std::vector<Interval>{{0, size}});
  CHECK(local_intervals(mesh, size, one_row, {1, 0}).empty());
  // A grain that no smaller one replaces: the search for it ends too.
  const Levels grained = canonical_levels(mesh, size, {Level::of_axis(0, (size >> 5) - 1)});
  CHECK(local_size(mesh, size, grained, {0, 0}) == (size >> 5) - 1);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  CHECK(seconds.count() <
        2.0);  // about 0.01 s; any loop over ranks x pieces or elements takes hours
}

TEST_CASE("sizes at the end of the 64-bit range do not overflow", "[placement][large]") {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const Mesh mesh = mesh_of({16384});
  for (const Level& level :
       {Level::of_axis(0), Level::of_axis(0, most), Level::of_axis(0, most / 2)}) {
    std::int64_t total = 0;
    for (std::int64_t c = 0; c < 16384; ++c) total += local_size(mesh, most, {level}, {c});
    CHECK(total == most);
  }
  CHECK(local_size(mesh, most, {Level::of_block(most, most), Level::of_axis(0)}, {0}) ==
        most / 16384 + 1);
  const std::int64_t square[] = {std::int64_t{1} << 32, std::int64_t{1} << 32};
  CHECK(absl::IsOutOfRange(checked_num_elements(square).status()));
  const std::int64_t with_empty[] = {most, most, 0};
  CHECK(value_or_throw(checked_num_elements(with_empty)) == 0);
  CHECK(absl::IsOutOfRange(flatten_levels(mesh, {}, square[0], {}, square[1]).status()));
  const auto spec =
      Spec::make(mesh, {std::int64_t{1} << 61}, DType::kF64, Layout{{{}}, {std::nullopt}});
  CHECK(absl::IsOutOfRange(spec.status()));
}

TEST_CASE("placements that do not fit say what was seen and what is allowed",
          "[placement][errors]") {
  const Mesh mesh = mesh_of({2, 3}, {"dp", "tp"});
  CHECK(error_of(mesh, {4, 6}, "S(0)") ==
        "placements (S(0)): 1 given, but the mesh has 2 axes; give one per axis [mesh {dp: 2, tp: "
        "3}, "
        "shape [4, 6]]");
  CHECK(error_of(mesh, {4, 6}, "R, S(2)") ==
        "placements (R, S(2)): dim 2 is out of range for a tensor of 2 dims; allowed are -2 to 1 "
        "[mesh "
        "{dp: 2, tp: 3}, shape [4, 6]]");
  CHECK(error_of(mesh, {}, "R, S(0)") ==
        "placements (R, S(0)): dim 0 is out of range: the tensor has no dims [mesh {dp: 2, tp: 3}, "
        "shape []]");
  CHECK(
      error_of(mesh, {4, 6}, "SS(0,2), S(0)") ==
      "placements (SS(0,2), S(0)): SS(0,2) on axis dp does not decode: the axes to its right cut "
      "dim "
      "0 as [tp], and no position in that list has the split factor 2 [mesh {dp: 2, tp: 3}, shape "
      "[4, 6]]");
  CHECK(error_of(mesh, {4, -1}, "R, R") == "shape [4, -1] has the negative size -1");
}

TEST_CASE("a layout that does not fit is refused", "[placement][errors]") {
  const Mesh mesh = mesh_of({2, 3}, {"dp", "tp"});
  const std::int64_t shape[] = {4, 6};
  const auto error = [&](std::vector<Levels> dims, std::vector<std::optional<ReduceOp>> partial) {
    return std::string(message_of(validate(mesh, shape, {std::move(dims), std::move(partial)})));
  };
  const std::optional<ReduceOp> none;
  CHECK(error({{Level::of_axis(0)}, {Level::of_axis(0)}}, {none, none}) ==
        "layout: axis dp of mesh {dp: 2, tp: 3} is used twice; it may cut one dim once, or be "
        "Partial");
  CHECK(error({{Level::of_axis(1)}, {}}, {none, ReduceOp::kSum}) ==
        "layout: axis tp of mesh {dp: 2, tp: 3} is used twice; it may cut one dim once, or be "
        "Partial");
  CHECK(error({{}}, {none, none}) == "layout: levels for 1 dims given, but shape [4, 6] has 2");
  CHECK(error({{}, {}}, {none}) ==
        "layout: partial has 1 entries, but mesh {dp: 2, tp: 3} has 2 axes");
  CHECK(error({{Level::of_axis(2)}, {}}, {none, none}) ==
        "layout: dim 0 names axis 2, but mesh {dp: 2, tp: 3} has 2 axes");
  CHECK(error({{}, {Level::of_block(0)}}, {none, none}) ==
        "layout: dim 1 has a block of 0; at least 1 is allowed");
  CHECK(error({{}, {Level::of_axis(0, 0)}}, {none, none}) ==
        "layout: dim 1 has a level with grain 0; at least 1 is allowed");
  CHECK(error({Levels(17, Level::of_run(2)), {}}, {none, none}) ==
        "layout: dim 0 has more than 16 run and block levels");
  CHECK(validate(mesh, shape, {{{Level::of_axis(1), Level::of_axis(0)}, {}}, {none, none}}).ok());
}

TEST_CASE("encode refuses lists that no placements say", "[placement][errors]") {
  const Mesh mesh = mesh_of({2, 3}, {"dp", "tp"});
  const std::int64_t shape[] = {7};
  const auto error = [&](Levels levels) {
    const Layout layout{{std::move(levels)}, {std::nullopt, std::nullopt}};
    return std::string(message_of(encode(mesh, shape, layout).status()));
  };
  CHECK(error({Level::of_run(4), Level::of_axis(1)}) ==
        "layout [/4, tp] of dim 0 has no placement list: it has a run");
  CHECK(error({Level::of_axis(0, 5)}) ==
        "layout [dp%5] of dim 0 has no placement list: it has a grain");
  CHECK(
      error({Level::of_block(2), Level::of_block(3), Level::of_axis(0)}) ==
      "layout [2*, 3*, dp] of dim 0 has no placement list: it has two adjacent blocks that do not "
      "merge");
  CHECK(error({Level::of_block(2), Level::of_axis(0)}).empty());
}
