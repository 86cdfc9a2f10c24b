// strategies/ops/index/candidates.h: selection across ranks: each puts up candidates of its shard,
// all select again. Candidates are values with their global indices, the selected dim first, so
// that ranks' lists join along dim 0.
#pragma once

#include "strategies/rules/op.h"

namespace tessera::ops {

struct Candidates {
  Array values;
  Array indices;  ///< I64, global
};

/// `x` with dim and dim 0 swapped, contiguous.
Array swapped_to_front(KernelContext& ctx, const Array& x, int dim);
/// Local candidates of a shard, ready to be joined along dim 0.
Candidates make_candidates(KernelCall& call, const Candidates& local, int dim);
/// The joined lists in ascending order of index, so that a selection that prefers the first of
/// equals prefers the lower index, whatever the order in which ranks hold the indices.
Candidates by_index(KernelCall& call, const Candidates& joined);
/// Steps: `select` puts up values and indices for a cut dim, both are joined, `choose` writes the
/// op's outputs.
std::vector<LoweringStep> selection_steps(int num_outputs, Kernel select, Kernel choose);

}  // namespace tessera::ops
