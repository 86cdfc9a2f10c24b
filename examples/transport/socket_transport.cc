#include "socket_transport.h"

#include <chrono>
#include <set>

#include "runtime/call/call_messages.h"
#include "runtime/call/signature_wire.h"
#include "runtime/call/transport_world.h"
#include "runtime/control/process_transport.h"

namespace {

using namespace tessera;

/// To each peer goes one frame, the call's signature and message; once all of theirs are here the
/// signatures are compared, and the messages land.
class SocketCall final : public ProcessCall {
 public:
  SocketCall(Sockets& sockets, ProcessGroup& group, CollectiveCall&& call, Signature&& signature)
      : ProcessCall(group, std::move(call), std::move(signature)),
        sockets_(sockets),
        messages_(this->call(), this->signature(), group.ranks().place()),
        peers_(messages_.peers()),
        frames_(static_cast<std::size_t>(group.ranks().size())) {
    number_ = {lane().group, lane().from, lane().to, this->signature().sequence};
  }

  bool is_comparing() const noexcept override { return true; }  // until all is there

 private:
  bool post() override {
    Frame frame;
    write_signature(signature(), frame.signature);
    const bool receives = signature().kind == CollectiveCall::Kind::kRecv;
    for (const int peer : peers_) {
      frame.message = messages_.to(peer);
      CallNumber number = number_;
      if (receives) number.group |= kBack;  // the pair's lane holds what goes the other way
      sockets_.send(world_rank(peer), number, frame);
    }
    return advance();
  }

  bool advance() override {
    sockets_.pump();
    const bool sends = signature().kind == CollectiveCall::Kind::kSend;
    CallNumber number = number_;
    if (sends) number.group |= kBack;
    while (num_taken_ < peers_.size()) {
      const int peer = peers_[num_taken_];
      std::optional<Frame> frame = sockets_.take(world_rank(peer), number);
      if (!frame) return false;
      frame_of(peer) = *std::move(frame);
      ++num_taken_;
    }
    std::vector<std::string> signatures;
    for (const int peer : peers_) signatures.push_back(frame_of(peer).signature);
    compare_with(signatures, files());
    note_match();
    std::vector<std::string> messages;
    for (Frame& frame : frames_) messages.push_back(std::move(frame.message));
    messages_.land(messages);
    return true;
  }

  void abandon() noexcept override {}

  Frame& frame_of(int peer) { return frames_[static_cast<std::size_t>(peer)]; }
  int world_rank(int peer) const { return static_cast<int>(group().ranks().world_rank(peer)); }
  /// Signatures point to names of source files.
  static std::set<std::string>& files() {
    static std::set<std::string> names;
    return names;
  }
  /// In a lane's number: frames of the receiving end of a pair.
  static constexpr std::uint32_t kBack = std::uint32_t{1} << 31;

  Sockets& sockets_;
  CallMessages messages_;
  std::vector<int> peers_;
  std::vector<Frame> frames_;  ///< by group rank
  std::size_t num_taken_ = 0;
  CallNumber number_;
};

class SocketGroup final : public ProcessGroup {
 public:
  SocketGroup(Sockets& sockets, ControlChannel& control, const CallGroup& ranks, std::uint32_t id)
      : ProcessGroup(control, ranks, id), sockets_(sockets) {}
  std::shared_ptr<PendingCall> make_call(CollectiveCall&& call, Signature&& signature) override {
    return std::make_shared<SocketCall>(sockets_, *this, std::move(call), std::move(signature));
  }

 private:
  Sockets& sockets_;
};

class SocketTransport final : public ProcessTransport {
 public:
  /// `start`: zero of now_us(), the same on all ranks.
  SocketTransport(Sockets& sockets, std::unique_ptr<ControlChannel> control,
                  Clock::time_point start)
      : ProcessTransport(std::move(control)), sockets_(sockets), start_(start) {}

  std::int64_t rank() const noexcept override { return sockets_.rank(); }
  std::int64_t size() const noexcept override { return sockets_.size(); }
  double now_us() const override {
    return std::chrono::duration<double, std::micro>(Clock::now() - start_).count();
  }
  StatusOr<std::unique_ptr<TransportGroup>> open_group(const CallGroup& group) override {
    TSR_ASSIGN_OR_RETURN(const std::uint32_t id, id_of(group));
    return std::make_unique<SocketGroup>(sockets_, control(), group, id);
  }
  Status check(const CollectiveCall& call) const override {
    const Device& device = device_of(call);
    if (&device == &cpu_device()) return absl::OkStatus();
    return unimplemented(std::string(name_of(call.kind())) + ": its arrays lie on " +
                         to_string(device.id()) + "; over sockets they lie on the host");
  }

 private:
  Sockets& sockets_;
  Clock::time_point start_;
};

}  // namespace

Status run_socket_rank(Sockets& sockets, const WorldOptions& options,
                       const std::function<void(World&)>& body) {
  using Clock = Transport::Clock;
  const ExchangeTexts exchange = [&](const std::string& own) { return sockets.exchange(own); };
  TSR_ASSIGN_OR_RETURN(std::unique_ptr<ControlChannel> control,
                       ControlChannel::open({sockets.rank(), sockets.size()}, {}, exchange));
  // The clock of one host is the same to all its processes.
  const auto now = Clock::now().time_since_epoch().count();
  const Clock::duration zero(std::stoll(exchange(std::to_string(now))[0]));
  auto made =
      std::make_unique<SocketTransport>(sockets, std::move(control), Clock::time_point(zero));
  SocketTransport& transport = *made;
  TransportWorld world(
      {.transport = std::move(made),
       .timeout = options.timeout,
       .threads_per_rank = library_threads(options.threads_per_rank, sockets.size()),
       .allocator = options.allocator ? options.allocator(sockets.rank()) : nullptr});
  const auto whole_body = [&] {
    body(world);
    world.finish();
    sockets.flush();
  };
  return run_body(world, whole_body, [&] { return transport.leave([] {}); });
}
