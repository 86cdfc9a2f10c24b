// strategies/rules/window.h: what a kWindow step of a lowering fetches, and from whom. A window is
// a list of global intervals of one dim of an operand; a piece of it lies with one rank of the
// group.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "placement/api.h"
#include "strategies/rules/local_op.h"

namespace tessera TSR_API {

/// Elements [run.src, run.src + run.size) of the holder's local dim, wanted at run.dst.
struct WindowPiece {
  std::size_t holder = 0;  ///< place in the group
  Run run;
  bool operator==(const WindowPiece&) const = default;
};

/// What `group[place]` fetches, ascending by place in its window. `group` are the coords, on the
/// mesh of the results, of the ranks that differ on the lowering's axes only, in coord order.
/// Cost: O(group · intervals).
std::vector<WindowPiece> window_pieces(const LocalOp& local, const LoweringStep& step,
                                       std::span<const Coord> group, std::size_t place);
/// Coords that differ from `coord` on `axes` only, row-major over the axes as given.
std::vector<Coord> group_coords(const Mesh& mesh, const Coord& coord, std::span<const int> axes);

}  // namespace tessera
