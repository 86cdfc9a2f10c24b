// strategies/verify/verify_placements.h: how a tensor may stand on a mesh, for ops whose rows no
// rule string lists. Internal to strategies/.
#pragma once

#include <vector>

#include "strategies/rules/search.h"

namespace tessera {

/// A ragged cut over `ranks` >= 2: nothing, …, all but one element, one element.
RaggedSizes uneven_sizes(std::int64_t size, std::int64_t ranks);
/// The first cut of every factor in stated sizes.
Choice with_stated_sizes(const Call& call, Choice choice);
/// Every placement of one axis, cuts in grains, in blocks and of stated sizes among them, and dim 0
/// with one owner; all pairs over two axes (without those), and so on.
std::vector<Spec> placements_of(const TensorMeta& meta, const Mesh& mesh);

}  // namespace tessera
