// runtime/call/pending_call.h: one call of one rank, from when it is begun until it is over. A
// transport derives from it and says how the call's bytes move; what all calls have alike stands
// here.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "placement/api.h"
#include "runtime/call/communicator.h"
#include "runtime/call/event.h"
#include "runtime/call/signature.h"

namespace tessera TSR_API {

class GroupCommunicator;
class RankCalls;

/// The list of its rank's calls in flight holds it until it is over, so dropping a handle is safe.
/// Thread-safety: its rank's thread only.
class PendingCall : public Work {
 public:
  /// `call`: prepared.
  explicit PendingCall(CollectiveCall&& call) : call_(std::move(call)) {}

  void wait() final;
  std::int64_t bytes_received() const final { return bytes_received_; }

  /// Of this rank's call. It lies where the transport compares it with the peers'.
  virtual const Signature& signature() const noexcept = 0;
  /// Negative: for ever.
  std::chrono::milliseconds timeout() const noexcept { return timeout_; }
  bool is_over() const noexcept { return phase_ != Phase::kOpen; }
  bool has_failed() const noexcept { return phase_ == Phase::kFailed; }

 protected:
  // What a transport does. None of them blocks; each may throw an Error, which ends the call and
  // fails all ranks: a mismatch with the peers' calls, a peer that sends other bytes, …

  /// Gives the peers what they need. True where the call is over at once.
  virtual bool begin() = 0;
  /// Goes on as far as it can. True once the call is over: its arrays are written, and no peer
  /// reads or writes them any more.
  virtual bool advance() = 0;
  /// The call has failed. Peers may still touch its arrays: they stay alive as long as that.
  virtual void abandon() noexcept = 0;

  CollectiveCall& call() noexcept { return call_; }
  const CollectiveCall& call() const noexcept { return call_; }
  /// The peers' signatures have been seen and agree, for the flight record.
  void note_match() noexcept;
  /// For the call's event.
  void note_path(DevicePath path) noexcept {
    if (event_) event_->device_path = path;
  }
  void note_native_reduction() noexcept {
    if (event_) event_->reduced_natively = true;
  }

 private:
  friend class RankCalls;
  friend class GroupCommunicator;
  enum class Phase : std::uint8_t { kOpen, kFinished, kFailed };
  template <class Part>
  void guarded(Part&& part);
  void open(RankCalls& calls, std::uint32_t recorded_group);
  void go_on();
  void finish();
  void fail(Status status);

  RankCalls* calls_ = nullptr;  ///< null before it is begun and once it is over
  CollectiveCall call_;
  Phase phase_ = Phase::kOpen;
  std::chrono::milliseconds timeout_{0};
  std::int64_t bytes_received_ = 0;
  std::optional<Event> event_;  ///< what to log when it is over
  std::uint64_t ticket_ = 0;    ///< in the flight record
  Status status_;
};

}  // namespace tessera
