// runtime/call/transport_world.h: a rank's World over any transport.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "placement/api.h"
#include "runtime/call/rank_calls.h"
#include "runtime/call/transport.h"
#include "runtime/recorder/recorder.h"
#include "runtime/world.h"

namespace tessera TSR_API {

/// Groups, calls, events and failure are those of every backend; how bytes move is the transport's.
/// A backend derives from it where its ranks start or end in a way of their own.
class TransportWorld : public World {
 public:
  struct Parts {
    std::unique_ptr<Transport> transport;
    /// null: calls leave no record
    std::shared_ptr<FlightRecorder> recorder = nullptr;
    std::chrono::milliseconds timeout{60'000};  ///< of calls that state none
    int threads_per_rank = 1;
    std::shared_ptr<Allocator> allocator = nullptr;  ///< of the rank's arrays; null: a pool
    Device* device = nullptr;                        ///< see World::device(); null: the allocator's
  };
  explicit TransportWorld(Parts parts);
  ~TransportWorld() override;

  std::int64_t rank() const noexcept override { return parts_.transport->rank(); }
  std::int64_t size() const noexcept override { return parts_.transport->size(); }
  int threads_per_rank() const noexcept override { return parts_.threads_per_rank; }
  double now_us() const override { return parts_.transport->now_us(); }
  void finish_calls() override { calls_->finish_all(); }
  std::shared_ptr<RankCapture> capture_calls() override {
    return parts_.transport->capture_calls();
  }
  void poison(const Status& status) override { parts_.transport->poison(status); }
  Status failure() const override {
    return parts_.transport->failed() ? parts_.transport->failure() : absl::OkStatus();
  }
  StatusOr<Communicator*> group(std::span<const std::int64_t> ranks) override;

  /// Finishes calls still pending, and waits for the rank's device. Throws Error, also of what the
  /// device's kernels found wrong.
  void finish();

 protected:
  /// Some call was begun.
  bool has_begun() const noexcept { return calls_->has_begun(); }

 private:
  Parts parts_;
  std::map<std::vector<std::int64_t>, std::unique_ptr<GroupCommunicator>, RanksLess> groups_;
  std::unique_ptr<RankCalls> calls_;  // those still pending go before their groups
};

/// Runs `body`, finishes what it left in flight, and `leave`s: one that throws has poisoned the
/// others by then. Returns the job's first error as leave() does, or this rank's own.
Status run_body(TransportWorld& world, const std::function<void()>& body,
                const std::function<Status()>& leave);

}  // namespace tessera
