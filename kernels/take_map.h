// kernels/take_map.h: positions of one dim taken by a list, and the sum that goes back: padding and
// nearest-neighbour resampling are made of these.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

/// out[…, o, …] = x[…, places[o], …] along `dim`, or `otherwise` where places[o] is −1. Errors:
/// OutOfRange for another place outside x.
void take_map(KernelContext& ctx, const Array& x, int dim, std::span<const std::int64_t> places,
              double otherwise, const Array& out);
/// out[…, places[o], …] = Σ grad[…, o, …]; 0 where no place points. Sums in the dtype of `out`,
/// which is contiguous.
void add_map(KernelContext& ctx, const Array& grad, int dim, std::span<const std::int64_t> places,
             const Array& out);

}  // namespace kernels
}  // namespace tessera
