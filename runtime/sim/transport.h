// runtime/sim/transport.h: one simulated rank, alone: its calls are over as soon as they are begun,
// and take the time that a topology says.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "placement/topology.h"
#include "runtime/call/transport.h"

namespace tessera {

class SimTransport final : public Transport {
 public:
  struct Parts {
    std::int64_t rank = 0;
    std::int64_t num_ranks = 1;
    std::optional<Topology> topology;
    /// See SimOptions.
    std::function<void(const CollectiveCall& call, std::span<const std::int64_t> ranks)> arrive;
  };
  explicit SimTransport(Parts parts) : parts_(std::move(parts)) {}

  std::int64_t rank() const noexcept override { return parts_.rank; }
  std::int64_t size() const noexcept override { return parts_.num_ranks; }
  double now_us() const override { return now_us_; }
  StatusOr<std::unique_ptr<TransportGroup>> open_group(const CallGroup& group) override;
  /// Arrays lie on the host.
  Status check(const CollectiveCall& call) const override;

  bool failed() const noexcept override { return !failure_.ok(); }
  Status failure() const override;
  void poison(const Status& status) override { failure_.Update(status); }
  Status rest(PendingCall&, Clock::time_point) override { return absl::OkStatus(); }

  /// The time of the call goes by, and what others send is there.
  void run(const CollectiveCall& call, const CallGroup& group);

 private:
  /// Of the direction that takes longer.
  double time_us(const CollectiveCall& call, const CallGroup& group) const;

  Parts parts_;
  double now_us_ = 0;
  Status failure_;
};

}  // namespace tessera
