// runtime/world_capture.h: device work of all ranks of a world as one piece, to be done again
// without what made it.
#pragma once

#include <functional>
#include <memory>

#include "kernels/device.h"
#include "placement/api.h"
#include "runtime/world.h"

namespace tessera TSR_API {

/// On CUDA one graph, rank 0's, with the work of every rank's streams in it; over NCCL a graph of
/// each rank's own, whose calls meet those of the others. To be destroyed before its World.
class WorldCapture {
 public:
  /// Runs `body` on each rank with its device's work captured, and not done: launch() does it, the
  /// first time too. The body communicates as it will, but reads nothing on the host; ranks have
  /// nothing in flight when it begins and when it ends. Collective: yes, over the world. Errors:
  /// Unimplemented on all ranks alike where arrays lie on the host, or ranks are processes but over
  /// NCCL; FailedPrecondition for a host read, and over NCCL for the first call of a group, whose
  /// communicator is not made in a capture; those of the body. Then nothing is captured, and a
  /// world of several ranks has failed.
  WorldCapture(World& world, const std::function<void()>& body);
  /// Gives the work to the devices again, after all that each rank's compute stream holds.
  /// Collective: yes, over the world; over NCCL ranks wait for one another only where they compare
  /// calls. Errors: over NCCL Unavailable where some rank has failed.
  void launch();

 private:
  void launch_alone();
  void launch_together();

  World& world_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<RankCapture> calls_;  // null where ranks capture together
  std::shared_ptr<CapturedWork> work_;
};

}  // namespace tessera
