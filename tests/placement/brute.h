// tests/placement/brute.h: the judge of the layout tests: materialised index lists, level by level.
// Written from the definition alone; it shares no code with placement/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "placement/layout.h"

namespace tessera::brute {

using Indices = std::vector<std::int64_t>;

inline Mesh mesh_of(std::initializer_list<std::int64_t> sizes,
                    std::vector<std::string> names = {}) {
  const std::vector<std::int64_t> shape(sizes);
  return value_or_throw(Mesh::make(shape, std::move(names)));
}

/// Coords of a mesh in row-major order.
inline std::vector<Coord> coords_of(const Mesh& mesh) {
  std::vector<Coord> coords{Coord()};
  for (int a = 0; a < mesh.ndim(); ++a) {
    std::vector<Coord> longer;
    for (const Coord& coord : coords) {
      for (std::int64_t c = 0; c < mesh.size(a); ++c) {
        longer.push_back(coord);
        longer.back().push_back(c);
      }
    }
    coords = std::move(longer);
  }
  return coords;
}

inline std::int64_t up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// What a ragged cut states for one coord.
inline std::int64_t stated_size(const Level& level, std::int64_t coord) {
  for (const RaggedPart& part : level.sizes.parts()) {
    if (part.coord == coord) return part.stop - part.start;
  }
  return 0;
}

/// The pieces of [0, size) that `coord` keeps, each a list of indices.
inline std::vector<Indices> pieces_of(const Mesh& mesh, std::int64_t size, const Levels& levels,
                                      const Coord& coord) {
  Indices all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  std::vector<Indices> pieces{all};
  for (const Level& level : levels) {
    std::vector<Indices> next;
    for (const Indices& piece : pieces) {
      const auto length = static_cast<std::int64_t>(piece.size());
      const bool is_axis = level.kind == Level::Kind::kAxis;
      if (level.sizes) {
        const std::int64_t own = coord[static_cast<std::size_t>(level.axis)];
        if (level.sizes.parts().size() == 1) {  // one coord owns every piece
          if (stated_size(level, own) > 0) next.push_back(piece);
          continue;
        }
        std::int64_t start = 0;
        for (std::int64_t c = 0; c < own; ++c) start += stated_size(level, c);
        const auto first = piece.begin() + start;
        next.emplace_back(first, first + stated_size(level, own));
        continue;
      }
      const std::int64_t parts = is_axis ? mesh.size(level.axis) : level.count;
      const std::int64_t chunk = level.kind == Level::Kind::kRun
                                     ? level.count
                                     : up(up(length, level.grain), parts) * level.grain;
      std::vector<Indices> chunks;
      for (std::int64_t i = 0; i < length; ++i) {
        if (chunks.empty() || static_cast<std::int64_t>(chunks.back().size()) == chunk) {
          chunks.emplace_back();
        }
        chunks.back().push_back(piece[static_cast<std::size_t>(i)]);
      }
      if (!is_axis) {
        next.insert(next.end(), chunks.begin(), chunks.end());
      } else if (const auto c =
                     static_cast<std::size_t>(coord[static_cast<std::size_t>(level.axis)]);
                 c < chunks.size()) {
        next.push_back(chunks[c]);
      }
    }
    pieces = std::move(next);
  }
  return pieces;
}

inline Indices indices_of(const Mesh& mesh, std::int64_t size, const Levels& levels,
                          const Coord& coord) {
  Indices all;
  for (const Indices& piece : pieces_of(mesh, size, levels, coord)) {
    all.insert(all.end(), piece.begin(), piece.end());
  }
  return all;
}

/// The index lists of all coords, row-major.
inline std::vector<Indices> index_sets(const Mesh& mesh, std::int64_t size, const Levels& levels) {
  std::vector<Indices> sets;
  for (const Coord& coord : coords_of(mesh)) sets.push_back(indices_of(mesh, size, levels, coord));
  return sets;
}

/// All level lists whose split factors are those of `placements` on `dim`, by trying every order of
/// the axes.
inline std::vector<Levels> decodings(const Mesh& mesh, const Placements& placements, int dim) {
  std::vector<int> axes;
  std::vector<std::int64_t> factors;
  for (int a = 0; a < mesh.ndim(); ++a) {
    const Placement& placement = placements[static_cast<std::size_t>(a)];
    if (mesh.size(a) == 1) continue;
    if (const auto* shard = std::get_if<Shard>(&placement); shard && shard->dim == dim) {
      axes.push_back(a);
      factors.push_back(1);
    }
    if (const auto* strided = std::get_if<StridedShard>(&placement);
        strided && strided->dim == dim) {
      axes.push_back(a);
      factors.push_back(strided->split_factor);
    }
  }
  std::vector<std::size_t> order(axes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<Levels> found;
  do {
    Levels levels;
    std::int64_t blocks = 1;
    bool fits = true;
    for (std::size_t i = 0; i < order.size() && fits; ++i) {
      std::int64_t sizes = 1;
      for (std::size_t j = 0; j < i; ++j) {
        if (axes[order[j]] > axes[order[i]]) sizes *= mesh.size(axes[order[j]]);
      }
      const std::int64_t factor = factors[order[i]];
      fits = factor % (sizes * blocks) == 0;
      if (!fits) break;
      const std::int64_t count = factor / sizes / blocks;
      if (count > 1) levels.push_back(Level::of_block(count));
      levels.push_back(Level::of_axis(axes[order[i]]));
      blocks *= count;
    }
    if (fits) found.push_back(levels);
  } while (std::next_permutation(order.begin(), order.end()));
  return found;
}

inline std::string text_of(const Indices& indices) {
  std::string text;
  for (const std::int64_t index : indices) text += std::to_string(index) + " ";
  return text;
}

}  // namespace tessera::brute
