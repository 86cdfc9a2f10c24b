// kernels/pinned_memory.h: memory of the host that a device copies to and from while the host goes
// on with something else.
#pragma once

#include <memory>

#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Memory of a device that has pinned memory of the host beside it.
class DeviceMemory : public Allocator {
 public:
  /// A pool of pinned blocks of the host, which keeps the device alive. What is released may be
  /// handed out at once: no copy may be under way any more.
  virtual std::shared_ptr<Allocator> make_pinned_allocator() = 0;
};

/// Pinned for the device of `memory`; where that is no DeviceMemory, a pool that is not pinned,
/// with which copies work too but make the host wait.
std::shared_ptr<Allocator> make_pinned_allocator(Allocator& memory);

}  // namespace tessera
