// dtensor/data_dependent.h: results whose size depends on values. Each rank works on its rows,
// ranks exchange how many results they have (a host read), and one exchange brings the result into
// the canonical cut of its true global shape.
//
// The operand is first brought to S(0) on every mesh axis, so that ranks hold consecutive rows;
// results are S(0) on every mesh axis too. A 0-d operand counts as one row. Collective: yes, over
// the whole mesh. Errors: FailedPrecondition on a rank outside the mesh, which cannot know the
// size.
#pragma once

#include "dtensor/dtensor.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Indices of the elements that are not 0, one row each, row-major: I64 [count, ndim].
DTensor nonzero(const DTensor& x, const Site& site = Site::current());

/// The elements of x where mask (BOOL) is true, row-major: [count]. Both broadcast. Differentiable
/// in x.
DTensor masked_select(const DTensor& x, const DTensor& mask, const Site& site = Site::current());
/// The slices of x where mask, over x's first dims, is true: [count, other dims…]. Differentiable
/// in x. Source: torch's x[mask].
DTensor index(const DTensor& x, const DTensor& mask, const Site& site = Site::current());
/// Writes (or adds) values, which broadcast to index(x, mask), where mask is true. x keeps its
/// placement.
enum class PutMode : std::uint8_t { kOverwrite, kAccumulate };
DTensor& index_put_(DTensor& x, const DTensor& mask, const DTensor& values,
                    PutMode mode = PutMode::kOverwrite, const Site& site = Site::current());

/// Distinct values ascending (NaN last, as one value), where each element stands among them, and
/// how often each occurs. `inverse` has x's shape.
struct UniqueValues {
  DTensor values, inverse, counts;
};
UniqueValues unique(const DTensor& x, const Site& site = Site::current());

/// Each element of `dim` as often as `repeats` (I64, one dim) says: reads the sum of the repeats on
/// the host, then calls the op of the table; the result's placement is that op's.
DTensor repeat_interleave(const DTensor& x, const DTensor& repeats, std::int64_t dim,
                          const Site& site = Site::current());

/// How often each value 0, 1, … occurs: as many as the largest says, at least minlength. Reads the
/// maximum on the host; `weights` may be undefined.
DTensor bincount(const DTensor& x, const DTensor& weights, std::int64_t minlength,
                 const Site& site = Site::current());

}  // namespace tessera
