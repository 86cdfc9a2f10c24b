// runtime/plan/packed_fold.h: a reduction as an exchange of slices that fold, for arrays whose
// summands, as messages, would take more buffers than the call allows.
#pragma once

#include <span>
#include <vector>

#include "runtime/backend_api.h"
#include "runtime/call/communicator.h"
#include "runtime/call/signature.h"

namespace tessera TSR_BACKEND_API {

/// What each of so many ranks folds, of `call.in`'s elements: of an all_reduce that is not folded
/// whole, or of a reduce_scatter.
std::vector<Slice> slices_to_fold(const CollectiveCall& call, const Signature& signature,
                                  int num_ranks);

/// Whether the summands of the largest slice need more than `call.pack_bytes`.
bool folds_in_pieces(const CollectiveCall& call, std::span<const Slice> slices);

/// Rank i folds the elements slices[i] of all ranks' `call.in`; `out`: this rank's slice.
CollectiveCall fold_as_exchange(const CollectiveCall& call, std::span<const Slice> slices,
                                const Array& out, int self);

}  // namespace tessera
