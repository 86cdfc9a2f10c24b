// kernels/shapes_device.h: the processor without its arithmetic on large arrays: programs run on it
// for what they allocate, read and move, at the sizes of models that no machine here holds.
#pragma once

#include <cstdint>

#include "kernels/device.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Floating arrays of more bytes than this hold no values.
inline constexpr std::int64_t kShapesValueBytes = std::int64_t{64} << 10;

/// For KernelContext::device where arrays lie in the processor's memory: its kernels compute what
/// integers and small floating arrays come to, and leave alone whatever a larger floating array
/// goes into. Its id, memory and streams are those of cpu_device().
Device& shapes_device() noexcept;

}  // namespace tessera
