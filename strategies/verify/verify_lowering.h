// strategies/verify/verify_lowering.h: an op's share of every rank of a mesh, run in one process: a
// collective inside the op is a loop over the ranks. Internal to strategies/.
#pragma once

#include <vector>

#include "strategies/rules/local_op.h"

namespace tessera {

/// What all ranks hold after one resolved call: `operands[i][r]` is rank r's share of operand i, on
/// ctx's device, which the ranks share; absent operands may be missing at the end; the answer is
/// [rank][output]. In-place ops write their operands.
std::vector<std::vector<Array>> run_ranks(const Op& op, const Resolution& resolution,
                                          const Attrs& attrs, const Mesh& mesh,
                                          const std::vector<std::vector<Array>>& operands,
                                          const KernelContext& ctx = {});

}  // namespace tessera
