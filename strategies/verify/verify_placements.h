// strategies/verify/verify_placements.h: how a tensor may stand on a mesh, for ops whose rows no
// rule string lists. Internal to strategies/.
#pragma once

#include <vector>

#include "strategies/rules/op.h"

namespace tessera {

/// Every placement of one axis, cuts in grains and in blocks among them; all pairs over two axes
/// (without those), and so on.
std::vector<Spec> placements_of(const TensorMeta& meta, const Mesh& mesh);

}  // namespace tessera
