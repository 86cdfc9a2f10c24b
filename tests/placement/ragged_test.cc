// Cuts of stated sizes and owners: text, what each coord holds, and which lists are refused.
#include <set>

#include "placement/plan.h"
#include "placement/spec.h"
#include "tests/placement/brute.h"

using namespace tessera;  // NOLINT
using brute::mesh_of;

namespace {

Layout decoded(const Mesh& mesh, const Shape& shape, std::string_view text) {
  return value_or_throw(decode(mesh, view_of(shape), value_or_throw(parse_placements(text))));
}
std::string refusal(const Mesh& mesh, const Shape& shape, std::string_view text) {
  const Placements placements = value_or_throw(parse_placements(text));
  return std::string(message_of(decode(mesh, view_of(shape), placements).status()));
}
std::string again(const Mesh& mesh, const Shape& shape, std::string_view text) {
  return to_string(value_or_throw(encode(mesh, view_of(shape), decoded(mesh, shape, text))));
}

/// Every list of `ranks` sizes that add up to `size`.
void every_sum(std::int64_t size, std::int64_t ranks, std::vector<std::int64_t> begun,
               std::vector<RaggedSizes>& found) {
  if (ranks == 1) {
    begun.push_back(size);
    found.emplace_back(std::span<const std::int64_t>(begun));
    return;
  }
  for (std::int64_t first = 0; first <= size; ++first) {
    std::vector<std::int64_t> next = begun;
    next.push_back(first);
    every_sum(size - first, ranks - 1, std::move(next), found);
  }
}

/// The first thing that layout.h says otherwise than the index lists do, or "".
std::string flaw_of(const Mesh& mesh, std::int64_t size, const Levels& levels) {
  const Levels plain = canonical_levels(mesh, size, levels);
  for (const Coord& coord : brute::coords_of(mesh)) {
    const brute::Indices held = brute::indices_of(mesh, size, levels, coord);
    const std::string where = to_string(mesh, levels) + " of " + std::to_string(size);
    if (brute::indices_of(mesh, size, plain, coord) != held) return where + ": canonical";
    if (local_size(mesh, size, plain, coord) != std::ssize(held)) return where + ": local_size";
    brute::Indices listed;
    for (const Interval& each : local_intervals(mesh, size, plain, coord)) {
      for (std::int64_t i = each.start; i < each.stop; ++i) listed.push_back(i);
    }
    if (listed != held) return where + ": local_intervals";
    for (std::int64_t i = 0; i < std::ssize(held); ++i) {
      const std::int64_t global = held[static_cast<std::size_t>(i)];
      if (local_to_global(mesh, size, plain, coord, i) != global) return where + ": to_global";
      if (global_to_local(mesh, size, plain, coord, global) != i) return where + ": to_local";
      const Coord owner = owner_of(mesh, size, plain, global);
      for (const Level& level : plain) {
        const auto axis = static_cast<std::size_t>(level.axis);
        if (level.kind == Level::Kind::kAxis && owner[axis] != coord[axis]) {
          return where + ": owner_of";
        }
      }
    }
    std::int64_t held_of_all = 0;
    for (std::int64_t global = 0; global < size; ++global) {
      held_of_all += global_to_local(mesh, size, plain, coord, global) >= 0 ? 1 : 0;
    }
    if (held_of_all != std::ssize(held)) return where + ": holds more";
  }
  return "";
}

}  // namespace

TEST_CASE("ragged sizes hold only the parts that have something", "[placement][ragged]") {
  const RaggedSizes sizes = {3, 0, 5};
  CHECK(sizes.num_coords() == 3);
  CHECK(sizes.total() == 8);
  CHECK(sizes.parts().size() == 2);
  CHECK(sizes.part_of(1) == RaggedPart{1, 3, 3});
  CHECK(sizes.part_of(2) == RaggedPart{2, 3, 8});
  CHECK(sizes.part_at(2).coord == 0);
  CHECK(sizes.part_at(3).coord == 2);
  CHECK(sizes.fullest() == 2);
  CHECK_FALSE(sizes.owner().has_value());
  CHECK(sizes.to_string() == "3,0,5");
  CHECK(sizes == RaggedSizes{3, 0, 5});
  CHECK_FALSE(sizes == RaggedSizes{3, 5, 0});
  CHECK_FALSE(sizes == RaggedSizes());
  CHECK(RaggedSizes::owned(3, 1, 4) == RaggedSizes{0, 4, 0});
  CHECK(*RaggedSizes({0, 4, 0}).owner() == 1);
  CHECK(value_or_throw(sizes.scaled(2)) == RaggedSizes{6, 0, 10});
  CHECK(RaggedSizes({6, 0, 10}).divided(2) == sizes);
  CHECK_FALSE(sizes.divides(3));
  CHECK(RaggedSizes({4, 4, 2}).is_plain());
  CHECK(RaggedSizes({3, 3, 0}).is_plain() == false);
  CHECK_FALSE(RaggedSizes({3, -1}).check().ok());
  CHECK_FALSE(RaggedSizes({INT64_MAX, INT64_MAX}).check().ok());
}

TEST_CASE("blocks are dealt out whole", "[placement][ragged]") {
  const auto blocks = [](std::int64_t size, std::int64_t block, std::int64_t ranks) {
    return value_or_throw(ragged_blocks(size, block, ranks)).to_string();
  };
  CHECK(blocks(10, 4, 2) == "8,2");
  CHECK(blocks(10, 4, 4) == "4,4,2,0");
  CHECK(blocks(128 * 5, 128, 2) == "384,256");
  CHECK(blocks(0, 4, 2) == "0,0");
  CHECK(blocks(3, 4, 2) == "3,0");
  CHECK(message_of(ragged_blocks(4, 0, 2).status()) ==
        "ragged_blocks: size 4 in blocks of 0 over 2 ranks; a size of at least 0, and a block and "
        "ranks of at least 1 are allowed");
}

TEST_CASE("every ragged cut of small dims holds what it says", "[placement][ragged]") {
  for (const std::int64_t ranks : {2, 3}) {
    const Mesh mesh = mesh_of({ranks, 2});
    for (std::int64_t size = 0; size <= 6; ++size) {
      std::vector<RaggedSizes> all;
      every_sum(size, ranks, {}, all);
      for (const RaggedSizes& sizes : all) {
        const Level ragged = Level::of_ragged(0, sizes);
        for (const Levels& levels :
             {Levels{ragged}, Levels{ragged, Level::of_axis(1)},
              Levels{ragged, Level::of_block(2), Level::of_axis(1)},
              Levels{ragged, Level::of_run(2), Level::of_axis(1)},
              Levels{ragged, Level::of_axis(1, 2)},
              Levels{ragged, Level::of_ragged(1, RaggedSizes::owned(2, 1, size))}}) {
          REQUIRE(flaw_of(mesh, size, levels) == "");
        }
      }
    }
  }
}

TEST_CASE("ragged and owned placements read back as they decode", "[placement][ragged]") {
  const Mesh mesh = mesh_of({2, 3}, {"dp", "tp"});
  CHECK(again(mesh, {8, 6}, "S(0;3,5), R") == "(S(0;3,5), R)");
  CHECK(again(mesh, {8, 6}, "S(0;3,5), S(0)") == "(S(0;3,5), S(0))");
  CHECK(again(mesh, {8, 6}, "SS(0,3), S(0;3,0,5)") == "(SS(0,3), S(0;3,0,5))");
  CHECK(again(mesh, {8, 6}, "S(0;3,5), S(1;1,2,3)") == "(S(0;3,5), S(1;1,2,3))");
  CHECK(again(mesh, {8, 6}, "S(-1;1,5), P(sum)") == "(S(1;1,5), P(sum))");
  CHECK(again(mesh, {8, 6}, "O(1), S(1)") == "(O(1), S(1))");
  CHECK(again(mesh, {8, 6}, "S(0), O(2)") == "(S(0), O(2))");
  CHECK(again(mesh, {8, 6}, "O(0), O(2)") == "(O(0), O(2))");
  CHECK(again(mesh, {8, 6}, "S(0;0,8), S(0;1,2,5)") == "(O(1), S(0;1,2,5))");
  CHECK(again(mesh, {8, 6}, "S(1;0,6), R") == "(S(1;0,6), R)");
  // Sizes of a plain cut are one; a dim of one element is the first coord's in either.
  CHECK(again(mesh, {8, 6}, "S(0;4,4), S(1;2,2,2)") == "(S(0), S(1))");
  CHECK(again(mesh, {1, 6}, "O(0), R") == "(S(0), R)");
  CHECK(again(mesh, {0, 6}, "O(1), R") == "(S(0), R)");
  CHECK(again(mesh, {0, 6}, "S(0), O(1)") == "(S(0), S(0))");
  CHECK(decoded(mesh, {8, 6}, "O(1), S(0)") == decoded(mesh, {8, 6}, "S(0;0,8), S(0)"));
  CHECK(to_string(mesh, decoded(mesh, {8, 6}, "S(0), O(2)").dims[0]) == "[tp(0,0,8), dp]");
  CHECK(again(mesh_of({1, 3}), {8}, "S(0;8), S(0;1,2,5)") == "(R, S(0;1,2,5))");
  const Spec spec = value_or_throw(
      Spec::make(mesh, {8, 6}, DType::kF32, value_or_throw(parse_placements("O(1), S(1)"))));
  CHECK(spec.to_string() == "F32[8, 6] (O(1), S(1)) on {dp: 2, tp: 3}");
  CHECK(spec.local_shape({0, 0}) == Shape{0, 2});
  CHECK(spec.local_shape({1, 0}) == Shape{8, 2});
  CHECK_FALSE(spec.is_replicated());
  CHECK(spec.layout().is_ragged());
}

TEST_CASE("sizes that do not fit are refused with what would", "[placement][ragged][errors]") {
  const Mesh mesh = mesh_of({2, 3}, {"dp", "tp"});
  const std::string where = " [mesh {dp: 2, tp: 3}, shape [8, 6]]";
  CHECK(refusal(mesh, {8, 6}, "S(0;3,4), R") ==
        "placements (S(0;3,4), R): the sizes of S(0;3,4) add up to 7, but the dim has 8 elements" +
            where);
  CHECK(refusal(mesh, {8, 6}, "S(0;3,4,1), R") ==
        "placements (S(0;3,4,1), R): S(0;3,4,1) states 3 sizes, but axis dp has 2 ranks; give one "
        "a rank" +
            where);
  CHECK(refusal(mesh, {8, 6}, "O(2), R") ==
        "placements (O(2), R): O(2) names coord 2, but axis dp has 2 ranks" + where);
  CHECK(refusal(mesh, {8, 6}, "S(0), S(0;1,2,5)") ==
        "placements (S(0), S(0;1,2,5)): layout: sizes 1,2,5 along axis tp cut dim 0 after "
        "[dp, tp(1,2,5)]; stated sizes have to be the first cut of a dim" +
            where);
  CHECK(refusal(mesh, {}, "O(1), R") ==
        "placements (O(1), R): O(1) of a tensor without dims: it has no part that is empty; let "
        "every rank hold it (R) [mesh {dp: 2, tp: 3}, shape []]");
}

TEST_CASE("views carry ragged cuts where rows stay whole", "[placement][ragged][view]") {
  const Mesh mesh = mesh_of({3}, {"dp"});
  const auto text = [&](const Levels& levels) { return to_string(mesh, levels); };
  const Levels rows = {Level::of_ragged(0, {1, 0, 3})};
  CHECK(text(value_or_throw(flatten_levels(mesh, rows, 4, {}, 5))) == "[dp(5,0,15)]");
  const auto back = value_or_throw(unflatten_levels(mesh, {Level::of_ragged(0, {5, 0, 15})}, 4, 5));
  CHECK(text(back.first) == "[dp(1,0,3)]");
  CHECK(back.second.empty());
  CHECK(text(value_or_throw(flatten_levels(mesh, {}, 1, rows, 4))) == "[dp(1,0,3)]");
  const auto split = value_or_throw(unflatten_levels(mesh, rows, 1, 4));
  CHECK(split.first.empty());
  CHECK(text(split.second) == "[dp(1,0,3)]");
  // One owner has every row of each dim.
  const Levels owned = {Level::of_ragged(0, {0, 4, 0})};
  CHECK(text(value_or_throw(flatten_levels(mesh, {}, 5, owned, 4))) == "[dp(0,20,0)]");
  CHECK(message_of(flatten_levels(mesh, {}, 5, rows, 4).status()) ==
        "flatten: [dp(1,0,3)] states the sizes that each of 5 rows is cut into, which no cut of "
        "all of them says; redistribute so that this dim is whole, or cut plainly");
  CHECK(message_of(unflatten_levels(mesh, {Level::of_ragged(0, {5, 0, 15})}, 2, 10).status()) ==
        "unflatten: level dp(5,0,15) of [dp(5,0,15)] cuts [2, 10] inside rows of 10; redistribute "
        "so that no axis cuts this dim, or that its pieces are whole rows");
}

TEST_CASE("a thousand owners cost no more than one", "[placement][ragged]") {
  const Mesh mesh = mesh_of({16'384}, {"dp"});
  const Spec spec =
      value_or_throw(Spec::make(mesh, {4096, 4096}, DType::kF32, Placements{Owned{9'999}}));
  CHECK(spec.layout().dims[0][0].sizes.parts().size() == 1);
  CHECK(to_string(value_or_throw(spec.placements())) == "(O(9999))");
  CHECK(spec.local_shape({9'999}) == Shape{4096, 4096});
  CHECK(spec.local_shape({0}) == Shape{0, 4096});
}
