// strategies/ops/attention/attention_parts.h: attention on a rank that holds some of the queries or
// keys: runs of consecutive positions with their own causal offsets, and results over some keys
// joined to those over all.
#pragma once

#include <vector>

#include "kernels/attention.h"
#include "strategies/rules/op.h"

namespace tessera::ops {

/// Consecutive positions of a dim: where they stand in the local array, and in the whole tensor.
struct Piece {
  std::int64_t local = 0;
  std::int64_t global = 0;
  std::int64_t size = 0;
};
/// This rank's positions along `dim` of operand `operand`.
std::vector<Piece> pieces_of(const KernelCall& call, std::size_t operand, int dim);

struct AttentionOperands {
  const Array &query, &key, &value;
};
/// attention() of the local queries over local keys; `queries` and `keys` say which they are. Keys
/// must be one piece.
void attend(KernelContext& ctx, const AttentionOperands& operands,
            const kernels::AttentionOptions& options, const std::vector<Piece>& queries,
            const std::vector<Piece>& keys, const Array& out, const Array& lse);

/// Attention over cut keys, of an op of so many operands: `own` makes this rank's result and
/// log-sum; the joined ones go to the op's result, and to its second, the log-sum, where it has
/// one.
std::vector<LoweringStep> joined_over_keys(int num_operands, int num_results, Kernel own);

}  // namespace tessera::ops
