// Counts in closed form, beside the index lists of every rank.
#include "placement/plan_even_tally.h"

#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "tests/redistribute/ragged_layouts.h"

using namespace tessera;  // NOLINT
using judge::mesh_of;

namespace {

using Of = Overlap::Of;
using brute::Indices;

/// Coords on the axes of `levels` alone.
Coord on_axes_of(const Levels& levels, const Coord& coord) {
  Coord own(coord.size(), 0);
  for (const Level& level : levels) {
    if (level.kind != Level::Kind::kAxis) continue;
    const auto axis = static_cast<std::size_t>(level.axis);
    own[axis] = coord[axis];
  }
  return own;
}

Indices in_both(const Indices& a, const Indices& b) {
  Indices both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

/// What ranks of one mesh hold of one dim.
class Held {
 public:
  Held(const Mesh& mesh, std::int64_t size) : mesh_(mesh), size_(size) {}
  Indices on(const Levels& levels, const Coord& coord) const {
    Indices all = brute::indices_of(mesh_, size_, levels, coord);
    std::sort(all.begin(), all.end());
    return all;
  }
  /// Pieces under `levels`, one for each coord of their axes.
  std::vector<Indices> pieces(const Levels& levels) const {
    std::map<Coord, Indices> known;
    for (const Coord& coord : brute::coords_of(mesh_)) {
      const Coord own = on_axes_of(levels, coord);
      if (!known.contains(own)) known[own] = on(levels, own);
    }
    std::vector<Indices> all;
    for (const auto& [coord, piece] : known) all.push_back(piece);
    return all;
  }

 private:
  const Mesh& mesh_;
  std::int64_t size_;
};

std::int64_t counted(const Spec& tensor, const Overlap& overlap, const Coord& coord) {
  std::int64_t count = 1;
  for (std::size_t d = 0; d < tensor.global_shape().size(); ++d) {
    const Held held(tensor.mesh(), tensor.global_shape()[d]);
    Indices own = held.on(overlap.a->dims[d], coord);
    if (overlap.also != nullptr) own = in_both(own, held.on(overlap.also->dims[d], coord));
    const Levels& other = overlap.b != nullptr ? overlap.b->dims[d] : overlap.a->dims[d];
    if (overlap.of == Of::kElements) {
      count *= std::ssize(in_both(own, held.on(other, coord)));
      continue;
    }
    const std::vector<Indices> pieces = held.pieces(other);
    count *= std::count_if(pieces.begin(), pieces.end(), [&](const Indices& piece) {
      const Indices both = in_both(own, piece);
      return !both.empty() && (overlap.of == Of::kOwners || both == piece);
    });
  }
  return count;
}

/// Lines of "counts: ranks".
using RanksByCounts = std::map<std::vector<std::int64_t>, std::int64_t>;
std::string text_of(const RanksByCounts& ranks) {
  std::string text;
  for (const auto& [counts, num_ranks] : ranks) {
    for (const std::int64_t count : counts) text += std::to_string(count) + " ";
    text += ": " + std::to_string(num_ranks) + "\n";
  }
  return text;
}

RanksByCounts judged(const Spec& tensor, const std::vector<Overlap>& overlaps) {
  RanksByCounts ranks;
  for (const Coord& coord : brute::coords_of(tensor.mesh())) {
    std::vector<std::int64_t> counts;
    for (const Overlap& overlap : overlaps) counts.push_back(counted(tensor, overlap, coord));
    ++ranks[counts];
  }
  return ranks;
}
RanksByCounts stated(const std::vector<RankClass>& classes, std::size_t num_overlaps) {
  RanksByCounts ranks;
  for (const RankClass& each : classes) {
    const auto end = each.counts.begin() + static_cast<std::ptrdiff_t>(num_overlaps);
    ranks[{each.counts.begin(), end}] += each.num_ranks;
  }
  return ranks;
}

/// Often one that a rank along some axis owns.
Layout any_layout(const Mesh& mesh, const Shape& shape, std::mt19937& random) {
  if (random() % 4 == 0) return judge::random_ragged_spec(mesh, shape, random).layout();
  return judge::random_spec(mesh, shape, random).layout();
}

std::vector<Overlap> any_overlaps(const std::vector<Layout>& layouts, std::mt19937& random) {
  const auto any = [&] { return &layouts[random() % layouts.size()]; };
  std::vector<Overlap> overlaps;
  for (int i = 0; i < 4; ++i) {
    Overlap next{.a = any(), .b = any(), .of = static_cast<Of>(random() % 3)};
    if (next.of == Of::kElements && random() % 2 == 0) next.b = nullptr;
    if (random() % 3 == 0) next.also = any();
    overlaps.push_back(next);
  }
  return overlaps;
}

std::string text_of(const Spec& tensor, const std::vector<Overlap>& overlaps) {
  std::string text = tensor.to_string();
  for (const Overlap& overlap : overlaps) {
    text += "\nof " + std::to_string(static_cast<int>(overlap.of));
    for (const Layout* layout : {overlap.a, overlap.b, overlap.also}) {
      if (layout == nullptr) continue;
      text += " |";
      for (const Levels& levels : layout->dims) text += " " + to_string(tensor.mesh(), levels);
    }
  }
  return text;
}

}  // namespace

TEST_CASE("counts of even cuts in closed form are those of every rank's index lists",
          "[redistribute][tally]") {
  std::mt19937 random(judge::seed_of("even tallies"));
  const std::vector<Mesh> meshes = {mesh_of({4}),      mesh_of({2, 2}), mesh_of({4, 4}),
                                    mesh_of({2, 8}),   mesh_of({3, 6}), mesh_of({2, 4, 2}),
                                    mesh_of({2, 3, 4})};
  const std::vector<Shape> shapes = {{16, 8}, {48, 2}, {24, 36}, {4, 4, 4}, {1, 32}, {64}, {7, 12}};
  int in_closed_form = 0, blocks = 0, owners = 0, refused = 0;
  for (int round = 0; round < 6000; ++round) {
    const Mesh& mesh = meshes[random() % meshes.size()];
    const Shape& shape = shapes[random() % shapes.size()];
    std::vector<Layout> layouts;
    for (int i = 0; i < 3; ++i) layouts.push_back(any_layout(mesh, shape, random));
    const Spec tensor = value_or_throw(Spec::make(mesh, shape, DType::kF32, layouts[0]));
    const std::vector<Overlap> overlaps = any_overlaps(layouts, random);
    const auto classes = even_tally(tensor, overlaps);
    ++(classes ? in_closed_form : refused);
    if (!classes) continue;
    for (const Layout& layout : layouts) {
      owners += layout.is_ragged() ? 1 : 0;
      for (const Levels& levels : layout.dims) {
        blocks += std::ranges::count(levels, Level::Kind::kBlock, &Level::kind) > 0 ? 1 : 0;
      }
    }
    CAPTURE(text_of(tensor, overlaps));
    REQUIRE(text_of(stated(*classes, overlaps.size())) == text_of(judged(tensor, overlaps)));
  }
  std::printf("tallies in closed form: %d of %d, lists with blocks %d, owned %d\n", in_closed_form,
              in_closed_form + refused, blocks, owners);
  CHECK(in_closed_form > 1000);
  CHECK(blocks > 100);
  CHECK(owners > 100);
  CHECK(refused > 100);
}

TEST_CASE("uneven cuts and borders that cross have no counts in closed form",
          "[redistribute][tally]") {
  const Mesh mesh = mesh_of({2, 3});
  const auto refuses = [&](const Shape& shape, const char* from, const char* to) {
    const Spec a = judge::spec_of(mesh, shape, from), b = judge::spec_of(mesh, shape, to);
    const std::vector<Overlap> overlaps{{&a.layout(), &b.layout()}};
    return !even_tally(a, overlaps).has_value();
  };
  CHECK(refuses({7}, "S(0), R", "S(0), R"));
  CHECK(refuses({12}, "S(0), R", "R, S(0)"));
  CHECK(refuses({0}, "R, R", "R, R"));
  CHECK_FALSE(refuses({12}, "S(0), R", "S(0), S(0)"));
  CHECK_FALSE(refuses({12, 6}, "S(0), R", "S(0), S(1)"));
}

TEST_CASE("a mesh of a million ranks is counted without looking at them", "[redistribute][tally]") {
  const Mesh mesh = mesh_of({1024, 1024});
  const Spec a = judge::spec_of(mesh, {1 << 20, 1 << 20}, "S(0), S(0)");
  const Spec b = judge::spec_of(mesh, {1 << 20, 1 << 20}, "S(1), S(0)");
  const std::vector<Overlap> overlaps{{&a.layout(), &b.layout()},
                                      {&a.layout(), &b.layout(), Of::kOwners}};
  // Of dim 0 a rank holds element (x, y) and then row y of 1024: both where x is y. Its row of
  // dim 1 it holds in part.
  const RanksByCounts expected{{{1024, 1024}, 1024}, {{0, 1024}, 1024 * 1023}};
  CHECK(stated(*even_tally(a, overlaps), 2) == expected);
}
