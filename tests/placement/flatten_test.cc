// Views on levels: flatten and unflatten move no element, for every cut of two dims.
#include "tests/placement/brute.h"

using namespace tessera;  // NOLINT
using brute::coords_of;
using brute::indices_of;
using brute::mesh_of;

namespace {

/// Row-major indices of the product of two dims' index sets, for each coord.
std::vector<brute::Indices> product_sets(const Mesh& mesh, std::int64_t n_major,
                                         const Levels& major, std::int64_t n_minor,
                                         const Levels& minor) {
  std::vector<brute::Indices> sets;
  for (const Coord& coord : coords_of(mesh)) {
    sets.emplace_back();
    for (const std::int64_t row : indices_of(mesh, n_major, major, coord)) {
      for (const std::int64_t column : indices_of(mesh, n_minor, minor, coord)) {
        sets.back().push_back(row * n_minor + column);
      }
    }
  }
  return sets;
}

/// Lists for two dims that put every axis into one of them or none, in both orders, with cuts where
/// asked.
std::vector<std::pair<Levels, Levels>> dim_pairs(int num_axes, const Levels& cuts) {
  std::vector<std::vector<int>> orders{{0}};
  if (num_axes == 2) orders = {{0, 1}, {1, 0}};
  std::vector<std::pair<Levels, Levels>> pairs;
  for (const std::vector<int>& order : orders) {
    std::vector<std::pair<Levels, Levels>> partial{{{}, {}}};
    for (const int axis : order) {
      std::vector<std::pair<Levels, Levels>> longer;
      for (const auto& pair : partial) {
        longer.push_back(pair);
        for (std::size_t c = 0; c <= cuts.size(); ++c) {
          auto in_major = pair;
          auto in_minor = pair;
          if (c > 0) in_major.first.push_back(cuts[c - 1]);
          if (c > 0) in_minor.second.push_back(cuts[c - 1]);
          in_major.first.push_back(Level::of_axis(axis));
          in_minor.second.push_back(Level::of_axis(axis));
          longer.push_back(in_major);
          longer.push_back(in_minor);
        }
      }
      partial = std::move(longer);
    }
    pairs.insert(pairs.end(), partial.begin(), partial.end());
  }
  return pairs;
}

/// Flattens and unflattens every pair for all sizes up to `most`; the first difference as text.
std::string check_views(const Mesh& mesh, const Levels& cuts, std::int64_t most) {
  for (const auto& [major, minor] : dim_pairs(mesh.ndim(), cuts)) {
    for (std::int64_t n_major = 0; n_major <= most; ++n_major) {
      for (std::int64_t n_minor = 0; n_minor <= most; ++n_minor) {
        const std::string where = to_string(mesh, major) + " x " + to_string(mesh, minor) + " of " +
                                  std::to_string(n_major) + " x " + std::to_string(n_minor);
        const auto expected = product_sets(mesh, n_major, major, n_minor, minor);
        const auto flat = flatten_levels(mesh, major, n_major, minor, n_minor);
        if (!flat.ok()) return where + std::string(message_of(flat.status()));
        const std::int64_t size = n_major * n_minor;
        if (brute::index_sets(mesh, size, *flat) != expected) {
          return where + " flattens to " + to_string(mesh, *flat);
        }
        const auto back = unflatten_levels(mesh, *flat, n_major, n_minor);
        if (!back.ok()) return where + ": " + std::string(message_of(back.status()));
        if (product_sets(mesh, n_major, back->first, n_minor, back->second) != expected) {
          return where + " flattens to " + to_string(mesh, *flat) + " and unflattens to " +
                 to_string(mesh, back->first) + " x " + to_string(mesh, back->second);
        }
      }
    }
  }
  return "";
}

}  // namespace

TEST_CASE("every cut of two dims flattens and unflattens in place", "[placement][view]") {
  const Levels blocks = {Level::of_block(2), Level::of_block(3)};
  REQUIRE(check_views(mesh_of({2}), blocks, 7) == "");
  REQUIRE(check_views(mesh_of({3}), blocks, 7) == "");
  REQUIRE(check_views(mesh_of({2, 2}), {}, 7) == "");
  REQUIRE(check_views(mesh_of({2, 3}), {}, 7) == "");
  REQUIRE(check_views(mesh_of({2, 2}), {Level::of_block(2)}, 5) == "");
  REQUIRE(check_views(mesh_of({2, 3}), {Level::of_run(2)}, 5) == "");
}

TEST_CASE("unflatten answers with the index sets or refuses, for every list", "[placement][view]") {
  const Mesh mesh = mesh_of({2, 3});
  std::mt19937 random(3);
  int accepted = 0;
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    Levels levels;
    const auto small = [&] { return 1 + static_cast<std::int64_t>(random() % 6); };
    for (const int axis : random() % 2 == 0 ? std::vector<int>{0, 1} : std::vector<int>{1}) {
      if (random() % 3 == 0) levels.push_back(Level::of_block(small()));
      if (random() % 5 == 0) levels.push_back(Level::of_run(small()));
      levels.push_back(Level::of_axis(axis, random() % 3 == 0 ? small() : 1));
    }
    const std::int64_t n_major = small();
    const std::int64_t n_minor = small();
    const auto split = unflatten_levels(mesh, levels, n_major, n_minor);
    if (!split.ok()) {
      REQUIRE(absl::IsFailedPrecondition(split.status()));
      ++refused;
      // What is refused is no product of an index set of each dim, or needs several levels of the
      // minor dim.
      continue;
    }
    ++accepted;
    CAPTURE(to_string(mesh, levels), n_major, n_minor, to_string(mesh, split->first),
            to_string(mesh, split->second));
    REQUIRE(product_sets(mesh, n_major, split->first, n_minor, split->second) ==
            brute::index_sets(mesh, n_major * n_minor, levels));
  }
  CHECK(accepted > 2000);
  CHECK(refused > 1000);
}

TEST_CASE("a flattened [4, 6] as S(0)@dp, S(1)@tp is [dp, 2*, tp]", "[placement][view]") {
  const Mesh mesh = mesh_of({2, 3}, {"dp", "tp"});
  const Levels flat =
      value_or_throw(flatten_levels(mesh, {Level::of_axis(0)}, 4, {Level::of_axis(1)}, 6));
  CHECK(to_string(mesh, flat) == "[dp, 2*, tp]");
  const auto [major, minor] = value_or_throw(unflatten_levels(mesh, flat, 4, 6));
  CHECK(to_string(mesh, major) == "[dp]");
  CHECK(to_string(mesh, minor) == "[tp]");
}

TEST_CASE("a flattened [4, 3] as S(0)@tp is [tp%3] with 6, 6, 0 elements", "[placement][view]") {
  const Mesh mesh = mesh_of({3}, {"tp"});
  const Levels flat = value_or_throw(flatten_levels(mesh, {Level::of_axis(0)}, 4, {}, 3));
  CHECK(to_string(mesh, flat) == "[tp%3]");
  CHECK(local_size(mesh, 12, flat, {0}) == 6);
  CHECK(local_size(mesh, 12, flat, {1}) == 6);
  CHECK(local_size(mesh, 12, flat, {2}) == 0);
  const std::int64_t shape[] = {12};
  const Layout layout{{flat}, {std::nullopt}};
  CHECK(message_of(encode(mesh, shape, layout).status()) ==
        "layout [tp%3] of dim 0 has no placement list: it has a grain");
}

TEST_CASE("a flattened [3, 4] whose inner dim is sharded is SS(0,3)", "[placement][view]") {
  const Mesh mesh = mesh_of({2, 2}, {"dp", "tp"});
  const Levels flat = value_or_throw(flatten_levels(mesh, {}, 3, {Level::of_axis(1)}, 4));
  CHECK(to_string(mesh, flat) == "[3*, tp]");
  const std::int64_t shape[] = {12};
  const Layout layout{{flat}, {std::nullopt, std::nullopt}};
  CHECK(to_string(value_or_throw(encode(mesh, shape, layout))) == "(R, SS(0,3))");
}

TEST_CASE("unflatten names the level that cuts inside rows", "[placement][view]") {
  const Mesh mesh = mesh_of({3}, {"tp"});
  const auto split = unflatten_levels(mesh, {Level::of_axis(0)}, 4, 6);
  CHECK(
      message_of(split.status()) ==
      "unflatten: level tp of [tp] cuts [4, 6] inside rows of 6; redistribute so that no axis cuts "
      "this dim, or that its pieces are whole rows");
  CHECK(unflatten_levels(mesh, {Level::of_axis(0)}, 6, 4).ok());
}
