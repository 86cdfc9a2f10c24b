// dtensor/local_rows.h: rows taken from tokens, reordered and summed back, inside regions:
// differentiable ops on plain tensors whose sizes do not depend on values.
#pragma once

#include "dtensor/dtensor.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Inverse lists (I64): row n holds routing slot slot_N[n] = token·K + k, slot place_TK[token, k]
/// lies in row n; −1 is none.
struct RowPlaces {
  DTensor slot_N;
  DTensor place_TK;
};

/// rows[n] = x of row n's token, zeros without one. Backward: each token sums its rows, k
/// ascending.
DTensor take_rows(const DTensor& x_TD, const RowPlaces& places, const Site& site = Site::current());
/// out[t] = Σ_k weights[t, k] · rows of its slots, k ascending, in the weights' precision and of
/// dtype `out`: the rows' or the weights'. Rows without a slot count for nothing.
DTensor sum_rows(const DTensor& rows_ND, const DTensor& weights_TK, const RowPlaces& places,
                 DType out, const Site& site = Site::current());
/// out[t] = Σ_k rows of its slots, k ascending, in their dtype: take_rows() turned round.
DTensor add_rows(const DTensor& rows_ND, const RowPlaces& places,
                 const Site& site = Site::current());
/// out[r] = x[source_R[r]], zeros where that is −1. `restore_N` is the inverse: x's row n lies at
/// restore_N[n], −1 where it was left out.
DTensor reorder_rows(const DTensor& x_ND, const DTensor& source_R, const DTensor& restore_N,
                     const Site& site = Site::current());

}  // namespace tessera
