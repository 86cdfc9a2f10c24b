// runtime/nccl/transport.h: the NCCL backend. A call is compared with its peers' by the host, where
// that is asked for; then the device gets all of it at once: packing, NCCL's calls, folds in order
// of rank, landing. The host waits for none of that: the call is over once the device has it, and
// the compute stream waits for its end. A thread of its own watches for what NCCL leaves waiting.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/call/call_messages.h"
#include "runtime/control/process_transport.h"
#include "runtime/nccl/host_mail.h"
#include "runtime/nccl/link.h"
#include "runtime/nccl/rank_parts.h"
#include "runtime/nccl/windows.h"
#include "runtime/nccl_world.h"
#include "runtime/world.h"

namespace tessera::nccl::TSR_CUDA {

class CapturedCalls;  // captured_calls.h

/// Aborts communicators once some rank has failed, and fails the job where one is stuck: a rank
/// that waits for its device cannot.
class Watch {
 public:
  Watch(ControlChannel& control, std::int64_t num_ranks)
      : control_(control), num_ranks_(num_ranks) {}
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();
  void add(Link& link);
  /// Once its work is done, or the job has failed: then its abort has come to an end.
  void remove(Link& link);
  void add(CapturedCalls& calls);
  void remove(CapturedCalls& calls);

 private:
  void run();
  void abort_all();  // under mutex_
  Status look();     // under mutex_
  /// Of a timeout: names those that do not answer.
  Status with_silent_ranks(const Status& wrong);
  ControlChannel& control_;
  const std::int64_t num_ranks_;
  std::mutex mutex_;
  std::set<Link*> links_;                // under mutex_
  std::map<Link*, std::thread> aborts_;  // under mutex_; of those
  std::set<CapturedCalls*> captured_;    // under mutex_
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

class Transport final : public ProcessTransport {
 public:
  struct Parts {
    std::unique_ptr<ControlChannel> control;
    std::unique_ptr<HostMail> mail;
    std::shared_ptr<Device> device;
    std::int64_t rank = 0;
    std::int64_t size = 1;
    CallChecks checks = CallChecks::kOff;
    ReduceBy reduce = ReduceBy::kOrdered;
    ExchangeBy exchange = ExchangeBy::kMessages;
    OwnHandles handles = {};
    std::string no_windows = {};     ///< why ranks reach no peers; empty: those of a host do
    std::vector<std::string> hosts;  ///< by rank
    Clock::time_point start;         ///< zero of now_us()
  };
  explicit Transport(Parts parts);

  HostMail& mail() noexcept { return *mail_; }
  CudaDevice& device() noexcept { return static_cast<CudaDevice&>(*device_); }
  CallChecks checks() const noexcept { return checks_; }
  ReduceBy reduce() const noexcept { return reduce_; }
  ExchangeBy exchange() const noexcept { return exchange_; }
  const OwnHandles& handles() const noexcept { return handles_; }
  /// Why ranks do not reach each other's cards; empty: they do.
  std::string why_unreached(const CallGroup& group) const;
  Watch& watch() noexcept { return watch_; }
  std::set<std::string>& files() noexcept { return files_; }

  std::int64_t rank() const noexcept override { return rank_; }
  std::int64_t size() const noexcept override { return size_; }
  double now_us() const override;
  StatusOr<std::unique_ptr<TransportGroup>> open_group(const CallGroup& group) override;
  Status check(const CollectiveCall& call) const override;
  std::shared_ptr<RankCapture> capture_calls() override;
  /// What calls belong to; null: to no capture.
  CapturedCalls* capture() const noexcept { return capture_; }
  void set_capture(CapturedCalls* capture) noexcept { capture_ = capture; }

 private:
  std::unique_ptr<HostMail> mail_;
  std::shared_ptr<Device> device_;
  std::int64_t rank_, size_;
  CallChecks checks_;
  ReduceBy reduce_;
  ExchangeBy exchange_;
  OwnHandles handles_;
  std::string no_windows_;
  std::vector<std::string> hosts_;
  Clock::time_point start_;
  CapturedCalls* capture_ = nullptr;
  std::set<std::string> files_;  ///< names of source files in signatures of peers
  Watch watch_;
};

/// A lane's communicator, and its ranks in it.
struct LaneLink {
  Link* link = nullptr;
  int rank = 0;
  int size = 1;
};

class Group final : public ProcessGroup {
 public:
  Group(Transport& transport, const CallGroup& ranks, std::uint32_t id)
      : ProcessGroup(transport.control(), ranks, id), transport_(transport) {}
  ~Group() override;
  std::shared_ptr<PendingCall> make_call(CollectiveCall&& call, Signature&& signature) override;
  /// Made where it is first asked for.
  LaneLink link_of(const Signature& call);
  /// Whether its calls may put boxes into peers' windows.
  bool puts_boxes() const {
    return transport_.exchange() == ExchangeBy::kWindows && ranks().size() > 1 && reaches_peers();
  }
  bool reaches_peers() const noexcept override {
    return ranks().size() == 1 || why_unreached().empty();
  }
  std::string why_unreached() const override { return transport_.why_unreached(ranks()); }
  /// Of its collectives' communicator. Made where it is first asked for.
  PeerWindow& window_of(Link& link);
  /// The number of the call whose turn it is in its lane.
  std::uint64_t& next_in_lane(const Signature& call) { return next_[lane_key(call)]; }
  /// What this rank has sent to itself and not yet received, by number.
  std::map<std::uint64_t, Array>& own_letters() noexcept { return own_letters_; }

 private:
  /// (from, to) of a message, (-1, -1) of a collective.
  std::pair<int, int> lane_key(const Signature& call) const;
  /// All ranks, in their order.
  bool is_whole_world() const;

  Transport& transport_;
  std::map<std::pair<int, int>, std::unique_ptr<Link>> links_;
  std::map<std::pair<int, int>, std::uint64_t> next_;
  std::map<std::uint64_t, Array> own_letters_;
  std::unique_ptr<PeerWindow> window_;  ///< goes before its link
};

}  // namespace tessera::nccl::TSR_CUDA
