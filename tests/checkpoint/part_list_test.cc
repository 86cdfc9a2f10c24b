// Parts as they are packed, and whether they cover a tensor: on lists of many shapes and cuts.
#include "checkpoint/part_list.h"

#include <algorithm>
#include <random>
#include <vector>

#include "catch2/catch.hpp"

namespace tessera {
namespace {

/// `shape` in one part a cell of a grid, shuffled.
std::vector<ManifestPart> grid_of(const Shape& shape, const Shape& cells, std::mt19937_64& random) {
  std::vector<ManifestPart> parts = {{.region = whole_region(view_of(shape)), .file = 0}};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<ManifestPart> finer;
    for (const ManifestPart& part : parts) {
      for (std::int64_t c = 0; c < cells[d]; ++c) {
        ManifestPart next = part;
        next.region.offset[d] = shape[d] * c / cells[d];
        next.region.size[d] = shape[d] * (c + 1) / cells[d] - next.region.offset[d];
        next.file = static_cast<std::int64_t>(finer.size());
        finer.push_back(next);
      }
    }
    parts = std::move(finer);
  }
  std::shuffle(parts.begin(), parts.end(), random);
  return parts;
}

PartList packed(const Shape& shape, const std::vector<ManifestPart>& parts) {
  PartList list(view_of(shape));
  for (const ManifestPart& part : parts) list.push_back(part);
  return list;
}

struct Grid {
  Shape shape, cells;
};
const std::vector<Grid> kGrids = {{{}, {}},
                                  {{7}, {7}},
                                  {{255}, {5}},
                                  {{256}, {4}},
                                  {{65'536, 3}, {8, 3}},
                                  {{std::int64_t{1} << 40, 2}, {16, 2}},
                                  {{std::int64_t{1} << 56}, {9}},
                                  {{6, 1, 5, 4}, {3, 1, 5, 2}}};

}  // namespace

TEST_CASE("packed parts are the parts that were put in", "[checkpoint]") {
  std::mt19937_64 random(3);
  for (const auto& [shape, cells] : kGrids) {
    const std::vector<ManifestPart> parts = grid_of(shape, cells, random);
    PartList list = packed(shape, parts);
    CAPTURE(to_string(shape));
    CHECK(list.size() == parts.size());
    CHECK(std::vector<ManifestPart>(list.begin(), list.end()) == parts);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      CHECK(list.stop(0, d) == parts[0].region.offset[d] + parts[0].region.size[d]);
    }
    PartList twice = list;
    twice.append(list);
    CHECK(twice.size() == 2 * parts.size());
    CHECK(twice[parts.size()] == parts[0]);
    CHECK_FALSE(twice == list);
  }
  PartList far(view_of(Shape{1}));
  far.push_back({.region = {{0}, {1}}, .file = (std::int64_t{1} << 32) - 1});
  CHECK(far[0].file == (std::int64_t{1} << 32) - 1);
}

TEST_CASE("a grid covers its tensor; a cell less leaves a hole, a cell twice is told",
          "[checkpoint]") {
  std::mt19937_64 random(5);
  for (const auto& [shape, cells] : kGrids) {
    const std::vector<ManifestPart> parts = grid_of(shape, cells, random);
    CAPTURE(to_string(shape));
    CHECK(check_coverage(view_of(shape), packed(shape, parts)).ok());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      std::vector<ManifestPart> less = parts, more = parts;
      less.erase(less.begin() + static_cast<std::ptrdiff_t>(i));
      more.push_back(parts[i]);
      const std::string cell = to_string(parts[i].region);
      CAPTURE(cell);
      CHECK(message_of(check_coverage(view_of(shape), packed(shape, less))) ==
            cell + " is covered by nothing");
      CHECK(message_of(check_coverage(view_of(shape), packed(shape, more))) ==
            cell + " is covered twice");
    }
  }
}

TEST_CASE("parts that no cut of a mesh leaves are refused", "[checkpoint]") {
  // Four bars around a middle: no plane separates them.
  const Shape shape = {3, 3};
  const PartList pinwheel = packed(shape, {{{{0, 0}, {1, 2}}, 0},
                                           {{{0, 2}, {2, 1}}, 0},
                                           {{{2, 1}, {1, 2}}, 0},
                                           {{{1, 0}, {2, 1}}, 0},
                                           {{{1, 1}, {1, 1}}, 0}});
  CHECK(message_of(check_coverage(view_of(shape), pinwheel)) ==
        "[0:1, 0:2] and 4 others interlock; no mesh cuts so");
}

TEST_CASE("parts of a tensor of other dims cover nothing", "[checkpoint]") {
  const PartList parts = packed({4, 4}, {{{{0, 0}, {4, 4}}, 0}});
  for (const Shape& shape : {Shape{4}, Shape{4, 4, 1}, Shape{256, 4}, Shape{}}) {
    CHECK(message_of(check_coverage(view_of(shape), parts)) ==
          "the parts are of a tensor of another shape than " + to_string(shape));
  }
}

}  // namespace tessera
