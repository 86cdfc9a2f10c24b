// dtensor/keep_dim.h: whether a reduction leaves its dims behind with size 1.
#pragma once

#include <cstdint>

#include "placement/api.h"

namespace tessera TSR_API {

enum class KeepDim : std::uint8_t { kNo, kYes };

}  // namespace tessera
