// runtime/threads/world.h: a rank's World on the threads backend; a world of one rank is the same
// without threads.
#pragma once

#include <memory>
#include <vector>

#include "runtime/call/transport_world.h"
#include "runtime/threads/hub.h"

namespace tessera {

class ThreadsWorld final : public TransportWorld {
 public:
  struct Place {
    std::shared_ptr<ThreadsHub> hub;
    std::int64_t rank = 0;
    int threads_per_rank = 1;
    std::shared_ptr<Allocator> allocator = nullptr;  ///< null: a pool
  };
  /// Bounds the calling thread's library threads.
  ThreadsWorld(Place place, std::shared_ptr<FlightRecorder> recorder);

  StatusOr<std::vector<Mark>> share_marks(const Mark& own) override;

 private:
  std::shared_ptr<ThreadsHub> hub_;
};

}  // namespace tessera
