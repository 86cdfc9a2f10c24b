#include "strategies/verify/verify_placements.h"

#include "strategies/verify/verify_trial.h"

namespace tessera {

RaggedSizes uneven_sizes(std::int64_t size, std::int64_t ranks) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(ranks), 0);
  sizes.back() = std::min<std::int64_t>(1, size);
  sizes[sizes.size() - 2] = size - sizes.back();
  return RaggedSizes(std::span<const std::int64_t>(sizes));
}

namespace {

Placements on_one_axis(const TensorMeta& meta) {
  Placements one = {Replicate{}};
  for (int d = 0; d < static_cast<int>(meta.shape.size()); ++d) one.push_back(Shard{d});
  for (const ReduceOp kind : partial_kinds(meta.dtype)) one.push_back(Partial{kind});
  return one;
}

/// The last coord holds one element, the one before it the others, any before it none; and of dim 0
/// all with the last.
std::vector<Level> stated_levels(const TensorMeta& meta, std::size_t dim, const Mesh& mesh) {
  const std::int64_t size = meta.shape[dim], ranks = mesh.size(0);
  std::vector<Level> levels;
  if (size > 1) levels.push_back(Level::of_ragged(0, uneven_sizes(size, ranks)));
  if (dim == 0) levels.push_back(Level::of_ragged(0, RaggedSizes::owned(ranks, ranks - 1, size)));
  return levels;
}

void add_strided(const TensorMeta& meta, const Mesh& mesh, std::vector<Spec>& specs) {
  for (std::size_t d = 0; d < meta.shape.size(); ++d) {
    Layout layout;
    layout.dims.resize(meta.shape.size());
    layout.partial.resize(1);
    for (const Levels& levels :
         {Levels{Level::of_axis(0, 2)}, Levels{Level::of_block(2), Level::of_axis(0)}}) {
      layout.dims[d] = levels;
      StatusOr<Spec> spec = Spec::make(mesh, meta.shape, meta.dtype, layout);
      if (spec.ok()) specs.push_back(*std::move(spec));
    }
    for (const Level& level : stated_levels(meta, d, mesh)) {
      layout.dims[d] = {level};
      StatusOr<Spec> spec = Spec::make(mesh, meta.shape, meta.dtype, layout);
      if (spec.ok()) specs.push_back(*std::move(spec));
    }
  }
}

}  // namespace

Choice with_stated_sizes(const Call& call, Choice choice) {
  for (std::size_t f = 0; f < choice.factor_levels.size(); ++f) {
    LevelList& levels = choice.factor_levels[f];
    const std::int64_t size = call.binding.factors[f].size;
    if (levels.empty() || size < 1) continue;
    const int axis = levels[0].axis;
    const std::int64_t ranks = call.axis_sizes[static_cast<std::size_t>(axis)];
    levels[0] = Level::of_ragged(axis, uneven_sizes(size, ranks));
  }
  return choice;
}

std::vector<Spec> placements_of(const TensorMeta& meta, const Mesh& mesh) {
  const Placements one = on_one_axis(meta);
  std::vector<Placements> lists = {{}};
  for (int a = 0; a < mesh.ndim(); ++a) {
    std::vector<Placements> next;
    for (const Placements& list : lists) {
      for (const Placement& placement : one) {
        next.push_back(list);
        next.back().push_back(placement);
      }
    }
    lists = std::move(next);
  }
  std::vector<Spec> specs;
  for (const Placements& list : lists) {
    StatusOr<Spec> spec = Spec::make(mesh, meta.shape, meta.dtype, list);
    if (spec.ok()) specs.push_back(*std::move(spec));
  }
  if (mesh.ndim() == 1) add_strided(meta, mesh, specs);
  return specs;
}

}  // namespace tessera
