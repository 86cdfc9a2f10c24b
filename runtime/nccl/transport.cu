#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "kernels/fold.h"
#include "runtime/call/signature_wire.h"
#include "runtime/device/device_boxes.h"
#include "runtime/device/device_side.h"
#include "runtime/nccl/transport.h"

namespace tessera::nccl::TSR_CUDA {

namespace {

using Kind = CollectiveCall::Kind;
using Clock = RankClock;

// How long a stuck or a failed communicator goes unseen.
constexpr std::chrono::milliseconds kLook{10};

/// Texts of one call, or of a lane, between two ranks.
enum class MailPart : std::int32_t {
  kSignature,
  kReceiverSignature,
  kMessage,
  kReceiverMessage,
  kId
};

/// Stretches of bytes that go to and come from peers, all at once.
class Letters {
 public:
  void send(int to, const std::byte* data, std::int64_t bytes) {
    if (bytes > 0) sent_.push_back({to, const_cast<std::byte*>(data), bytes});
  }
  void recv(int from, std::byte* data, std::int64_t bytes) {
    if (bytes > 0) received_.push_back({from, data, bytes});
  }
  void give(Link& link) const {
    if (sent_.empty() && received_.empty()) return;
    link.give([&](ncclComm_t comm) {
      const cudaStream_t stream = link.stream().handle();
      for (const Letter& each : sent_) {
        check(ncclSend(each.data, static_cast<std::size_t>(each.bytes), ncclUint8, each.peer, comm,
                       stream),
              comm, "ncclSend");
      }
      for (const Letter& each : received_) {
        check(ncclRecv(each.data, static_cast<std::size_t>(each.bytes), ncclUint8, each.peer, comm,
                       stream),
              comm, "ncclRecv");
      }
    });
  }

 private:
  struct Letter {
    int peer = 0;
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
  };
  std::vector<Letter> sent_, received_;
};

/// What NCCL calls a reduction that it forms by itself; its NaN may lose a max or min.
struct NativeReduction {
  ncclDataType_t type;
  ncclRedOp_t op;
};
std::optional<NativeReduction> native_reduction(DType dtype, const Fold& how, int num_ranks) {
  NativeReduction native{};
  switch (dtype) {
    case DType::kF32:
      native.type = ncclFloat32;
      break;
    case DType::kF64:
      native.type = ncclFloat64;
      break;
    case DType::kBF16:
      native.type = ncclBfloat16;
      break;
    case DType::kI32:
      native.type = ncclInt32;
      break;
    case DType::kI64:
      native.type = ncclInt64;
      break;
    default:
      return std::nullopt;
  }
  const bool averages = how.divisor != 1;
  if (how.op != ReduceOp::kSum && how.op != ReduceOp::kProd) return std::nullopt;
  if (averages && how.divisor != num_ranks) return std::nullopt;
  native.op = how.op == ReduceOp::kProd ? ncclProd : averages ? ncclAvg : ncclSum;
  return native;
}

/// What a device gets of one call. Peers are ranks of the link, which are those of the group.
class DeviceCall {
 public:
  /// What it is given comes after what the compute stream holds now, and after nothing later: calls
  /// of other groups may get their turns in another order on another rank.
  DeviceCall(const CollectiveCall& call, const Signature& signature, const GroupPlace& group,
             Link& link, ReduceBy reduce)
      : call_(call), signature_(signature), group_(group), link_(link) {
    const bool reduces = call_.kind == Kind::kAllReduce || call_.kind == Kind::kReduceScatter;
    const std::vector<std::int64_t>& rows = signature_.send_splits;
    const bool even = std::all_of(rows.begin(), rows.end(), [&](auto n) { return n == rows[0]; });
    if (reduce == ReduceBy::kNative && reduces && even) {
      native_ = native_reduction(signature_.dtype, how(), group_.size);
    }
    if (call_.kind == Kind::kExchange) boxes_.emplace(call_.parts, group_.rank);
    side_ = std::make_unique<DeviceSide>(call_, buffer_bytes(), &link_.stream());
  }

  /// Gives the device all of it.
  void give();
  /// NCCL forms the sum: see ReduceBy.
  bool reduces_natively() const noexcept { return native_.has_value(); }
  /// Whether the device has done it.
  bool is_done() { return side_->is_done(); }
  /// What the compute stream is given from now on comes after it.
  void finish() { side_->finish(); }

 private:
  std::int64_t buffer_bytes() const;
  void all_reduce();
  void all_gather();
  void reduce_scatter();
  void all_to_all();
  void broadcast();
  void pair();
  void exchange();
  void reduce_natively();
  /// Folds slices[own] of all ranks' `in` to `out`, in rounds that the buffer holds.
  void fold_slices(const std::vector<Slice>& slices, std::byte* out);
  std::vector<Slice> slices() const;
  std::int64_t round_elements() const;
  std::int64_t element() const { return size_of(signature_.dtype); }
  Fold how() const { return fold_by(call_.reduce, call_.divisor); }
  std::int64_t rows_before(const std::vector<std::int64_t>& splits, int rank) const {
    return sum_before(splits, rank);
  }

  const CollectiveCall& call_;
  const Signature& signature_;
  GroupPlace group_;
  Link& link_;
  std::optional<NativeReduction> native_;
  std::optional<DeviceBoxes> boxes_;
  std::unique_ptr<DeviceSide> side_;
};

std::vector<Slice> DeviceCall::slices() const {
  std::vector<Slice> all;
  for (int rank = 0; rank < group_.size; ++rank) {
    if (call_.kind == Kind::kAllReduce) {
      all.push_back(slice_of(call_.in.num_elements(), {rank, group_.size}));
      continue;
    }
    const std::int64_t row = row_bytes(call_.in) / element();
    const std::int64_t begin = rows_before(signature_.send_splits, rank) * row;
    all.push_back({begin, begin + signature_.send_splits[static_cast<std::size_t>(rank)] * row});
  }
  return all;
}

/// Of each summand, so that those of all others fit into what a call may have of buffers.
std::int64_t DeviceCall::round_elements() const {
  std::int64_t longest = 0;
  for (const Slice& slice : slices()) longest = std::max(longest, slice.end - slice.begin);
  const std::int64_t most = call_.pack_bytes / std::max(1, group_.size - 1) / element();
  return std::max<std::int64_t>(1, std::min(longest, most));
}

std::int64_t DeviceCall::buffer_bytes() const {
  if (native_) return 0;
  if (boxes_) return boxes_->buffer_bytes();
  if (call_.kind == Kind::kAllReduce && call_.in.num_bytes() <= kFoldAllBytes) {
    return DeviceSide::aligned(group_.size * call_.in.num_bytes());
  }
  if (call_.kind == Kind::kAllReduce || call_.kind == Kind::kReduceScatter) {
    return (group_.size - 1) * DeviceSide::aligned(round_elements() * element());
  }
  return 0;
}

void DeviceCall::give() {
  side_->begin();
  side_->note_given();
  switch (call_.kind) {
    case Kind::kAllReduce:
      all_reduce();
      break;
    case Kind::kAllGather:
      all_gather();
      break;
    case Kind::kReduceScatter:
      reduce_scatter();
      break;
    case Kind::kAllToAll:
      all_to_all();
      break;
    case Kind::kBroadcast:
      broadcast();
      break;
    case Kind::kSend:
    case Kind::kRecv:
      pair();
      break;
    case Kind::kExchange:
      exchange();
      break;
    case Kind::kBarrier:
      break;
  }
  side_->close();
}

// The sender is rank 0 of the link, the receiver rank 1.
void DeviceCall::pair() {
  Letters letters;
  if (call_.kind == Kind::kSend) {
    letters.send(1, call_.in.bytes(), call_.in.num_bytes());
  } else {
    letters.recv(0, call_.out.bytes(), call_.out.num_bytes());
  }
  letters.give(link_);
}

void DeviceCall::fold_slices(const std::vector<Slice>& slices, std::byte* out) {
  const Slice& own = slices[static_cast<std::size_t>(group_.rank)];
  const std::int64_t round = round_elements();
  std::int64_t longest = 0;
  for (const Slice& slice : slices) longest = std::max(longest, slice.end - slice.begin);
  std::vector<std::byte*> buffers(slices.size());
  for (int peer = 0; peer < group_.size; ++peer) {
    if (peer != group_.rank)
      buffers[static_cast<std::size_t>(peer)] = side_->take(round * element());
  }
  const auto part_of = [&](const Slice& slice, std::int64_t begin) {
    return Slice{std::min(slice.begin + begin, slice.end),
                 std::min(slice.begin + begin + round, slice.end)};
  };
  for (std::int64_t begin = 0; begin < longest; begin += round) {
    const Slice mine = part_of(own, begin);
    const std::int64_t count = mine.end - mine.begin;
    Letters letters;
    std::vector<const std::byte*> summands;
    for (int peer = 0; peer < group_.size; ++peer) {
      const auto at = static_cast<std::size_t>(peer);
      if (peer == group_.rank) {
        summands.push_back(call_.in.bytes() + mine.begin * element());
        continue;
      }
      const Slice theirs = part_of(slices[at], begin);
      letters.send(peer, call_.in.bytes() + theirs.begin * element(),
                   (theirs.end - theirs.begin) * element());
      letters.recv(peer, buffers[at], count * element());
      summands.push_back(buffers[at]);
    }
    letters.give(link_);
    if (count > 0) {
      side_->fold(summands, out + begin * element(), count, signature_.dtype, how());
    }
  }
}

void DeviceCall::reduce_natively() {
  const auto count = static_cast<std::size_t>(call_.out.num_elements());
  if (count == 0) return;
  const auto [type, op] = *native_;
  link_.give([&, type = type, op = op](ncclComm_t comm) {
    const cudaStream_t stream = link_.stream().handle();
    if (call_.kind == Kind::kAllReduce) {
      check(ncclAllReduce(call_.in.bytes(), call_.out.bytes(), count, type, op, comm, stream), comm,
            "ncclAllReduce");
    } else {
      check(ncclReduceScatter(call_.in.bytes(), call_.out.bytes(), count, type, op, comm, stream),
            comm, "ncclReduceScatter");
    }
  });
}

void DeviceCall::all_reduce() {
  if (native_) return reduce_natively();
  const std::int64_t bytes = call_.in.num_bytes();
  if (bytes == 0) return;
  if (bytes <= kFoldAllBytes) {
    std::byte* const all = side_->take(group_.size * bytes);
    link_.give([&](ncclComm_t comm) {
      check(ncclAllGather(call_.in.bytes(), all, static_cast<std::size_t>(bytes), ncclUint8, comm,
                          link_.stream().handle()),
            comm, "ncclAllGather");
    });
    std::vector<const std::byte*> summands;
    for (int rank = 0; rank < group_.size; ++rank) summands.push_back(all + rank * bytes);
    return side_->fold(summands, call_.out.bytes(), call_.in.num_elements(), signature_.dtype,
                       how());
  }
  const std::vector<Slice> all = slices();
  const Slice& own = all[static_cast<std::size_t>(group_.rank)];
  std::byte* const out = call_.out.bytes();
  fold_slices(all, out + own.begin * element());
  Letters letters;
  for (int peer = 0; peer < group_.size; ++peer) {
    if (peer == group_.rank) continue;
    const Slice& theirs = all[static_cast<std::size_t>(peer)];
    letters.send(peer, out + own.begin * element(), (own.end - own.begin) * element());
    letters.recv(peer, out + theirs.begin * element(), (theirs.end - theirs.begin) * element());
  }
  letters.give(link_);
}

void DeviceCall::reduce_scatter() {
  if (native_) return reduce_natively();
  fold_slices(slices(), call_.out.bytes());
}

void DeviceCall::all_gather() {
  const std::int64_t row = row_bytes(call_.out);
  std::byte* const out = call_.out.bytes();
  const std::vector<std::int64_t>& rows = signature_.recv_splits;
  std::byte* const own = out + rows_before(rows, group_.rank) * row;
  const bool even = std::all_of(rows.begin(), rows.end(), [&](auto n) { return n == rows[0]; });
  if (even) {
    if (call_.in.num_bytes() == 0) return;
    return link_.give([&](ncclComm_t comm) {
      check(ncclAllGather(call_.in.bytes(), out, static_cast<std::size_t>(call_.in.num_bytes()),
                          ncclUint8, comm, link_.stream().handle()),
            comm, "ncclAllGather");
    });
  }
  Letters letters;
  for (int peer = 0; peer < group_.size; ++peer) {
    if (peer == group_.rank) continue;
    letters.send(peer, call_.in.bytes(), call_.in.num_bytes());
    letters.recv(peer, out + rows_before(rows, peer) * row,
                 rows[static_cast<std::size_t>(peer)] * row);
  }
  letters.give(link_);
  if (call_.in.num_bytes() > 0 && own != call_.in.bytes()) {
    side_->copy(own, call_.in.bytes(), call_.in.num_bytes());
  }
}

void DeviceCall::all_to_all() {
  const std::int64_t row = row_bytes(call_.out);
  Letters letters;
  for (int peer = 0; peer < group_.size; ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    const std::byte* from = call_.in.bytes() + rows_before(signature_.send_splits, peer) * row;
    std::byte* to = call_.out.bytes() + rows_before(signature_.recv_splits, peer) * row;
    const std::int64_t sent = signature_.send_splits[at] * row;
    if (peer != group_.rank) {
      letters.send(peer, from, sent);
      letters.recv(peer, to, signature_.recv_splits[at] * row);
    } else if (sent > 0) {
      side_->copy(to, from, sent);
    }
  }
  letters.give(link_);
}

void DeviceCall::broadcast() {
  const std::int64_t bytes = call_.out.num_bytes();
  if (bytes == 0) return;
  link_.give([&](ncclComm_t comm) {
    check(ncclBroadcast(call_.out.bytes(), call_.out.bytes(), static_cast<std::size_t>(bytes),
                        ncclUint8, call_.root, comm, link_.stream().handle()),
          comm, "ncclBroadcast");
  });
}

void DeviceCall::exchange() {
  boxes_->pack(*side_);
  Letters letters;
  for (const Parcel& parcel : boxes_->outgoing()) {
    letters.send(parcel.pair.peer, parcel.data, parcel.layout.bytes);
  }
  for (const Parcel& parcel : boxes_->incoming()) {
    letters.recv(parcel.pair.peer, parcel.data, parcel.layout.bytes);
  }
  letters.give(link_);
  boxes_->land(*side_);
}

class Call final : public ProcessCall {
 public:
  Call(Transport& transport, Group& group, CollectiveCall&& call, Signature&& signature)
      : ProcessCall(group, std::move(call), std::move(signature)),
        transport_(transport),
        own_group_(group),
        messages_(this->call(), this->signature(), {group.ranks().rank, group.ranks().size()}),
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
  bool is_to_oneself() const {
    return peers_.size() == 1 && is_pair() && signature().root == own();
  }
  bool is_pair() const {
    return signature().kind == Kind::kSend || signature().kind == Kind::kRecv;
  }
  int own() const { return own_group_.ranks().rank; }
  /// Of a text of this rank (`mine`) or of a peer; of a message each way has its own.
  MailKey key(MailPart part, bool mine) const;
  void send_all(MailPart part, const std::function<std::string(int peer)>& text);
  bool take_all(MailPart part);
  bool connect();
  bool deliver_to_oneself();
  bool goes_on();
  void give();

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
  const LaneKey lane = waits_for().lane;
  const bool of_receiver = (signature().kind == Kind::kRecv) == mine && is_pair();
  return {lane.group, lane.from, lane.to, signature().sequence,
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
    const GroupPlace place{own(), own_group_.ranks().size()};
    on_device_ = std::make_unique<DeviceCall>(
        call(), signature(), place, *own_group_.link_of(signature()).link, transport_.reduce());
    if (on_device_->reduces_natively()) note_native_reduction();
  }
  return advance();
}

// A communicator gets its calls in the order of the lane on every rank. What the rank does not wait
// for goes on beside the compute stream.
bool Call::advance() {
  if (is_to_oneself()) return deliver_to_oneself();
  if (phase_ != Phase::kGiven) {
    std::uint64_t& next = own_group_.next_in_lane(signature());
    if (next != signature().sequence || !goes_on()) return false;
    ++next;
    if (phase_ != Phase::kGiven) return true;
  }
  if (!is_waited_for_ && !on_device_->is_done()) return false;
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
  if (!connect()) return false;
  give();
  return true;
}

// The lane's first rank has its id from NCCL and tells it the others.
bool Call::connect() {
  const LaneLink lane = own_group_.link_of(signature());
  if (lane.link->has_begun()) return lane.link->is_ready();
  const std::vector<std::int64_t> ranks = parties();
  const LaneKey of = waits_for().lane;
  const MailKey where{of.group, of.from, of.to, 0, static_cast<std::int32_t>(MailPart::kId)};
  std::string id;
  if (lane.rank == 0) {
    id = Link::new_id();
    for (std::size_t i = 1; i < ranks.size(); ++i) transport_.mail().send(ranks[i], where, id);
  } else {
    std::optional<std::string> told = transport_.mail().take(ranks[0], where);
    if (!told) return false;
    id = *std::move(told);
  }
  lane.link->connect(id, lane.rank, lane.size);
  return lane.link->is_ready();
}

void Call::give() {
  const LaneLink lane = own_group_.link_of(signature());
  on_device_->give();
  phase_ = Phase::kGiven;
  const bool for_ever = timeout() < std::chrono::milliseconds::zero();
  lane.link->note_call(to_string(signature()),
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
    const Array& in = call().in;
    Array kept = Array::empty(in.shape(), in.dtype(), in.storage()->allocator());
    copy(kept, in);
    letters.emplace(signature().sequence, std::move(kept));
    return true;
  }
  const auto letter = letters.find(signature().sequence);
  if (letter == letters.end()) return false;
  if (letter->second.shape() != call().out.shape() ||
      letter->second.dtype() != call().out.dtype()) {
    throw Error(failed_precondition("collective mismatch (shape): " + to_string(signature()) +
                                    " takes what this rank sent itself of shape " +
                                    to_string(letter->second.shape())));
  }
  copy(call().out, letter->second);
  letters.erase(letter);
  return true;
}

}  // namespace

// ---- Watch

Watch::~Watch() {
  ends_ = true;
  if (thread_.joinable()) thread_.join();
}

void Watch::add(Link& link) {
  const std::lock_guard lock(mutex_);
  links_.insert(&link);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

void Watch::remove(Link& link) {
  const std::lock_guard lock(mutex_);
  links_.erase(&link);
}

void Watch::run() {
  while (!ends_) {
    std::this_thread::sleep_for(kLook);
    Status wrong;
    {
      const std::lock_guard lock(mutex_);
      for (Link* link : links_) {
        if (control_.failed()) {
          link->abort();
        } else {
          wrong.Update(link->look());
        }
      }
    }
    if (!wrong.ok() && !control_.failed()) control_.poison(wrong);
  }
}

// ---- Transport

Transport::Transport(Parts parts)
    : ProcessTransport(std::move(parts.control)),
      mail_(std::move(parts.mail)),
      device_(std::move(parts.device)),
      rank_(parts.rank),
      size_(parts.size),
      checks_(parts.checks),
      reduce_(parts.reduce),
      start_(parts.start),
      watch_(control()) {}

double Transport::now_us() const {
  return std::chrono::duration<double, std::micro>(Clock::now() - start_).count();
}

StatusOr<std::unique_ptr<TransportGroup>> Transport::open_group(const CallGroup& group) {
  TSR_ASSIGN_OR_RETURN(const std::uint32_t id, id_of(group));
  return std::make_unique<Group>(*this, group, id);
}

Status Transport::check(const CollectiveCall& call) const {
  const Device& device = device_of(call);
  if (&device == &cpu_device() || &device == device_.get()) return absl::OkStatus();
  return invalid_argument(std::string(name_of(call.kind)) + ": its arrays lie on " +
                          to_string(device.id()) + ", this rank's device is " +
                          to_string(device_->id()));
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

LaneLink Group::link_of(const Signature& call) {
  LaneLink found{.rank = ranks().rank, .size = ranks().size()};
  if (call.kind == Kind::kSend || call.kind == Kind::kRecv) {
    found.rank = call.kind == Kind::kSend ? 0 : 1;
    found.size = 2;
  }
  std::unique_ptr<Link>& link = links_[lane_key(call)];
  if (link == nullptr) {
    link = std::make_unique<Link>(transport_.device());
    transport_.watch().add(*link);
  }
  found.link = link.get();
  return found;
}

}  // namespace tessera::nccl::TSR_CUDA
