// Layout against the brute-force enumerator: decode, encode, local sizes, index maps, canonical
// form.
#include "placement/layout.h"

#include <map>
#include <set>

#include "tests/placement/brute.h"

using namespace tessera;  // NOLINT
using brute::coords_of;
using brute::index_sets;
using brute::indices_of;
using brute::mesh_of;

namespace {

/// Compares every map of one level list with the index lists; the first difference as text, or "".
std::string difference(const Mesh& mesh, std::int64_t size, const Levels& levels) {
  std::vector<std::int64_t> holders(static_cast<std::size_t>(size), 0);
  for (const Coord& coord : coords_of(mesh)) {
    const std::string where = to_string(mesh, levels) + " n " + std::to_string(size) + " coord " +
                              to_string(coord) + ": ";
    const brute::Indices expected = indices_of(mesh, size, levels, coord);
    const auto count = static_cast<std::int64_t>(expected.size());
    if (local_size(mesh, size, levels, coord) != count) return where + "local_size";
    brute::Indices from_intervals;
    std::int64_t last_stop = -1;
    for (const Interval& interval : local_intervals(mesh, size, levels, coord)) {
      if (interval.start <= last_stop || interval.start >= interval.stop) return where + "merged";
      for (std::int64_t i = interval.start; i < interval.stop; ++i) from_intervals.push_back(i);
      last_stop = interval.stop;
    }
    if (from_intervals != expected) return where + "intervals " + brute::text_of(from_intervals);
    std::vector<std::int64_t> local_of(static_cast<std::size_t>(size), -1);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t global = expected[static_cast<std::size_t>(i)];
      local_of[static_cast<std::size_t>(global)] = i;
      if (local_to_global(mesh, size, levels, coord, i) != global) return where + "to global";
      Coord owner = coord;
      for (std::size_t a = 0; a < owner.size(); ++a) {
        const bool used = std::any_of(levels.begin(), levels.end(), [&](const Level& level) {
          return level.kind == Level::Kind::kAxis && level.axis == static_cast<int>(a);
        });
        if (!used) owner[a] = 0;
      }
      if (owner_of(mesh, size, levels, global) != owner) return where + "owner";
    }
    for (std::int64_t g = 0; g < size; ++g) {
      if (global_to_local(mesh, size, levels, coord, g) != local_of[static_cast<std::size_t>(g)]) {
        return where + "to local";
      }
    }
    if (global_to_local(mesh, size, levels, coord, size) != -1) return where + "beyond the end";
  }
  return "";
}

/// All placements of one axis of a 1-d tensor worth trying.
Placements choices_1d(std::int64_t max_factor) {
  Placements choices{Replicate{}, Partial{}, Shard{0}};
  for (std::int64_t k = 2; k <= max_factor; ++k) choices.push_back(StridedShard{0, k});
  return choices;
}

/// Calls `visit` with every list of `count` entries of `choices`.
template <class Choice, class Visit>
void for_each_list(const std::vector<Choice>& choices, int count, const Visit& visit) {
  std::vector<std::size_t> at(static_cast<std::size_t>(count), 0);
  while (true) {
    std::vector<Choice> list;
    for (const std::size_t i : at) list.push_back(choices[i]);
    visit(list);
    std::size_t i = at.size();
    while (i > 0 && ++at[i - 1] == choices.size()) at[--i] = 0;
    if (i == 0) return;
  }
}

std::string check_placements(const Mesh& mesh, std::int64_t size, const Placements& placements) {
  const std::string where =
      to_string(placements) + " on " + mesh.to_string() + " n " + std::to_string(size) + ": ";
  const std::int64_t shape[] = {size};
  const std::vector<Levels> expected = brute::decodings(mesh, placements, 0);
  if (expected.size() > 1) return where + "decoding is not unique";
  const StatusOr<Layout> layout = decode(mesh, shape, placements);
  if (layout.ok() != !expected.empty()) return where + "decodes or not";
  if (!layout.ok()) return "";
  if (index_sets(mesh, size, layout->dims[0]) != index_sets(mesh, size, expected[0])) {
    return where + "index sets of " + to_string(mesh, layout->dims[0]);
  }
  if (canonical(mesh, shape, *layout) != *layout) return where + "not canonical";
  const StatusOr<Placements> again = encode(mesh, shape, *layout);
  if (!again.ok()) return where + std::string(message_of(again.status()));
  const StatusOr<Layout> twice = decode(mesh, shape, *again);
  if (!twice.ok() || *twice != *layout) return where + "decode(encode(L)) is another layout";
  return difference(mesh, size, layout->dims[0]);
}

}  // namespace

TEST_CASE("every placement list of a 1-d tensor has the brute-force index sets",
          "[placement][layout]") {
  struct Case {
    std::vector<std::int64_t> mesh;
    std::int64_t max_factor;
  };
  const std::vector<Case> cases = {{{1}, 3},    {{2}, 10},      {{3}, 10},      {{4}, 10},
                                   {{2, 2}, 9}, {{2, 3}, 9},    {{3, 2}, 9},    {{1, 2}, 4},
                                   {{2, 1}, 4}, {{2, 2, 2}, 8}, {{2, 3, 2}, 7}, {{2, 1, 3}, 6}};
  for (const Case& c : cases) {
    const Mesh mesh = value_or_throw(Mesh::make(c.mesh));
    std::string problem;
    for_each_list(choices_1d(c.max_factor), mesh.ndim(), [&](const Placements& placements) {
      for (std::int64_t size = 0; size <= 9 && problem.empty(); ++size) {
        problem = check_placements(mesh, size, placements);
      }
    });
    REQUIRE(problem == "");
  }
}

TEST_CASE("placement lists of 2-d and 3-d tensors cut each dim on its own", "[placement][layout]") {
  std::mt19937 random(7);
  const std::vector<Mesh> meshes = {mesh_of({2, 2}), mesh_of({2, 3}), mesh_of({2, 3, 2})};
  int decoded = 0;
  for (int round = 0; round < 4000; ++round) {
    const Mesh& mesh = meshes[random() % meshes.size()];
    const int ndim = 2 + static_cast<int>(random() % 2);
    Shape shape;
    for (int d = 0; d < ndim; ++d) shape.push_back(static_cast<std::int64_t>(random() % 8));
    Placements placements;
    for (int a = 0; a < mesh.ndim(); ++a) {
      const int dim = static_cast<int>(random() % static_cast<unsigned>(2 * ndim)) - ndim;
      switch (random() % 5) {
        case 0:
          placements.push_back(Replicate{});
          break;
        case 1:
          placements.push_back(Partial{ReduceOp::kMax});
          break;
        case 2:
          placements.push_back(StridedShard{dim, static_cast<std::int64_t>(random() % 4) + 1});
          break;
        default:
          placements.push_back(Shard{dim});
      }
    }
    Placements positive = placements;
    for (Placement& placement : positive) {
      if (auto* s = std::get_if<Shard>(&placement)) s->dim = (s->dim + ndim) % ndim;
      if (auto* s = std::get_if<StridedShard>(&placement)) s->dim = (s->dim + ndim) % ndim;
    }
    CAPTURE(to_string(placements), to_string(shape), mesh.to_string());
    const StatusOr<Layout> layout = decode(mesh, view_of(shape), placements);
    bool decodable = true;
    std::vector<Levels> expected;
    for (int d = 0; d < ndim; ++d) {
      const std::vector<Levels> found = brute::decodings(mesh, positive, d);
      decodable = decodable && found.size() == 1;
      expected.push_back(found.empty() ? Levels{} : found[0]);
    }
    REQUIRE(layout.ok() == decodable);
    if (!decodable) continue;
    ++decoded;
    for (int a = 0; a < mesh.ndim(); ++a) {
      const auto i = static_cast<std::size_t>(a);
      REQUIRE(layout->partial[i].has_value() == std::holds_alternative<Partial>(placements[i]));
    }
    for (const Coord& coord : coords_of(mesh)) {
      Shape local;
      for (std::size_t d = 0; d < shape.size(); ++d) {
        const auto indices = indices_of(mesh, shape[d], expected[d], coord);
        local.push_back(static_cast<std::int64_t>(indices.size()));
      }
      REQUIRE(local_shape(mesh, view_of(shape), *layout, coord) == local);
    }
    const auto again = encode(mesh, view_of(shape), *layout);
    REQUIRE(again.ok());
    REQUIRE(value_or_throw(decode(mesh, view_of(shape), *again)) == *layout);
  }
  REQUIRE(decoded > 2000);
}

namespace {

/// All lists that put one entry of `cuts` (nothing, a run, a block) before each axis of `order`,
/// with grains.
std::vector<Levels> level_lists(const std::vector<int>& order, const Levels& cuts,
                                const std::vector<std::int64_t>& grains) {
  std::vector<Levels> lists{{}};
  for (const int axis : order) {
    std::vector<Levels> longer;
    for (const Levels& list : lists) {
      for (std::size_t c = 0; c <= cuts.size(); ++c) {
        for (const std::int64_t grain : grains) {
          longer.push_back(list);
          if (c > 0) longer.back().push_back(cuts[c - 1]);
          longer.back().push_back(Level::of_axis(axis, grain));
        }
      }
    }
    lists = std::move(longer);
  }
  return lists;
}

}  // namespace

TEST_CASE("axes, runs, blocks and grains hold the brute-force index sets", "[placement][layout]") {
  const Levels cuts = {Level::of_run(2),   Level::of_run(3),      Level::of_block(2),
                       Level::of_block(3), Level::of_block(2, 2), Level::of_block(2, 3)};
  std::string problem;
  const auto check = [&](const Mesh& mesh, const std::vector<int>& order) {
    for (const Levels& levels : level_lists(order, cuts, {1, 2, 3})) {
      for (std::int64_t size = 0; size <= 9; ++size) {
        if (problem.empty()) problem = difference(mesh, size, levels);
        const Levels plain = canonical_levels(mesh, size, levels);
        const std::string where = to_string(mesh, levels) + " n " + std::to_string(size) + " is " +
                                  to_string(mesh, plain) + ": ";
        if (problem.empty() && index_sets(mesh, size, levels) != index_sets(mesh, size, plain)) {
          problem = where + "canonical form has other sets";
        }
        if (problem.empty() && canonical_levels(mesh, size, plain) != plain) {
          problem = where + "canonical form is not stable";
        }
      }
    }
  };
  check(mesh_of({2}), {0});
  check(mesh_of({3}), {0});
  check(mesh_of({2, 2}), {0, 1});
  check(mesh_of({2, 3}), {0, 1});
  check(mesh_of({2, 3}), {1, 0});
  REQUIRE(problem == "");
}

TEST_CASE("long random level lists hold the brute-force index sets", "[placement][layout]") {
  std::mt19937 random(11);
  const Mesh mesh = mesh_of({2, 3, 2});
  std::string problem;
  for (int round = 0; round < 6000 && problem.empty(); ++round) {
    Levels levels;
    std::vector<int> axes{0, 1, 2};
    std::shuffle(axes.begin(), axes.end(), random);
    while (!axes.empty() || random() % 3 == 0) {
      const auto small = [&] { return 1 + static_cast<std::int64_t>(random() % 5); };
      switch (random() % 4) {
        case 0:
          levels.push_back(Level::of_run(small()));
          break;
        case 1:
          levels.push_back(Level::of_block(small(), random() % 2 == 0 ? 1 : small()));
          break;
        default:
          if (axes.empty()) break;
          levels.push_back(Level::of_axis(axes.back(), random() % 2 == 0 ? 1 : small()));
          axes.pop_back();
      }
      if (random() % 6 == 0 && !axes.empty()) axes.pop_back();
    }
    const auto size = static_cast<std::int64_t>(random() % 60);
    problem = difference(mesh, size, levels);
    const Levels plain = canonical_levels(mesh, size, levels);
    if (problem.empty() && (index_sets(mesh, size, levels) != index_sets(mesh, size, plain) ||
                            canonical_levels(mesh, size, plain) != plain)) {
      problem = to_string(mesh, levels) + " n " + std::to_string(size) + " canonical " +
                to_string(mesh, plain);
    }
    if (problem.empty() && !same_index_sets(mesh, size, levels, plain)) {
      problem = to_string(mesh, levels) + " does not equal its canonical form";
    }
  }
  REQUIRE(problem == "");
}

TEST_CASE("equal sets of one axis order have equal text", "[placement][layout]") {
  const Levels cuts = {Level::of_block(2),    Level::of_block(3),    Level::of_block(4),
                       Level::of_block(2, 2), Level::of_block(3, 2), Level::of_block(2, 3)};
  std::string problem;
  int collisions = 0;
  int groups = 0;
  const auto check = [&](const Mesh& mesh, const std::vector<int>& order) {
    for (std::int64_t size = 0; size <= 9; ++size) {
      std::map<std::vector<brute::Indices>, std::set<std::string>> texts;
      for (const Levels& levels : level_lists(order, cuts, {1, 2, 3, 4})) {
        const Levels plain = canonical_levels(mesh, size, levels);
        // Two blocks that do not merge (over an axis that cuts nothing) are outside the claim.
        const auto both_blocks = [](const Level& a, const Level& b) {
          return a.kind == Level::Kind::kBlock && b.kind == Level::Kind::kBlock;
        };
        if (std::adjacent_find(plain.begin(), plain.end(), both_blocks) != plain.end()) continue;
        texts[index_sets(mesh, size, levels)].insert(to_string(mesh, plain));
      }
      for (const auto& [sets, names] : texts) {
        ++groups;
        if (names.size() == 1) continue;
        ++collisions;
        problem = mesh.to_string() + " n " + std::to_string(size) + ":";
        for (const std::string& name : names) problem += " " + name;
        UNSCOPED_INFO(problem);
      }
    }
  };
  check(mesh_of({2}), {0});
  check(mesh_of({3}), {0});
  check(mesh_of({4}), {0});
  check(mesh_of({2, 2}), {0, 1});
  check(mesh_of({2, 3}), {0, 1});
  check(mesh_of({2, 3}), {1, 0});
  CHECK(groups > 500);
  CHECK(collisions == 0);
}

TEST_CASE("same_index_sets compares sets, whatever the text", "[placement][layout]") {
  const Levels cuts = {Level::of_run(2), Level::of_block(2), Level::of_block(2, 2)};
  const Mesh mesh = mesh_of({2, 2});
  std::vector<Levels> lists = level_lists({0, 1}, cuts, {1, 2});
  const std::vector<Levels> reversed = level_lists({1, 0}, cuts, {1, 2});
  lists.insert(lists.end(), reversed.begin(), reversed.end());
  for (const int axis : {0, 1}) {
    const std::vector<Levels> single = level_lists({axis}, cuts, {1, 2});
    lists.insert(lists.end(), single.begin(), single.end());
  }
  std::string problem;
  for (const std::int64_t size : {0, 1, 2, 3, 5, 6, 8}) {
    std::vector<std::vector<brute::Indices>> sets;
    for (const Levels& levels : lists) sets.push_back(index_sets(mesh, size, levels));
    for (std::size_t i = 0; i < lists.size(); ++i) {
      for (std::size_t j = 0; j < lists.size(); ++j) {
        if (same_index_sets(mesh, size, lists[i], lists[j]) == (sets[i] == sets[j])) continue;
        problem = to_string(mesh, lists[i]) + " and " + to_string(mesh, lists[j]);
      }
    }
  }
  REQUIRE(problem == "");
}

TEST_CASE("intersections of any two level lists, also of different meshes", "[placement][layout]") {
  std::mt19937 random(5);
  const std::vector<Mesh> meshes = {mesh_of({2, 2}), mesh_of({2, 3}), mesh_of({4})};
  const auto random_levels = [&](const Mesh& mesh) {
    Levels levels;
    for (int a = 0; a < mesh.ndim(); ++a) {
      const auto small = [&] { return 1 + static_cast<std::int64_t>(random() % 4); };
      if (random() % 4 == 0) levels.push_back(Level::of_run(small()));
      if (random() % 4 == 0) levels.push_back(Level::of_block(small(), small()));
      if (random() % 4 != 0) levels.push_back(Level::of_axis(a, random() % 2 == 0 ? 1 : small()));
    }
    return levels;
  };
  std::string problem;
  for (int round = 0; round < 3000 && problem.empty(); ++round) {
    const Mesh& a = meshes[random() % meshes.size()];
    const Mesh& b = meshes[random() % meshes.size()];
    const Levels of_a = random_levels(a);
    const Levels of_b = random_levels(b);
    const auto size = static_cast<std::int64_t>(random() % 30);
    for (const Coord& at_a : coords_of(a)) {
      const brute::Indices held_a = indices_of(a, size, of_a, at_a);
      for (const Coord& at_b : coords_of(b)) {
        const brute::Indices held_b = indices_of(b, size, of_b, at_b);
        std::vector<Run> expected;
        for (std::size_t i = 0; i < held_a.size(); ++i) {
          const auto found = std::find(held_b.begin(), held_b.end(), held_a[i]);
          if (found == held_b.end()) continue;
          const auto src = static_cast<std::int64_t>(i);
          const std::int64_t dst = found - held_b.begin();
          if (!expected.empty() && expected.back().src + expected.back().size == src &&
              expected.back().dst + expected.back().size == dst) {
            ++expected.back().size;
          } else {
            expected.push_back({src, dst, 1});
          }
        }
        if (intersect(a, of_a, at_a, b, of_b, at_b, size) != expected) {
          problem = to_string(a, of_a) + to_string(at_a) + " with " + to_string(b, of_b) +
                    to_string(at_b) + " n " + std::to_string(size);
        }
      }
    }
  }
  REQUIRE(problem == "");
}
