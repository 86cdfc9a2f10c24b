// Ranks as processes, each on an emulated device of its own.
#include "testing/launch_processes.h"
#include "tests/support/test_device.h"

namespace tessera::testing {

Launched launch(int num_ranks, const WorldOptions& options, const RankBody& body) {
  WorldOptions on_devices = options;
  on_devices.allocator = memory_of_rank;
  return launch_processes(num_ranks, on_devices, body);
}

}  // namespace tessera::testing
