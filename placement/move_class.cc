#include "placement/move_class.h"

#include <algorithm>

#include "placement/layout_pattern.h"

namespace tessera {
namespace {

using Key = absl::InlinedVector<std::int64_t, 12>;

void add(const Levels& levels, Key& key) {
  key.push_back(std::ssize(levels));
  for (const Level& level : levels) {
    key.insert(key.end(), {static_cast<std::int64_t>(level.kind), level.axis, level.count,
                           level.grain, level.sizes ? std::ssize(level.sizes.parts()) : 0});
    if (!level.sizes) continue;
    for (const RaggedPart& part : level.sizes.parts()) {
      key.insert(key.end(), {part.coord, part.start, part.stop});
    }
  }
}

/// True if nothing but axes cuts a dim of `size`, and each list of axes does so evenly.
bool is_even(std::int64_t size, const Levels& levels, std::int64_t ranks) {
  return size % ranks == 0 && std::all_of(levels.begin(), levels.end(), pattern::is_plain_axis);
}

std::int64_t num_cutting_axes(const Mesh& mesh) {
  return std::count_if(mesh.axes().begin(), mesh.axes().end(),
                       [](const MeshAxis& axis) { return axis.size > 1; });
}

}  // namespace

MoveClass::MoveClass(const Spec& src, const Spec& dst) {
  key_.push_back(size_of(src.dtype()));
  const bool one_mesh = src.mesh() == dst.mesh();
  key_.push_back(one_mesh ? 1 : 2);
  add(src.mesh());
  if (!one_mesh) add(dst.mesh());
  add_partials(src);
  add_partials(dst);
  add_dims(src, dst);
}

void MoveClass::add(const Mesh& mesh) {
  key_.push_back(mesh.ndim());
  key_.push_back(mesh.first_rank());
  for (const MeshAxis& axis : mesh.axes()) key_.insert(key_.end(), {axis.size, axis.stride});
}

void MoveClass::add_partials(const Spec& spec) {
  for (const std::optional<ReduceOp>& op : spec.layout().partial) {
    key_.push_back(op ? static_cast<std::int64_t>(*op) : -1);
  }
}

/// Of even dims that neither side cuts, but a plan may on its way, no more count than there are
/// axes.
void MoveClass::add_dims(const Spec& src, const Spec& dst) {
  constexpr std::int64_t kEven = -1;
  const bool one_mesh = src.mesh() == dst.mesh();
  const std::int64_t ranks = src.mesh().num_ranks() * (one_mesh ? 1 : dst.mesh().num_ranks());
  std::int64_t free_dims = num_cutting_axes(src.mesh());
  if (!one_mesh) free_dims += num_cutting_axes(dst.mesh());
  std::int64_t even_elements = 1;
  absl::InlinedVector<Key, 6> dims;
  for (std::size_t d = 0; d < src.global_shape().size(); ++d) {
    const std::int64_t size = src.global_shape()[d];
    const Levels& from = src.layout().dims[d];
    const Levels& to = dst.layout().dims[d];
    const bool even = size > 0 && is_even(size, from, ranks) && is_even(size, to, ranks);
    const bool cut = !from.empty() || !to.empty();
    if (even) even_elements *= size;
    if (!cut && even && free_dims-- <= 0) continue;
    Key& key = dims.emplace_back();
    key.push_back(even ? kEven : size);
    tessera::add(from, key);
    tessera::add(to, key);
  }
  key_.push_back(even_elements);
  for (const Key& key : dims) key_.insert(key_.end(), key.begin(), key.end());
}

}  // namespace tessera
