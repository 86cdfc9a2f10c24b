#include <algorithm>
#include <cstddef>

#include "runtime/nccl/device_call.h"
#include "runtime/plan/packed_fold.h"

namespace tessera::nccl::TSR_CUDA {
namespace {

using Kind = CollectiveCall::Kind;

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

}  // namespace

DeviceCall::DeviceCall(const CollectiveCall& call, const Signature& signature,
                       const GroupPlace& group, Link& link, ReduceBy reduce)
    : call_(call), signature_(signature), group_(group), link_(link) {
  const bool reduces = call_.kind() == Kind::kAllReduce || call_.kind() == Kind::kReduceScatter;
  const std::vector<std::int64_t>& rows = signature_.send_splits;
  const bool even = std::all_of(rows.begin(), rows.end(), [&](auto n) { return n == rows[0]; });
  if (reduce == ReduceBy::kNative && reduces && even) {
    native_ = native_reduction(signature_.dtype, how(), group_.size);
  }
  const bool whole =
      call_.kind() == Kind::kAllReduce && call_.in().num_bytes() <= kFoldAllBytes &&
      DeviceSide::aligned(group_.size * call_.in().num_bytes()) <= call_.pack_bytes();
  if (reduces && !native_ && !whole) {
    slices_ = slices_to_fold(call_, signature_, group_.size);
    for (const Slice& slice : slices_) longest_ = std::max(longest_, slice.end - slice.begin);
    const std::int64_t share = call_.pack_bytes() / std::max(1, group_.size - 1);
    const std::int64_t most = share / DeviceSide::aligned(1) * DeviceSide::aligned(1) / element();
    round_elements_ = std::max<std::int64_t>(1, std::min(longest_, most));
  }
  if (call_.kind() == Kind::kExchange) {
    rounds_.emplace(call_.parts(), group_, call_.pack_bytes());
    if (rounds_->is_one()) {
      rounds_.reset();
      boxes_.emplace(call_.parts(), group_.rank);
    }
  }
  side_ = std::make_unique<DeviceSide>(call_, buffer_bytes(), &link_.stream());
}

std::int64_t DeviceCall::buffer_bytes() const {
  if (boxes_) return boxes_->buffer_bytes();
  if (rounds_) return rounds_->buffer_bytes();
  if (!slices_.empty()) {
    return (group_.size - 1) * DeviceSide::aligned(round_elements_ * element());
  }
  const bool folds_whole = call_.kind() == Kind::kAllReduce && !native_;
  return folds_whole ? DeviceSide::aligned(group_.size * call_.in().num_bytes()) : 0;
}

void DeviceCall::give() {
  side_->begin();
  side_->note_given();
  switch (call_.kind()) {
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
    case Kind::kPeerRows:
      window_->give(call_, told_);
      break;
    case Kind::kBarrier:
      break;
  }
  side_->close();
}

// The sender is rank 0 of the link, the receiver rank 1.
void DeviceCall::pair() {
  Letters letters;
  if (call_.kind() == Kind::kSend) {
    letters.send(1, call_.in().bytes(), call_.in().num_bytes());
  } else {
    letters.recv(0, call_.out().bytes(), call_.out().num_bytes());
  }
  letters.give(link_);
}

void DeviceCall::fold_slices(std::byte* out) {
  const Slice& own = slices_[static_cast<std::size_t>(group_.rank)];
  const std::int64_t round = round_elements_;
  std::vector<std::byte*> buffers(slices_.size());
  for (int peer = 0; peer < group_.size; ++peer) {
    if (peer == group_.rank) continue;
    buffers[static_cast<std::size_t>(peer)] = side_->take(round * element());
  }
  const auto part_of = [&](const Slice& slice, std::int64_t begin) {
    return Slice{std::min(slice.begin + begin, slice.end),
                 std::min(slice.begin + begin + round, slice.end)};
  };
  for (std::int64_t begin = 0; begin < longest_; begin += round) {
    const Slice mine = part_of(own, begin);
    const std::int64_t count = mine.end - mine.begin;
    Letters letters;
    std::vector<const std::byte*> summands;
    for (int peer = 0; peer < group_.size; ++peer) {
      const auto at = static_cast<std::size_t>(peer);
      if (peer == group_.rank) {
        summands.push_back(call_.in().bytes() + mine.begin * element());
        continue;
      }
      const Slice theirs = part_of(slices_[at], begin);
      letters.send(peer, call_.in().bytes() + theirs.begin * element(),
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
  const auto count = static_cast<std::size_t>(call_.out().num_elements());
  if (count == 0) return;
  const auto [type, op] = *native_;
  link_.give([&, type = type, op = op](ncclComm_t comm) {
    const cudaStream_t stream = link_.stream().handle();
    if (call_.kind() == Kind::kAllReduce) {
      check(ncclAllReduce(call_.in().bytes(), call_.out().bytes(), count, type, op, comm, stream),
            comm, "ncclAllReduce");
    } else {
      check(
          ncclReduceScatter(call_.in().bytes(), call_.out().bytes(), count, type, op, comm, stream),
          comm, "ncclReduceScatter");
    }
  });
}

void DeviceCall::all_reduce() {
  if (native_) return reduce_natively();
  const std::int64_t bytes = call_.in().num_bytes();
  if (bytes == 0) return;
  if (slices_.empty()) {
    std::byte* const all = side_->take(group_.size * bytes);
    link_.give([&](ncclComm_t comm) {
      check(ncclAllGather(call_.in().bytes(), all, static_cast<std::size_t>(bytes), ncclUint8, comm,
                          link_.stream().handle()),
            comm, "ncclAllGather");
    });
    std::vector<const std::byte*> summands;
    for (int rank = 0; rank < group_.size; ++rank) summands.push_back(all + rank * bytes);
    return side_->fold(summands, call_.out().bytes(), call_.in().num_elements(), signature_.dtype,
                       how());
  }
  const Slice& own = slices_[static_cast<std::size_t>(group_.rank)];
  std::byte* const out = call_.out().bytes();
  fold_slices(out + own.begin * element());
  Letters letters;
  for (int peer = 0; peer < group_.size; ++peer) {
    if (peer == group_.rank) continue;
    const Slice& theirs = slices_[static_cast<std::size_t>(peer)];
    letters.send(peer, out + own.begin * element(), (own.end - own.begin) * element());
    letters.recv(peer, out + theirs.begin * element(), (theirs.end - theirs.begin) * element());
  }
  letters.give(link_);
}

void DeviceCall::reduce_scatter() {
  if (native_) return reduce_natively();
  fold_slices(call_.out().bytes());
}

void DeviceCall::all_gather() {
  const std::int64_t row = row_bytes(call_.out());
  std::byte* const out = call_.out().bytes();
  const std::vector<std::int64_t>& rows = signature_.recv_splits;
  std::byte* const own = out + sum_before(rows, group_.rank) * row;
  const bool even = std::all_of(rows.begin(), rows.end(), [&](auto n) { return n == rows[0]; });
  if (even) {
    if (call_.in().num_bytes() == 0) return;
    return link_.give([&](ncclComm_t comm) {
      check(ncclAllGather(call_.in().bytes(), out, static_cast<std::size_t>(call_.in().num_bytes()),
                          ncclUint8, comm, link_.stream().handle()),
            comm, "ncclAllGather");
    });
  }
  Letters letters;
  for (int peer = 0; peer < group_.size; ++peer) {
    if (peer == group_.rank) continue;
    letters.send(peer, call_.in().bytes(), call_.in().num_bytes());
    letters.recv(peer, out + sum_before(rows, peer) * row,
                 rows[static_cast<std::size_t>(peer)] * row);
  }
  letters.give(link_);
  if (call_.in().num_bytes() > 0 && own != call_.in().bytes()) {
    side_->copy(own, call_.in().bytes(), call_.in().num_bytes());
  }
}

void DeviceCall::all_to_all() {
  const std::int64_t row = row_bytes(call_.out());
  Letters letters;
  for (int peer = 0; peer < group_.size; ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    const std::byte* from = call_.in().bytes() + sum_before(signature_.send_splits, peer) * row;
    std::byte* to = call_.out().bytes() + sum_before(signature_.recv_splits, peer) * row;
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
  const std::int64_t bytes = call_.out().num_bytes();
  if (bytes == 0) return;
  link_.give([&](ncclComm_t comm) {
    check(ncclBroadcast(call_.out().bytes(), call_.out().bytes(), static_cast<std::size_t>(bytes),
                        ncclUint8, call_.root(), comm, link_.stream().handle()),
          comm, "ncclBroadcast");
  });
}

std::vector<std::int64_t> DeviceCall::told_to(int peer) const {
  if (call_.kind() == Kind::kPeerRows) return {peer_buffer(call_).size(0)};
  if (!boxes_) return {kNoRoom, 0};
  return {boxes_->incoming_bytes(), boxes_->begin_of(peer)};
}

// The first meeting tells that all boxes have come, the second that all windows are free again.
void DeviceCall::put_boxes() {
  std::vector<std::byte*> places;
  for (int peer = 0; peer < group_.size; ++peer) {
    places.push_back(window_->at(peer) + told_[static_cast<std::size_t>(peer)]);
  }
  boxes_->lie_in(window_->at(group_.rank), places);
  window_->open();
  side_->heed(window_->broken_off());
  boxes_->pack(*side_);
  window_->meet();
  boxes_->land(*side_);
  window_->meet();
}

void DeviceCall::exchange() {
  if (window_ != nullptr) return put_boxes();
  if (rounds_) {
    return rounds_->run(
        *side_, [&](std::span<const RoundMessage> sent, std::span<const RoundMessage> received) {
          Letters letters;
          for (const RoundMessage& each : sent) letters.send(each.peer, each.data, each.bytes);
          for (const RoundMessage& each : received) letters.recv(each.peer, each.data, each.bytes);
          letters.give(link_);
        });
  }
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

}  // namespace tessera::nccl::TSR_CUDA
