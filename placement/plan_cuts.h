// placement/plan_cuts.h: the ways in which axes alone can cut one dim, as a tree: a node's children
// cut its pieces once more. Internal to the planner.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "placement/layout.h"

namespace tessera {

/// True if nothing but axes cuts the dims, none of them by stated sizes.
bool has_only_axes(const Layout& layout);

/// Products of counts that do not fit 64 bits.
__extension__ using WideInt = __int128;

/// Coords that hold a piece of this length.
struct Pieces {
  std::int64_t length = 0;
  std::int64_t count = 0;
};
using PieceList = absl::InlinedVector<Pieces, 4>;

/// How one axis cuts a piece: its first coords hold whole chunks, the next one the rest.
struct AxisCut {
  std::int64_t length = 0, chunk = 0, size = 1;
  std::int64_t held(std::int64_t coord) const;
  std::int64_t num_holders() const { return length == 0 ? 0 : (length + chunk - 1) / chunk; }
};

/// A list of axes that cut a dim.
struct DimCut {
  int parent = -1;
  int axis = -1;  ///< the last one; -1 of the root
  std::int64_t grain = 1;
  std::int64_t size = 1;     ///< of that axis
  std::int64_t parts = 1;    ///< coords of all axes in the list
  std::int64_t largest = 0;  ///< length of the piece of coord 0
  PieceList pieces;          ///< of every length, 0 included
  /// Where the target is known: whether it is this list or a longer one, and where not, the first
  /// list on the way back that is.
  bool leads_to_target = false;
  int common = 0;

  AxisCut cut(std::int64_t piece) const;
};

/// All lists of one dim that were asked for. Node 0 is the dim uncut.
class DimCuts {
 public:
  DimCuts(const Mesh& mesh, std::int64_t size);
  /// The list with one axis more, made where it is not known.
  int child(int node, int axis, std::int64_t grain = 1);
  /// The list of these levels. Requires that they are axes.
  int find(const Levels& levels);
  /// Says which list is wanted. Call it before others than its own are made.
  void set_target(const Levels& levels);

  const DimCut& operator[](int node) const { return nodes_[static_cast<std::size_t>(node)]; }
  int target() const noexcept { return target_; }
  /// The first axis list between `node`, which leads to the target, and the target.
  int next_to_target(int node) const;

 private:
  struct Child {
    int parent, axis, node;
    std::int64_t grain;
  };
  const Mesh& mesh_;
  std::vector<DimCut> nodes_;
  std::vector<Child> children_;
  int target_ = 0;
};

/// What one collective makes the busiest rank receive, and all of them.
struct Moved {
  std::int64_t elements = 0, messages = 0;
  WideInt total = 0;  ///< elements
};
/// What a gather of the last axis of `cut` takes, where all else is one element; without the total.
Moved gathered(const DimCut& parent, const DimCut& cut);
/// An axis leaves one dim, which is cut like `before` then, and enters another, cut like `free`
/// before.
struct AxisTurn {
  const DimCut &before, &from, &free, &to;
};
/// Likewise of an all-to-all.
Moved turned(const AxisTurn& turn);
/// Over the coords of the axis, products of what they hold of the two dims, each summed over the
/// dim's other axes.
WideInt both_held(const AxisTurn& turn);

}  // namespace tessera
