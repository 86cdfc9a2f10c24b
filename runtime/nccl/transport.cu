#include <algorithm>
#include <chrono>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/str_join.h"
#include "runtime/call/signature_wire.h"
#include "runtime/nccl/captured_calls.h"
#include "runtime/nccl/device_call.h"
#include "runtime/nccl/transport.h"

namespace tessera::nccl::TSR_CUDA {

namespace {

using Kind = CollectiveCall::Kind;
using Clock = RankClock;

/// Texts of one call, or of a lane, between two ranks.
enum class MailPart : std::int32_t {
  kSignature,
  kReceiverSignature,
  kMessage,
  kReceiverMessage,
  kId,
  kRoom
};

class Call final : public ProcessCall {
 public:
  Call(Transport& transport, Group& group, CollectiveCall&& call, Signature&& signature)
      : ProcessCall(group, std::move(call), std::move(signature)),
        transport_(transport),
        own_group_(group),
        messages_(this->call(), this->signature(), group.ranks().place()),
        peers_(messages_.peers()) {}

  void note_wait() override { is_waited_for_ = true; }
  bool is_comparing() const noexcept override { return phase_ == Phase::kComparing; }

 private:
  /// kMessages: of arrays on the host; kGiven: the device has it.
  enum class Phase : std::uint8_t { kComparing, kConnecting, kMessages, kGiven };
  bool post() override;
  bool advance() override;
  void abandon() noexcept override {}
  bool on_host() { return &device_of(call()) == &cpu_device(); }
  bool is_to_oneself() const { return is_message(signature().kind) && signature().root == own(); }
  int own() const { return own_group_.ranks().rank; }
  /// Of a text of this rank (`mine`) or of a peer; of a message each way has its own.
  MailKey key(MailPart part, bool mine) const;
  void send_all(MailPart part, const std::function<std::string(int peer)>& text);
  bool take_all(MailPart part);
  bool connect();
  void refuse_to_connect_in_capture();
  bool goes_by_windows() const;
  /// Whether the ranks' windows are there, with room for the call.
  bool reach();
  bool reach_for_rows();
  bool reach_for_boxes();
  bool deliver_to_oneself();
  bool goes_on();
  void give();
  /// Ranks do not know what one another's windows have to hold.
  bool asks_for_room() const {
    return goes_by_windows() && (signature().kind == Kind::kExchange ||
                                 call().as<PeerRowsCall>().rows->buffer_rows.empty());
  }
  /// What peers told, by rank, then number by number.
  std::vector<std::vector<std::int64_t>> told() const;

  Transport& transport_;
  Group& own_group_;
  CallMessages messages_;
  std::vector<int> peers_;
  Phase phase_ = Phase::kComparing;
  std::vector<std::string> taken_;  ///< from the peers, in their order
  std::unique_ptr<DeviceCall> on_device_;
  bool is_waited_for_ = false;
};

MailKey Call::key(MailPart part, bool mine) const {
  const bool of_receiver =
      is_message(signature().kind) && (signature().kind == Kind::kRecv) == mine;
  return {lane().group, lane().from, lane().to, signature().sequence,
          static_cast<std::int32_t>(part) + (of_receiver ? 1 : 0)};
}

void Call::send_all(MailPart part, const std::function<std::string(int peer)>& text) {
  for (const int peer : peers_) {
    transport_.mail().send(own_group_.ranks().world_rank(peer), key(part, true), text(peer));
  }
}

bool Call::take_all(MailPart part) {
  while (taken_.size() < peers_.size()) {
    const std::int64_t peer = own_group_.ranks().world_rank(peers_[taken_.size()]);
    std::optional<std::string> text = transport_.mail().take(peer, key(part, false));
    if (!text) return false;
    taken_.push_back(*std::move(text));
  }
  return true;
}

bool Call::post() {
  if (is_to_oneself()) return advance();
  const bool compares =
      transport_.checks() == CallChecks::kOn || signature().kind == Kind::kBarrier;
  if (compares) {
    std::string own;
    write_signature(signature(), own);
    send_all(MailPart::kSignature, [&](int) { return own; });
  } else {
    phase_ = on_host() ? Phase::kMessages : Phase::kConnecting;
  }
  if (signature().kind == Kind::kBarrier) return advance();
  if (on_host()) {
    send_all(MailPart::kMessage, [&](int peer) { return messages_.to(peer); });
  } else {
    on_device_ =
        std::make_unique<DeviceCall>(call(), signature(), own_group_.ranks().place(),
                                     *own_group_.link_of(signature()).link, transport_.reduce());
    if (on_device_->reduces_natively()) note_native_reduction();
    if (asks_for_room()) {
      send_all(MailPart::kRoom,
               [&](int peer) { return absl::StrJoin(on_device_->told_to(peer), " "); });
    }
  }
  return advance();
}

// A communicator gets its calls in the order of the lane on every rank. What the rank does not wait
// for goes on beside the compute stream; in a capture to its end, for nothing is done there.
bool Call::advance() {
  if (is_to_oneself()) return deliver_to_oneself();
  if (phase_ != Phase::kGiven) {
    std::uint64_t& next = own_group_.next_in_lane(signature());
    if (next != signature().sequence || !goes_on()) return false;
    ++next;
    if (phase_ != Phase::kGiven) return true;
  }
  if (!is_waited_for_ && (transport_.capture() != nullptr || !on_device_->is_done())) return false;
  on_device_->finish();
  on_device_.reset();
  return true;
}

/// True once it is over, or the device has it.
bool Call::goes_on() {
  if (phase_ == Phase::kComparing) {
    if (!take_all(MailPart::kSignature)) return false;
    compare_with(taken_, transport_.files());
    note_match();
    taken_.clear();
    if (signature().kind == Kind::kBarrier) return true;
    phase_ = on_host() ? Phase::kMessages : Phase::kConnecting;
  }
  if (phase_ == Phase::kMessages) {
    if (!take_all(MailPart::kMessage)) return false;
    std::vector<std::string> by_rank(static_cast<std::size_t>(own_group_.ranks().size()));
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      by_rank[static_cast<std::size_t>(peers_[i])] = std::move(taken_[i]);
    }
    messages_.land(by_rank);
    return true;
  }
  if (transport_.capture() != nullptr) {
    refuse_to_connect_in_capture();
  } else if (!connect()) {
    return false;
  }
  if (goes_by_windows() && !reach()) return false;
  give();
  return true;
}

// Making one would wait for other ranks and ask for memory, of which a graph should know nothing.
void Call::refuse_to_connect_in_capture() {
  if (own_group_.link_of(signature()).link->is_ready()) return;
  throw Error(failed_precondition(
      "capture: " + to_string(signature()) +
      " is its ranks' first call, for which NCCL has yet to connect them: run the work once by "
      "calls before it is captured"));
}

// The lane's first rank has its id from NCCL and tells it the others.
bool Call::connect() {
  const LaneLink on_lane = own_group_.link_of(signature());
  if (on_lane.link->has_begun()) return on_lane.link->is_ready();
  const std::vector<std::int64_t> ranks = parties();
  const MailKey where{lane().group, lane().from, lane().to, 0,
                      static_cast<std::int32_t>(MailPart::kId)};
  std::string id;
  if (on_lane.rank == 0) {
    id = Link::new_id();
    for (std::size_t i = 1; i < ranks.size(); ++i) transport_.mail().send(ranks[i], where, id);
  } else {
    std::optional<std::string> told = transport_.mail().take(ranks[0], where);
    if (!told) return false;
    id = *std::move(told);
  }
  on_lane.link->connect(id, on_lane.rank, on_lane.size);
  return on_lane.link->is_ready();
}

bool Call::goes_by_windows() const {
  if (signature().kind == Kind::kExchange) return own_group_.puts_boxes();
  return signature().kind == Kind::kPeerRows;
}

std::vector<std::vector<std::int64_t>> Call::told() const {
  std::vector<std::vector<std::int64_t>> all(static_cast<std::size_t>(own_group_.ranks().size()),
                                             on_device_->told_to(own()));
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    std::vector<std::int64_t>& numbers = all[static_cast<std::size_t>(peers_[i])];
    std::istringstream text(taken_[i]);
    for (std::int64_t& number : numbers) text >> number;
  }
  return all;
}

bool Call::reach() {
  if (asks_for_room() && !take_all(MailPart::kRoom)) return false;
  return signature().kind == Kind::kExchange ? reach_for_boxes() : reach_for_rows();
}

bool Call::reach_for_rows() {
  std::vector<std::int64_t> rows = call().as<PeerRowsCall>().rows->buffer_rows;
  if (rows.empty()) {
    for (const std::vector<std::int64_t>& each : told()) rows.push_back(each[0]);
  }
  PeerWindow& window = own_group_.window_of(*own_group_.link_of(signature()).link);
  const std::int64_t most = *std::max_element(rows.begin(), rows.end());
  if (!window.has({"peer_rows", most * row_bytes(peer_buffer(call())), most})) return false;
  if (const Status mapped = window.mapped(); !mapped.ok()) {
    throw Error(Status(mapped.code(), to_absl("peer_rows: " + std::string(message_of(mapped)))));
  }
  on_device_->reach(window, std::move(rows));
  return true;
}

// Boxes go as messages where none come for any rank, or some rank takes rounds: each knows it of
// all.
bool Call::reach_for_boxes() {
  std::vector<std::int64_t> bytes, begins;
  for (const std::vector<std::int64_t>& each : told()) {
    bytes.push_back(each[0]);
    begins.push_back(each[1]);
  }
  const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end());
  if (*least == kNoRoom || *most == 0) return true;
  PeerWindow& window = own_group_.window_of(*own_group_.link_of(signature()).link);
  if (!window.has({"exchange", *most, 0})) return false;
  if (window.mapped().ok()) on_device_->reach(window, std::move(begins));
  return true;
}

void Call::give() {
  on_device_->give();
  phase_ = Phase::kGiven;
  Link& link = *own_group_.link_of(signature()).link;
  if (CapturedCalls* const capture = transport_.capture()) {
    return capture->add(to_string(signature()), timeout());
  }
  const bool for_ever = timeout() < std::chrono::milliseconds::zero();
  link.note_call(to_string(signature()),
                 for_ever ? Clock::time_point::max() : Clock::now() + timeout());
}

// NCCL takes both ends of such a message at once only.
bool Call::deliver_to_oneself() {
  std::map<std::uint64_t, Array>& letters = own_group_.own_letters();
  Device& device = device_of(call());
  const auto copy = [&](const Array& to, const Array& from) {
    device.copy(to.bytes(), from.bytes(), static_cast<std::size_t>(from.num_bytes()),
                device.compute());
  };
  if (signature().kind == Kind::kSend) {
    const Array& in = call().in();
    Array kept = Array::empty(in.shape(), in.dtype(), in.storage()->allocator());
    copy(kept, in);
    letters.emplace(signature().sequence, std::move(kept));
    return true;
  }
  const auto letter = letters.find(signature().sequence);
  if (letter == letters.end()) return false;
  if (letter->second.shape() != call().out().shape() ||
      letter->second.dtype() != call().out().dtype()) {
    throw Error(failed_precondition("collective mismatch (shape): " + to_string(signature()) +
                                    " takes what this rank sent itself of shape " +
                                    to_string(letter->second.shape())));
  }
  copy(call().out(), letter->second);
  letters.erase(letter);
  return true;
}

}  // namespace

// ---- Transport

Transport::Transport(Parts parts)
    : ProcessTransport(std::move(parts.control)),
      mail_(std::move(parts.mail)),
      device_(std::move(parts.device)),
      rank_(parts.rank),
      size_(parts.size),
      checks_(parts.checks),
      reduce_(parts.reduce),
      exchange_(parts.exchange),
      handles_(parts.handles),
      no_windows_(std::move(parts.no_windows)),
      hosts_(std::move(parts.hosts)),
      start_(parts.start),
      watch_(control(), parts.size) {}

double Transport::now_us() const {
  return std::chrono::duration<double, std::micro>(Clock::now() - start_).count();
}

StatusOr<std::unique_ptr<TransportGroup>> Transport::open_group(const CallGroup& group) {
  TSR_ASSIGN_OR_RETURN(const std::uint32_t id, id_of(group));
  return std::make_unique<Group>(*this, group, id);
}

Status Transport::check(const CollectiveCall& call) const {
  const Device& device = device_of(call);
  if (&device == &cpu_device() && call.kind() == Kind::kPeerRows) {
    return unimplemented("peer_rows: its arrays lie on " + to_string(device.id()) +
                         "; over NCCL ranks reach each other's cards alone");
  }
  if (&device == &cpu_device() || &device == device_.get()) return absl::OkStatus();
  return invalid_argument(std::string(name_of(call.kind())) + ": its arrays lie on " +
                          to_string(device.id()) + ", this rank's device is " +
                          to_string(device_->id()));
}

std::shared_ptr<RankCapture> Transport::capture_calls() {
  return std::make_shared<CapturedCalls>(*this);
}

std::string Transport::why_unreached(const CallGroup& group) const {
  if (!no_windows_.empty()) return no_windows_;
  if (group.size() > kernels::kMostPeers) {
    return "a kernel is told of " + std::to_string(kernels::kMostPeers) +
           " ranks at most, these are " + std::to_string(group.size());
  }
  const auto host = [&](std::int64_t rank) { return hosts_[static_cast<std::size_t>(rank)]; };
  for (const std::int64_t rank : group.ranks) {
    if (host(rank) == host(group.ranks[0])) continue;
    return "rank " + std::to_string(rank) + " is on another host than rank " +
           std::to_string(group.ranks[0]);
  }
  return {};
}

// ---- Group

Group::~Group() {
  for (const auto& [lane, link] : links_) transport_.watch().remove(*link);
}

std::shared_ptr<PendingCall> Group::make_call(CollectiveCall&& call, Signature&& signature) {
  return std::make_shared<Call>(transport_, *this, std::move(call), std::move(signature));
}

std::pair<int, int> Group::lane_key(const Signature& call) const {
  if (call.kind == Kind::kSend) return {ranks().rank, call.root};
  if (call.kind == Kind::kRecv) return {call.root, ranks().rank};
  return {-1, -1};
}

PeerWindow& Group::window_of(Link& link) {
  if (window_ == nullptr) {
    window_ = std::make_unique<PeerWindow>(transport_.device(), link, ranks().place());
  }
  return *window_;
}

bool Group::is_whole_world() const {
  if (ranks().size() != transport_.size()) return false;
  for (int rank = 0; rank < ranks().size(); ++rank) {
    if (ranks().world_rank(rank) != rank) return false;
  }
  return true;
}

LaneLink Group::link_of(const Signature& call) {
  LaneLink found{.rank = ranks().rank, .size = ranks().size()};
  if (is_message(call.kind)) {
    found.rank = call.kind == Kind::kSend ? 0 : 1;
    found.size = 2;
  }
  std::unique_ptr<Link>& link = links_[lane_key(call)];
  if (link == nullptr) {
    const bool is_of_all = !is_message(call.kind) && is_whole_world();
    link = std::make_unique<Link>(transport_.device(),
                                  is_of_all ? transport_.handles() : OwnHandles{});
    transport_.watch().add(*link);
  }
  found.link = link.get();
  return found;
}

}  // namespace tessera::nccl::TSR_CUDA
