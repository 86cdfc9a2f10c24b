// tests/moe/plain_here.h: plain tensors of a test's values, where the World's arrays lie.
#pragma once

#include "dtensor/dtensor.h"
#include "tests/support/on_world.h"

namespace tessera::testing {

inline DTensor plain_here(Runtime& runtime, const Array& host) {
  return plain(runtime, on_world(runtime.world(), host));
}

}  // namespace tessera::testing
