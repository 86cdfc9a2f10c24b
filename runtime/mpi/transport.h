// runtime/mpi/transport.h: the MPI backend: ranks are processes. A call's signature goes round
// first, where that is asked for; then its data move as messages, or are read from the memory of
// ranks on the same host (movement.h).
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "runtime/control/process_transport.h"
#include "runtime/device/device_side.h"
#include "runtime/mpi/link.h"
#include "runtime/mpi/movement.h"
#include "runtime/mpi/signature_exchange.h"
#include "runtime/mpi/staged_call.h"
#include "runtime/world.h"

namespace tessera {

class MpiTransport;

class MpiCall final : public ProcessCall {
 public:
  MpiCall(MpiTransport& transport, ProcessGroup& group, CollectiveCall&& call,
          Signature&& signature)
      : ProcessCall(group, std::move(call), std::move(signature)), transport_(transport) {}

  std::int64_t progress() const noexcept override {
    return movement_ ? movement_->progress() + 1 : 0;
  }
  bool is_comparing() const noexcept override { return phase_ == Phase::kComparing; }

 private:
  /// kWaiting: for the device to have what goes into the first messages.
  enum class Phase : std::uint8_t { kComparing, kWaiting, kMoving };
  bool post() override;
  bool advance() override;
  void abandon() noexcept override;
  void compare();
  void meet_device();
  MovementPlace place();
  bool is_ready() { return staged_ ? staged_->is_down() : !device_ || device_->lets_messages(); }
  void begin_moving();

  MpiTransport& transport_;
  Phase phase_ = Phase::kComparing;
  std::optional<SignatureExchange> exchange_;  ///< where signatures are compared
  // Of arrays on a device one of these; the second with the movement.
  std::unique_ptr<StagedCall> staged_;
  std::unique_ptr<DeviceSide> device_;
  std::unique_ptr<Movement> movement_;
};

class MpiTransport final : public ProcessTransport {
 public:
  struct Parts {
    std::unique_ptr<MpiLink> link;
    std::unique_ptr<HostMemory> host;
    std::unique_ptr<ControlChannel> control;
    CallChecks checks = CallChecks::kOff;
    DevicePath device_path = DevicePath::kStaged;  ///< of calls that can go so
    std::chrono::steady_clock::time_point start;   ///< zero of now_us()
  };
  explicit MpiTransport(Parts parts)
      : ProcessTransport(std::move(parts.control)),
        link_(std::move(parts.link)),
        host_(std::move(parts.host)),
        checks_(parts.checks),
        device_path_(parts.device_path),
        start_(parts.start) {}
  /// Of buffers to receive into; before the first call.
  void set_host_memory(std::shared_ptr<Allocator> memory) { host_memory_ = std::move(memory); }

  MpiLink& link() noexcept { return *link_; }
  const HostMemory& host() const noexcept { return *host_; }
  CallChecks checks() const noexcept { return checks_; }
  DevicePath device_path() const noexcept { return device_path_; }
  const std::shared_ptr<Allocator>& host_memory() const noexcept { return host_memory_; }
  Staging& staging() noexcept { return staging_; }
  /// Names of source files in signatures of peers.
  std::set<std::string>& files() noexcept { return files_; }

  std::int64_t rank() const noexcept override { return link_->rank(); }
  std::int64_t size() const noexcept override { return link_->size(); }
  double now_us() const override;
  StatusOr<std::unique_ptr<TransportGroup>> open_group(const CallGroup& group) override;
  Status check(const CollectiveCall& call) const override;
  std::size_t most_pending() const noexcept override { return kMaxPending; }

 private:
  std::unique_ptr<MpiLink> link_;
  std::unique_ptr<HostMemory> host_;
  CallChecks checks_;
  DevicePath device_path_;
  std::chrono::steady_clock::time_point start_;
  std::shared_ptr<Allocator> host_memory_;
  Staging staging_;
  std::set<std::string> files_;
};

}  // namespace tessera
