// tests/support/on_world.h: arrays of a test where a World's arrays lie: on the host, or on a
// device (test programs named …_emulated). What is read comes back by to_host().
#pragma once

#include "kernels/array.h"
#include "runtime/world.h"

namespace tessera::testing {

inline KernelContext context_of(World& world) {
  return {.device = &world.allocator()->device(), .allocator = world.allocator()};
}
/// The same values; null stays null.
inline Array on_world(World& world, const Array& host) {
  if (host.is_null()) return host;
  KernelContext ctx = context_of(world);
  return to_device(ctx, host);
}
inline std::vector<double> values_here(const Array& array) { return to_host(array).to_vector(); }

}  // namespace tessera::testing
