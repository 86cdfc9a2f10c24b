#include "runtime/sim/transport.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/call/flows.h"
#include "runtime/call/prepared_call.h"

namespace tessera {
namespace {

class SimCall final : public PendingCall {
 public:
  SimCall(SimTransport& transport, const CallGroup& group, CollectiveCall&& call,
          Signature&& signature)
      : PendingCall(std::move(call)),
        transport_(transport),
        group_(group),
        signature_(std::move(signature)) {
    // The signature has taken them along.
    auto& of = this->call().of;
    if (auto* gather = std::get_if<AllGatherCall>(&of)) gather->rows = signature_.recv_splits;
    if (auto* scatter = std::get_if<ReduceScatterCall>(&of)) scatter->rows = signature_.send_splits;
    if (auto* exchange = std::get_if<AllToAllCall>(&of)) {
      exchange->send_splits = signature_.send_splits;
      exchange->recv_splits = signature_.recv_splits;
    }
  }
  const Signature& signature() const noexcept override { return signature_; }

 private:
  bool begin() override {
    transport_.run(call(), group_);
    return true;
  }
  bool advance() override { return true; }
  void abandon() noexcept override {}

  SimTransport& transport_;
  const CallGroup& group_;
  Signature signature_;
};

class SimGroup final : public TransportGroup {
 public:
  SimGroup(SimTransport& transport, const CallGroup& group)
      : transport_(transport), group_(group) {}
  bool reaches_peers() const noexcept override { return true; }
  std::shared_ptr<PendingCall> make_call(CollectiveCall&& call, Signature&& signature) override {
    return std::make_shared<SimCall>(transport_, group_, std::move(call), std::move(signature));
  }

 private:
  SimTransport& transport_;
  const CallGroup& group_;
};

}  // namespace

StatusOr<std::unique_ptr<TransportGroup>> SimTransport::open_group(const CallGroup& group) {
  return std::make_unique<SimGroup>(*this, group);
}

Status SimTransport::check(const CollectiveCall& call) const {
  const Device& device = device_of(call);
  if (&device == &cpu_device()) return absl::OkStatus();
  return unimplemented(std::string(name_of(call.kind())) + ": its arrays lie on " +
                       to_string(device.id()) + "; a simulated rank's lie on the host");
}

Status SimTransport::failure() const {
  return unavailable("this simulated rank has failed: " + std::string(message_of(failure_)));
}

double SimTransport::time_us(const CollectiveCall& call, const CallGroup& group) const {
  if (!parts_.topology || group.size() == 1) return 0;
  const Topology& topology = *parts_.topology;
  const Flows flows = flows_of(call, group.place());
  const auto cost = [&](const std::vector<Flow>& one_way) {
    double us = 0;
    for (const Flow& flow : one_way) {
      const std::int64_t peer = group.world_rank(static_cast<int>(flow.rank));
      const LinkClass& link = topology.links[topology.class_between(parts_.rank, peer)];
      us += link.latency_us + static_cast<double>(flow.bytes) / (link.gb_per_s * 1e3);
    }
    return us;
  };
  return topology.step_us + std::max(cost(flows.sent), cost(flows.received));
}

void SimTransport::run(const CollectiveCall& call, const CallGroup& group) {
  now_us_ += time_us(call, group);
  if (parts_.arrive) parts_.arrive(call, group.ranks);
}

}  // namespace tessera
