#include "runtime/mpi/transport.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "runtime/mpi/direct_call.h"

namespace tessera {
namespace {

using Kind = CollectiveCall::Kind;

class MpiGroup final : public ProcessGroup {
 public:
  MpiGroup(MpiTransport& transport, const CallGroup& ranks, std::uint32_t id)
      : ProcessGroup(transport.control(), ranks, id), transport_(transport) {}

  bool reaches_peers() const noexcept override { return transport_.host().are_near(ranks().ranks); }
  std::shared_ptr<PendingCall> make_call(CollectiveCall&& call, Signature&& signature) override {
    return std::make_shared<MpiCall>(transport_, *this, std::move(call), std::move(signature));
  }

 private:
  MpiTransport& transport_;
};

}  // namespace

// ---- MpiCall

bool MpiCall::post() {
  if (&device_of(call()) != &cpu_device()) meet_device();
  compare();
  return false;
}

void MpiCall::compare() {
  const CallGroup& ranks = group().ranks();
  const Signature& own = signature();
  const bool alone = ranks.size() == 1 || (is_message(own.kind) && own.root == ranks.rank);
  if (transport_.checks() == CallChecks::kOff || alone) {
    phase_ = Phase::kWaiting;
    if (is_ready()) begin_moving();
    return;
  }
  SignatureParties parties{.ranks = this->parties()};
  const auto tag = [&](MessagePart part) { return MpiLink::tag(group().id(), own.sequence, part); };
  if (is_message(own.kind)) {
    const bool sends = own.kind == Kind::kSend;
    parties.self = sends ? 0 : 1;
    parties.send_tag = tag(sends ? MessagePart::kSenderSignature : MessagePart::kReceiverSignature);
    parties.recv_tag = tag(sends ? MessagePart::kReceiverSignature : MessagePart::kSenderSignature);
  } else {
    parties.self = static_cast<std::size_t>(ranks.rank);
    parties.send_tag = parties.recv_tag = tag(MessagePart::kSignature);
  }
  exchange_.emplace(transport_.link(), std::move(parties), own);
}

void MpiCall::meet_device() {
  DevicePath path = transport_.device_path();
  std::optional<DirectCall> direct;
  if (path == DevicePath::kDirect) direct = make_direct_call(place(), call(), signature());
  if (direct) {
    device_ = std::move(direct->device);
    movement_ = std::move(direct->movement);
  } else {
    path = DevicePath::kStaged;
    staged_ = std::make_unique<StagedCall>(call(), group().ranks().rank, transport_.staging());
  }
  note_path(path);
}

MovementPlace MpiCall::place() {
  return {.link = &transport_.link(),
          .host = &transport_.host(),
          .ranks = group().ranks().ranks,
          .group = group().ranks().place(),
          .group_id = group().id(),
          .sequence = signature().sequence,
          .allocator = transport_.host_memory()};
}

void MpiCall::begin_moving() {
  phase_ = Phase::kMoving;
  if (movement_ == nullptr) {
    movement_ = make_movement(place(), staged_ ? staged_->on_host() : call(), signature());
  }
  movement_->begin();
}

bool MpiCall::advance() {
  if (phase_ == Phase::kComparing) {
    if (!exchange_->advance(transport_.link())) return false;
    throw_if_error(exchange_->verdict(signature(), transport_.files()));
    note_match();
    exchange_.reset();
    // The signatures were the barrier.
    if (signature().kind == Kind::kBarrier) return true;
    phase_ = Phase::kWaiting;
  }
  if (phase_ == Phase::kWaiting) {
    if (!is_ready()) return false;
    begin_moving();
  }
  if (!movement_->advance()) return false;
  if (staged_) staged_->bring_up();
  if (device_) device_->finish();
  movement_.reset();
  staged_.reset();
  device_.reset();
  return true;
}

void MpiCall::abandon() noexcept {
  if (exchange_) exchange_->abandon();
  if (movement_) movement_->abandon();
  transport_.link().abandon();
}

// ---- MpiTransport

double MpiTransport::now_us() const {
  return std::chrono::duration<double, std::micro>(RankClock::now() - start_).count();
}

Status MpiTransport::check(const CollectiveCall& call) const {
  if (call.kind() != Kind::kPeerRows || &device_of(call) == &cpu_device()) return absl::OkStatus();
  return unimplemented("peer_rows: its arrays lie on " + to_string(device_of(call).id()) +
                       "; processes on MPI read their peers' arrays on the host only");
}

StatusOr<std::unique_ptr<TransportGroup>> MpiTransport::open_group(const CallGroup& group) {
  TSR_ASSIGN_OR_RETURN(const std::uint32_t id, id_of(group));
  if (id >= link().max_groups()) {
    return absl::ResourceExhaustedError(absl::StrFormat(
        "group %d of this job: this MPI's tags tell %d groups apart", id, link().max_groups()));
  }
  return std::make_unique<MpiGroup>(*this, group, id);
}

}  // namespace tessera
