// runtime/threads_world.h: a rank's World on the threads backend; a world of one rank is the same
// without threads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "runtime/recorder.h"
#include "runtime/threads_communicator.h"
#include "runtime/world.h"

namespace tessera {

class ThreadsWorld final : public World {
 public:
  struct Place {
    std::shared_ptr<ThreadsHub> hub;
    std::int64_t rank = 0;
    int threads_per_rank = 1;
    std::shared_ptr<Allocator> allocator = nullptr;  ///< null: a pool
  };
  /// Bounds the calling thread's library threads.
  ThreadsWorld(Place place, std::shared_ptr<FlightRecorder> recorder);
  ~ThreadsWorld() override;

  std::int64_t rank() const noexcept override { return rank_.rank(); }
  std::int64_t size() const noexcept override { return hub_->num_ranks(); }
  int threads_per_rank() const noexcept override { return threads_per_rank_; }
  StatusOr<Communicator*> group(std::span<const std::int64_t> ranks) override;
  StatusOr<std::vector<Mark>> share_marks(const Mark& own) override;
  void poison(const Status& status) override { hub_->poison(rank_.rank(), status); }
  double now_us() const override { return rank_.now_us(); }

  /// Finishes calls still pending, and waits for the rank's device. Throws Error, also of what the
  /// device's kernels found wrong.
  void finish();

 private:
  std::shared_ptr<ThreadsHub> hub_;
  std::shared_ptr<FlightRecorder> recorder_;
  ThreadsRank rank_;
  int threads_per_rank_;
  std::map<std::vector<std::int64_t>, std::unique_ptr<ThreadsCommunicator>, RanksLess> groups_;
};

}  // namespace tessera
