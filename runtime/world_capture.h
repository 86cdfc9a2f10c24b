// runtime/world_capture.h: device work of all ranks of a world as one piece, to be done again
// without what made it.
#pragma once

#include <functional>
#include <memory>

#include "kernels/device.h"
#include "placement/api.h"
#include "runtime/world.h"

namespace tessera TSR_API {

/// On CUDA one graph, rank 0's, with the work of every rank's streams in it.
class WorldCapture {
 public:
  /// Runs `body` on each rank with its device's work captured, and not done: launch() does it, the
  /// first time too. The body communicates as it will, but reads nothing on the host; ranks have
  /// nothing in flight when it begins and when it ends. Collective: yes, over the world. Errors:
  /// Unimplemented on all ranks alike where arrays lie on the host or ranks are processes;
  /// FailedPrecondition for a host read; those of the body. Then nothing is captured, and a world
  /// of several ranks has failed.
  WorldCapture(World& world, const std::function<void()>& body);
  /// Gives the work to the devices again, after all that each rank's compute stream holds.
  /// Collective: yes, over the world.
  void launch();

 private:
  World& world_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<CapturedWork> work_;
};

}  // namespace tessera
