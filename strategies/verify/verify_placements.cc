#include "strategies/verify/verify_placements.h"

#include "strategies/verify/verify_trial.h"

namespace tessera {
namespace {

Placements on_one_axis(const TensorMeta& meta) {
  Placements one = {Replicate{}};
  for (int d = 0; d < static_cast<int>(meta.shape.size()); ++d) one.push_back(Shard{d});
  for (const ReduceOp kind : partial_kinds(meta.dtype)) one.push_back(Partial{kind});
  return one;
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
  }
}

}  // namespace

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
