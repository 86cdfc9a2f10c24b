// tests/redistribute/ragged_layouts.h: families of layouts with cuts of stated sizes and owners.
#pragma once

#include <vector>

#include "tests/redistribute/layouts.h"

namespace tessera::judge {

/// Stated sizes: two uneven lists, one with an empty part first, and each rank as owner.
inline std::vector<Placement> stated_placements(std::int64_t ranks, const Shape& shape) {
  std::vector<Placement> found;
  for (std::int64_t c = 0; c < ranks; ++c) found.push_back(Owned{c});
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    const std::int64_t size = shape[static_cast<std::size_t>(d)];
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(ranks), 0);
    sizes.front() = std::min<std::int64_t>(1, size);
    sizes.back() = size - sizes.front();
    found.push_back(Ragged{d, RaggedSizes(std::span<const std::int64_t>(sizes))});
    std::swap(sizes.front(), sizes.back());
    if (ranks > 2) std::swap(sizes[0], sizes[1]);
    found.push_back(Ragged{d, RaggedSizes(std::span<const std::int64_t>(sizes))});
    if (d > 0) found.push_back(Ragged{d, RaggedSizes::owned(ranks, ranks - 1, size)});
  }
  return found;
}

/// R, S, SS, P(sum), P(max), ragged and owned: all products over the mesh axes that decode.
inline std::vector<Spec> ragged_layouts(const Mesh& mesh, const Shape& shape) {
  std::vector<Placements> lists{{}};
  for (int a = 0; a < mesh.ndim(); ++a) {
    std::vector<Placement> choices = stated_placements(mesh.size(a), shape);
    choices.insert(choices.end(), {Replicate{}, Partial{}, Partial{ReduceOp::kMax}});
    for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
      choices.push_back(Shard{d});
      for (const std::int64_t factor : {2, 3}) choices.push_back(StridedShard{d, factor});
    }
    std::vector<Placements> longer;
    for (const Placements& list : lists) {
      for (const Placement& choice : choices) {
        longer.push_back(list);
        longer.back().push_back(choice);
      }
    }
    lists = std::move(longer);
  }
  SpecSet specs(mesh, shape);
  for (const Placements& list : lists) specs.add(list);
  return specs.take();
}

/// Random sizes on one axis before whatever else cuts the tensor.
inline Spec random_ragged_spec(const Mesh& mesh, const Shape& shape, std::mt19937& random) {
  Layout layout = random_layout(mesh, static_cast<int>(shape.size()), random, WithPartial::kYes);
  const int axis = static_cast<int>(random() % static_cast<unsigned>(mesh.ndim()));
  const std::size_t dim = random() % shape.size();
  layout.partial[static_cast<std::size_t>(axis)].reset();
  for (Levels& levels : layout.dims) {
    std::erase_if(levels, [&](const Level& level) { return level.axis == axis; });
  }
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(mesh.size(axis)), 0);
  if (random() % 4 == 0) {
    sizes[random() % sizes.size()] = shape[dim];
  } else {
    for (std::int64_t i = 0; i < shape[dim]; ++i) ++sizes[random() % sizes.size()];
  }
  layout.dims[dim].insert(
      layout.dims[dim].begin(),
      Level::of_ragged(axis, RaggedSizes(std::span<const std::int64_t>(sizes))));
  return value_or_throw(Spec::make(mesh, shape, DType::kF64, std::move(layout)));
}

}  // namespace tessera::judge
