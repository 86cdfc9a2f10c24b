// Meshes and their views: coords, groups, sub-meshes, flattened and refactored axes.
#include "placement/mesh.h"

#include "tests/placement/brute.h"

using namespace tessera;  // NOLINT
using brute::mesh_of;

namespace {

std::string error_of(std::vector<std::int64_t> shape, std::vector<std::string> names = {},
                     std::int64_t first_rank = 0) {
  return std::string(message_of(Mesh::make(shape, std::move(names), first_rank).status()));
}

}  // namespace

TEST_CASE("ranks of a mesh are row-major from its first rank", "[placement][mesh]") {
  const std::int64_t shape[] = {2, 3, 2};
  const Mesh mesh = value_or_throw(Mesh::make(shape, {"a", "b", "c"}, 4));
  CHECK(mesh.to_string() == "{a: 2, b: 3, c: 2}");
  CHECK(mesh.num_ranks() == 12);
  std::int64_t expected = 4;
  for (const Coord& coord : brute::coords_of(mesh)) {
    CHECK(mesh.rank_of(coord) == expected);
    CHECK(mesh.coord_of(expected).value() == coord);
    ++expected;
  }
  CHECK(mesh.coord_of(3) == std::nullopt);
  CHECK(mesh.coord_of(16) == std::nullopt);
  CHECK(mesh.group_along(1, 11) == std::vector<std::int64_t>{11, 13, 15});
  CHECK(mesh.group_along(0, 16).empty());
  const Mesh none;
  CHECK(none.num_ranks() == 1);
  CHECK(none.coord_of(0) == Coord{});
  CHECK(none.coord_of(1) == std::nullopt);
  CHECK(none.to_string() == "{}");
}

TEST_CASE("axes are found by name and by position", "[placement][mesh]") {
  const Mesh mesh = mesh_of({2, 3}, {"dp", "tp"});
  CHECK(value_or_throw(mesh.find_axis("tp")) == 1);
  CHECK(value_or_throw(mesh.find_axis("0")) == 0);
  CHECK(value_or_throw(mesh.find_axis("-1")) == 1);
  CHECK(message_of(mesh.find_axis("ep").status()) == "mesh {dp: 2, tp: 3} has no axis 'ep'");
  CHECK(message_of(mesh.find_axis("2").status()) == "mesh {dp: 2, tp: 3} has no axis '2'");
  const Mesh unnamed = mesh_of({2, 3});
  CHECK(unnamed.to_string() == "{2, 3}");
  CHECK(unnamed.axis_label(1) == "1");
  CHECK_FALSE(unnamed.find_axis("").ok());
}

TEST_CASE("sub-meshes go through a rank, in the order of the axes listed", "[placement][mesh]") {
  const Mesh mesh = mesh_of({2, 3, 2}, {"a", "b", "c"});
  const int axes[] = {2, 0};
  const Mesh sub = value_or_throw(mesh.sub_mesh(axes, 9));  // coord (1, 1, 1)
  CHECK(sub.to_string() == "{c: 2, a: 2}");
  CHECK(sub.first_rank() == 2);
  std::vector<std::int64_t> ranks;
  for (const Coord& coord : brute::coords_of(sub)) {
    ranks.push_back(sub.rank_of(coord));
    CHECK(sub.coord_of(ranks.back()).value() == coord);
  }
  CHECK(ranks == std::vector<std::int64_t>{2, 8, 3, 9});
  CHECK(sub.coord_of(4) == std::nullopt);
  CHECK(sub == value_or_throw(mesh.sub_mesh(axes, 2)));
  const int twice[] = {0, 0};
  CHECK(message_of(mesh.sub_mesh(twice, 0).status()) ==
        "sub_mesh: axis a of mesh {a: 2, b: 3, c: 2} is listed twice");
  const int unknown[] = {3};
  CHECK(message_of(mesh.sub_mesh(unknown, 0).status()) ==
        "mesh {a: 2, b: 3, c: 2} has no axis 3; it has 3 axes");
  CHECK(message_of(mesh.sub_mesh(axes, 12).status()) ==
        "sub_mesh: rank 12 is not in mesh {a: 2, b: 3, c: 2}");
}

TEST_CASE("flattened and refactored meshes keep rank and order", "[placement][mesh]") {
  const Mesh mesh = mesh_of({2, 3, 2}, {"a", "b", "c"});
  const Mesh flat = value_or_throw(mesh.flatten(1, 2));
  CHECK(flat.to_string() == "{a: 2, b_c: 6}");
  CHECK(flat == value_or_throw(Mesh::make(std::vector<std::int64_t>{2, 6}, {"a", "b_c"})));
  CHECK(value_or_throw(mesh.flatten(0, 3, "all")).to_string() == "{all: 12}");
  const std::int64_t other[] = {3, 4};
  CHECK(value_or_throw(mesh.refactor(other, {"x", "y"})) ==
        value_or_throw(Mesh::make(other, {"x", "y"})));
  const int axes[] = {0, 2};
  const Mesh sub = value_or_throw(mesh.sub_mesh(axes, 0));
  CHECK(message_of(sub.flatten(0, 2).status()) ==
        "mesh {a: 2, c: 2}: axis a does not nest over the axes to its right (rank stride 6, 2 "
        "expected), so that they cannot be flattened");
  CHECK(message_of(sub.refactor(other).status()) ==
        "mesh {a: 2, c: 2}: its ranks are not contiguous in row-major order (axis a has rank "
        "stride 6, "
        "2 expected), so that it cannot be refactored");
  const std::int64_t wrong[] = {5};
  CHECK(message_of(mesh.refactor(wrong).status()) ==
        "mesh {a: 2, b: 3, c: 2} has 12 ranks, but [5] has 5; a refactored mesh keeps them");
  CHECK(mesh_of({1, 2, 1}, {"a", "b", "c"}).without_unit_axes() == mesh_of({2}, {"b"}));
}

TEST_CASE("meshes that cannot be are refused", "[placement][mesh][errors]") {
  CHECK(error_of({2, 0}) == "mesh: shape [2, 0] has an axis of size 0; axes have at least 1 rank");
  CHECK(error_of({2, 2}, {"dp"}) ==
        "mesh: shape [2, 2] has 2 axes but 1 names are given; give one name per axis, or none");
  CHECK(error_of({2, 2}, {"dp", "dp"}) == "mesh: axis name 'dp' occurs twice");
  CHECK(error_of({2}, {"2x"}) ==
        "mesh: '2x' is no axis name; allowed are letters, digits and _, not a digit first");
  CHECK(error_of({std::int64_t{1} << 40, std::int64_t{1} << 40}) ==
        "mesh: shape [1099511627776, 1099511627776] has more than 2^63 - 1 ranks");
  CHECK(error_of({2}, {}, -1) == "mesh: first rank -1 is negative");
}
