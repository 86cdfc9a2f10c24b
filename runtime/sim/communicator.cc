#include "runtime/sim/communicator.h"

#include <algorithm>

#include "runtime/flows.h"
#include "runtime/signature.h"

namespace tessera {
namespace {

using Kind = CollectiveCall::Kind;

class SimWork final : public Work {
 public:
  explicit SimWork(std::int64_t bytes_received) : bytes_received_(bytes_received) {}
  void wait() override {}
  std::int64_t bytes_received() const override { return bytes_received_; }

 private:
  std::int64_t bytes_received_;
};

}  // namespace

SimCommunicator::SimCommunicator(SimRank& state, std::vector<std::int64_t> ranks)
    : state_(state), ranks_(std::move(ranks)) {
  group_rank_ =
      static_cast<int>(std::find(ranks_.begin(), ranks_.end(), state_.rank) - ranks_.begin());
}

std::uint64_t SimCommunicator::next_sequence(const CollectiveCall& call) {
  const bool pair = call.kind == Kind::kSend || call.kind == Kind::kRecv;
  return pair ? next_message_[{call.kind, call.root}]++ : next_++;
}

double SimCommunicator::time_us(const CollectiveCall& call) const {
  if (!state_.topology) return 0;
  const Flows flows = flows_of(call, {group_rank_, size()});
  const auto cost = [&](const std::vector<Flow>& one_way) {
    double us = 0;
    for (const Flow& flow : one_way) {
      const std::int64_t peer = ranks_[static_cast<std::size_t>(flow.rank)];
      const LinkClass& link =
          state_.topology->links[state_.topology->class_between(state_.rank, peer)];
      us += link.latency_us + static_cast<double>(flow.bytes) / (link.gb_per_s * 1e3);
    }
    return us;
  };
  return state_.topology->step_us + std::max(cost(flows.sent), cost(flows.received));
}

std::shared_ptr<Work> SimCommunicator::start(CollectiveCall call, const CallInfo& info) {
  if (!state_.failure.ok()) {
    throw Error(
        unavailable("this simulated rank has failed: " + std::string(message_of(state_.failure))));
  }
  const GroupPlace place{group_rank_, size()};
  throw_if_error(prepare(call, place));
  throw_if_error(check_on_host(call));
  wait_ready(call);
  const std::uint64_t sequence = next_sequence(call);
  const Traffic traffic = traffic_of(call, place);
  const double start_us = state_.now_us;
  if (size() > 1) state_.now_us += time_us(call);
  if (std::optional<Event> event = make_event(call, info, traffic)) {
    event->module = state_.log->module();
    if (state_.log->is_tracing()) event->trace = trace_of(call, {place, ranks_, sequence});
    event->start_us = start_us;
    event->end_us = state_.now_us;
    state_.log->add(*std::move(event));
  }
  if (state_.arrive) state_.arrive(call, ranks_);
  mark_written(call);
  return std::make_shared<SimWork>(traffic.received);
}

}  // namespace tessera
