// kernels/index_tuple.h: slices addressed by several indices at once: element n of the tuple is
// (index_0[n], index_1[n], …), positions on the dims listed. Source: torch's advanced indexing.
#pragma once

#include <span>
#include <vector>

#include "kernels/array.h"
#include "kernels/index.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

/// Index k holds positions on dim dims[k] (ascending); all I64 of one shape. −1 where absent is
/// kSkip: that element of the tuple is held by another rank.
struct IndexTuple {
  std::vector<int> dims;
  std::vector<Array> indices;
};

/// Where the tuple's own dims stand in a result: at the first addressed dim where the addressed
/// dims are neighbours, else in front.
int tuple_position(std::span<const int> dims);
/// x's shape with the addressed dims replaced by `index_shape` at tuple_position().
Shape tuple_shape(const Shape& x, std::span<const int> dims, const Shape& index_shape);

/// out = x[tuple]; 0 where another rank holds it.
void index_get(KernelContext& ctx, const Array& x, const IndexTuple& tuple, Absent absent,
               const Array& out);
/// out[tuple] = values (kAssign, the last wins) or += values (kAdd), in order of the tuple.
/// `values` has the shape of index_get's result.
void index_put(KernelContext& ctx, const Array& out, const IndexTuple& tuple, const Array& values,
               Combine combine, Absent absent);

}  // namespace kernels
}  // namespace tessera
