// runtime/box_parts.h: boxes of several ranks landing in one array: copied, or folded in order.
// Both backends with data do it here, so their bits agree.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/backend_api.h"
#include "runtime/box.h"
#include "runtime/communicator.h"

namespace tessera TSR_BACKEND_API {

/// A box and the array that it is cut from.
struct BoxPart {
  Box box;
  const std::byte* source;
};

/// Lays `parts` (in order of contributor) into the exchange's `out`.
void place_parts(const std::vector<BoxPart>& parts, const CollectiveCall& call);

/// The same box, cut from an array that holds nothing else, in the same order.
Transfer packed_box(const Transfer& box);
/// The shape of that array.
Shape box_shape(const Transfer& box);
/// Where a box of an array of shape `from` goes when it is packed.
Box packing_of(const Transfer& box, ShapeView from);

}  // namespace tessera
