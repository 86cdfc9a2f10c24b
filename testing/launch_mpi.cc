#include "testing/launch_processes.h"

namespace tessera::testing {

Launched launch(int num_ranks, const WorldOptions& options, const RankBody& body) {
  return launch_processes(num_ranks, options, body);
}

}  // namespace tessera::testing
