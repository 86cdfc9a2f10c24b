#include "placement/plan_cuts.h"

#include <algorithm>

#include "placement/layout_pattern.h"

namespace tessera {
namespace {

void add_pieces(std::int64_t length, std::int64_t count, PieceList& pieces) {
  if (count == 0) return;
  for (Pieces& known : pieces) {
    if (known.length != length) continue;
    known.count += count;
    return;
  }
  pieces.push_back({length, count});
}

/// Elements of the dim on the coords of an axis that have this one.
WideInt held_at(const PieceList& pieces, const DimCut& cut, std::int64_t coord) {
  WideInt sum = 0;
  for (const Pieces& each : pieces) sum += WideInt{each.count} * cut.cut(each.length).held(coord);
  return sum;
}

bool is_even(const PieceList& pieces, std::int64_t size) {
  return pieces.size() == 1 && pieces[0].length % size == 0;
}

}  // namespace

bool has_only_axes(const Layout& layout) {
  return std::all_of(layout.dims.begin(), layout.dims.end(), [](const Levels& levels) {
    return std::all_of(levels.begin(), levels.end(), [](const Level& level) {
      return level.kind == Level::Kind::kAxis && !level.sizes;
    });
  });
}

std::int64_t AxisCut::held(std::int64_t coord) const {
  if (length == 0) return 0;
  return std::clamp<std::int64_t>(length - coord * chunk, 0, chunk);
}

AxisCut DimCut::cut(std::int64_t piece) const {
  if (piece == 0) return {0, 0, size};
  const std::int64_t units = pattern::ceil_div(piece, grain);
  const std::int64_t each = pattern::ceil_div(units, size);
  return {piece, each >= units ? piece : each * grain, size};
}

DimCuts::DimCuts(const Mesh& mesh, std::int64_t size) : mesh_(mesh) {
  nodes_.reserve(16);
  children_.reserve(16);
  DimCut whole;
  whole.largest = size;
  whole.pieces.push_back({size, 1});
  whole.leads_to_target = true;
  nodes_.push_back(std::move(whole));
}

int DimCuts::child(int node, int axis, std::int64_t grain) {
  for (const Child& known : children_) {
    if (known.parent == node && known.axis == axis && known.grain == grain) return known.node;
  }
  const DimCut& parent = (*this)[node];
  DimCut made;
  made.parent = node;
  made.axis = axis;
  made.grain = grain;
  made.size = mesh_.size(axis);
  made.parts = parent.parts * made.size;
  for (const Pieces& each : parent.pieces) {
    const AxisCut cut = made.cut(each.length);
    const std::int64_t whole = cut.length == 0 ? 0 : cut.length / cut.chunk;
    const std::int64_t rest = cut.length == 0 ? 0 : cut.length % cut.chunk;
    add_pieces(cut.chunk, each.count * whole, made.pieces);
    if (rest > 0) add_pieces(rest, each.count, made.pieces);
    add_pieces(0, each.count * (made.size - whole - (rest > 0 ? 1 : 0)), made.pieces);
  }
  made.largest = made.cut(parent.largest).chunk;
  made.common = parent.leads_to_target ? node : parent.common;
  const int index = static_cast<int>(nodes_.size());
  nodes_.push_back(std::move(made));
  children_.push_back({node, axis, index, grain});
  return index;
}

int DimCuts::find(const Levels& levels) {
  int node = 0;
  for (const Level& level : levels) node = child(node, level.axis, level.grain);
  return node;
}

void DimCuts::set_target(const Levels& levels) {
  target_ = find(levels);
  for (int node = target_; node >= 0; node = (*this)[node].parent) {
    DimCut& on_the_way = nodes_[static_cast<std::size_t>(node)];
    on_the_way.leads_to_target = true;
    on_the_way.common = node;
  }
}

int DimCuts::next_to_target(int node) const {
  int next = target_;
  while (next >= 0 && (*this)[next].parent != node) next = (*this)[next].parent;
  return next;
}

Moved gathered(const DimCut& parent, const DimCut& cut) {
  Moved most;
  for (const Pieces& each : parent.pieces) {
    const AxisCut pieces = cut.cut(each.length);
    const std::int64_t holders = pieces.num_holders();
    most.elements = std::max(most.elements, each.length - pieces.held(cut.size - 1));
    most.messages = std::max(most.messages, holders - (holders == cut.size ? 1 : 0));
  }
  return most;
}

Moved turned(const AxisTurn& turn) {
  Moved most;
  for (const Pieces& left : turn.before.pieces) {
    const AxisCut leaves = turn.from.cut(left.length);
    for (const Pieces& right : turn.free.pieces) {
      const AxisCut enters = turn.to.cut(right.length);
      const std::int64_t last = enters.num_holders() - 1;
      if (left.length == 0 || last < 0) continue;
      // A rank keeps the less of one dim, and gets the less of the other, the larger its coord is.
      for (const std::int64_t c : {last, std::max<std::int64_t>(0, last - 1)}) {
        const std::int64_t lacks = left.length - leaves.held(c);
        most.elements = std::max(most.elements, lacks * enters.held(c));
      }
      const std::int64_t holders = leaves.num_holders();
      most.messages = std::max(most.messages, holders - (last < holders ? 1 : 0));
    }
  }
  return most;
}

WideInt both_held(const AxisTurn& turn) {
  const PieceList& left = turn.before.pieces;
  const PieceList& right = turn.free.pieces;
  const std::int64_t size = turn.from.size;
  if (is_even(left, size) && is_even(right, size)) {
    return size * held_at(left, turn.from, 0) * held_at(right, turn.to, 0);
  }
  WideInt sum = 0;
  for (std::int64_t c = 0; c < size; ++c) {
    const WideInt entered = held_at(right, turn.to, c);
    if (entered == 0) break;
    sum += entered * held_at(left, turn.from, c);
  }
  return sum;
}

}  // namespace tessera
