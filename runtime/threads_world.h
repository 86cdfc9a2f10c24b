// runtime/threads_world.h: a rank's World on the threads backend; a world of one rank is the same
// without threads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "runtime/threads_communicator.h"
#include "runtime/world.h"

namespace tessera {

class ThreadsWorld final : public World {
 public:
  /// Bounds the calling thread's library threads.
  ThreadsWorld(const std::shared_ptr<ThreadsHub>& hub, std::int64_t rank, int threads_per_rank);

  std::int64_t rank() const noexcept override { return rank_.rank(); }
  std::int64_t size() const noexcept override { return hub_->num_ranks(); }
  int threads_per_rank() const noexcept override { return threads_per_rank_; }
  StatusOr<Communicator*> group(std::span<const std::int64_t> ranks) override;
  void poison(const Status& status) override { hub_->poison(rank_.rank(), status); }
  double now_us() const override { return rank_.now_us(); }

  /// Finishes calls still pending. Throws Error.
  void finish() { rank_.finish_all(); }

 private:
  Status check_group(std::span<const std::int64_t> ranks) const;

  struct ByRanks {
    using is_transparent = void;
    static ShapeView view(const std::vector<std::int64_t>& ranks) { return ranks; }
    static ShapeView view(ShapeView ranks) { return ranks; }
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      const ShapeView x = view(a), y = view(b);
      return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
    }
  };

  std::shared_ptr<ThreadsHub> hub_;
  ThreadsRank rank_;
  int threads_per_rank_;
  std::map<std::vector<std::int64_t>, std::unique_ptr<ThreadsCommunicator>, ByRanks> groups_;
};

}  // namespace tessera
