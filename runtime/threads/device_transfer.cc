#include "runtime/threads/device_transfer.h"

#include <utility>
#include <vector>

#include "kernels/box_moves.h"
#include "kernels/fold.h"
#include "runtime/plan/box_parts.h"
#include "runtime/threads/host_transfer.h"

namespace tessera {
namespace {

using Kind = CollectiveCall::Kind;
using kernels::BoxCut;
using kernels::BoxMoves;

/// One party's share of a round.
class DeviceShare {
 public:
  DeviceShare(ThreadsRound& round, int party)
      : round_(round), party_(party), own_(round.post(party)), call_(*own_.call) {}

  void all_reduce();
  void all_gather();
  void reduce_scatter();
  void all_to_all();
  void take_whole(int from);
  void exchange();

 private:
  const std::byte* source(int party) const { return round_.post(party).source; }
  std::vector<const std::byte*> sources() const {
    std::vector<const std::byte*> all;
    for (int i = 0; i < round_.size(); ++i) all.push_back(source(i));
    return all;
  }
  /// One stretch, folded from all parties.
  void add_fold(BoxMoves& moves, const kernels::BoxRows& to, std::int64_t first) const {
    std::vector<BoxCut> cuts;
    for (int i = 0; i < round_.size(); ++i) cuts.push_back({.source = i, .first = first});
    moves.add(to, cuts);
  }
  /// One stretch, copied from a party.
  static void add_copy(BoxMoves& moves, std::int64_t to, const BoxCut& from, std::int64_t count) {
    moves.add({.first = to, .row_elements = count}, {&from, 1});
  }
  /// Of the dtype of `out`.
  void run(const BoxMoves& moves, kernels::MovedArrays arrays, const Array& out,
           const std::optional<Fold>& how = std::nullopt);
  /// Parts whose moves are one launch.
  struct Bucket {
    DType dtype;
    std::optional<Fold> fold;
    std::vector<std::size_t> parts;
  };
  std::vector<Bucket> buckets() const;
  void run(const Bucket& bucket);

  ThreadsRound& round_;
  int party_;
  ThreadsPost& own_;
  const CollectiveCall& call_;
};

void DeviceShare::run(const BoxMoves& moves, kernels::MovedArrays arrays, const Array& out,
                      const std::optional<Fold>& how) {
  KernelContext ctx{.device = own_.device, .allocator = out.storage()->allocator()};
  arrays.dtype = out.dtype();
  Array kept = kernels::move_boxes(ctx, moves, arrays, how, own_.device->comm());
  if (!kept.is_null()) own_.kept.push_back(std::move(kept));
}

// Nobody else reads or writes this slice of any rank's arrays, so in and out may be one array.
void DeviceShare::all_reduce() {
  const Slice slice = slice_of(call_.in().num_elements(), {party_, round_.size()});
  std::vector<std::byte*> targets;
  for (int i = 0; i < round_.size(); ++i) {
    targets.push_back(i == party_ ? call_.out().bytes() : round_.post(i).target);
  }
  BoxMoves moves(size_of(call_.in().dtype()));
  add_fold(
      moves,
      {.first = slice.begin, .row_elements = slice.end - slice.begin, .num_targets = round_.size()},
      slice.begin);
  run(moves, {sources(), targets}, call_.out(), fold_by(call_.reduce(), call_.divisor()));
}

void DeviceShare::all_gather() {
  const std::int64_t element = size_of(call_.out().dtype()), row = row_bytes(call_.out()) / element;
  std::vector<const std::byte*> from = sources();
  from[static_cast<std::size_t>(party_)] = call_.in().bytes();
  BoxMoves moves(element);
  std::int64_t at = 0;
  for (int i = 0; i < round_.size(); ++i) {
    const std::int64_t count = own_.signature.recv_splits[static_cast<std::size_t>(i)] * row;
    const bool in_place = i == party_ && call_.in().bytes() == call_.out().bytes() + at * element;
    if (!in_place) add_copy(moves, at, {.source = i}, count);
    at += count;
  }
  std::byte* to = call_.out().bytes();
  run(moves, {from, {&to, 1}}, call_.out());
}

void DeviceShare::reduce_scatter() {
  const std::int64_t element = size_of(call_.in().dtype()), row = row_bytes(call_.in()) / element;
  BoxMoves moves(element);
  add_fold(moves, {.row_elements = call_.out().num_elements()},
           sum_before(own_.signature.send_splits, party_) * row);
  std::byte* to = call_.out().bytes();
  run(moves, {sources(), {&to, 1}}, call_.out(), fold_by(call_.reduce(), call_.divisor()));
}

void DeviceShare::all_to_all() {
  const std::int64_t element = size_of(call_.out().dtype()), row = row_bytes(call_.out()) / element;
  BoxMoves moves(element);
  std::int64_t at = 0;
  for (int i = 0; i < round_.size(); ++i) {
    const std::int64_t count = own_.signature.recv_splits[static_cast<std::size_t>(i)] * row;
    const std::int64_t before = sum_before(round_.post(i).signature.send_splits, party_);
    add_copy(moves, at, {.source = i, .first = before * row}, count);
    at += count;
  }
  std::byte* to = call_.out().bytes();
  run(moves, {sources(), {&to, 1}}, call_.out());
}

void DeviceShare::take_whole(int from) {
  own_.device->copy(call_.out().bytes(), source(from),
                    static_cast<std::size_t>(call_.out().num_bytes()), own_.device->comm());
}

std::vector<DeviceShare::Bucket> DeviceShare::buckets() const {
  std::vector<Bucket> all;
  for (std::size_t i = 0; i < call_.parts().size(); ++i) {
    const ExchangePart& part = call_.parts()[i];
    if (part.boxes->into.empty()) continue;
    const DType dtype = part.out.dtype();
    const std::optional<Fold> fold = fold_of(*part.boxes);
    const auto same = std::ranges::find_if(
        all, [&](const Bucket& each) { return each.dtype == dtype && each.fold == fold; });
    if (same == all.end()) {
      all.push_back({dtype, fold, {i}});
    } else {
      same->parts.push_back(i);
    }
  }
  return all;
}

void DeviceShare::run(const Bucket& bucket) {
  const std::int64_t element = size_of(bucket.dtype);
  BoxMoves merged(element);
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (const std::size_t i : bucket.parts) {
    const ExchangePart& part = call_.parts()[i];
    std::shared_ptr<const Landing> landing = part.boxes->landing;
    if (landing == nullptr) {
      landing = std::make_shared<const Landing>(landing_of(*part.boxes, view_of(part.out.shape())));
    }
    const Landing::DeviceMoves& device = landing->device_moves(element);
    const std::int64_t first_source = std::ssize(from), first_target = std::ssize(to);
    for (const std::size_t box : device.first_boxes) {
      from.push_back(round_.post(static_cast<int>(part.boxes->into[box].peer)).parts[i]);
    }
    to.push_back(part.out.bytes());
    if (bucket.parts.size() == 1 && part.boxes->landing != nullptr) {
      return run(device.moves, {from, to}, part.out, bucket.fold);
    }
    merged.append(device.moves, first_source, first_target);
  }
  run(merged, {from, to}, call_.parts()[bucket.parts.front()].out, bucket.fold);
}

void DeviceShare::exchange() {
  for (const Bucket& bucket : buckets()) run(bucket);
}

void publish_arrays(ThreadsPost& post, const GroupPlace& place) {
  const CollectiveCall& call = *post.call;
  for (const ExchangePart& part : call.parts()) {
    post.parts.push_back(part.in.is_null() ? nullptr : part.in.bytes());
  }
  if (!call.in().is_null()) post.source = call.in().bytes();
  if (call.kind() == Kind::kBroadcast) post.source = call.out().bytes();
  if (call.kind() == Kind::kAllReduce) post.target = call.out().bytes();
  post.read_by_others =
      call.kind() == Kind::kSend || (place.size > 1 && call.kind() != Kind::kRecv);
}

}  // namespace

void publish_on_device(ThreadsPost& post, const GroupPlace& place) {
  const CollectiveCall& call = *post.call;
  if (call.kind() == Kind::kPeerRows) {
    publish_peer_buffer(post, place);
  } else {
    publish_arrays(post, place);
  }
  post.ready = post.device->record(post.device->compute());
}

void transfer_on_device(ThreadsRound& round, int party) {
  ThreadsPost& own = round.post(party);
  Device& device = *own.device;
  for (int i = 0; i < round.size(); ++i) {
    const ThreadsPost& post = round.post(i);
    if (post.device->id() != device.id()) device.reach(*post.device);
    device.wait(device.comm(), post.ready);
  }
  DeviceShare share(round, party);
  switch (own.call->kind()) {
    case Kind::kBarrier:
    case Kind::kSend:
      break;
    case Kind::kAllReduce:
      share.all_reduce();
      break;
    case Kind::kAllGather:
      share.all_gather();
      break;
    case Kind::kReduceScatter:
      share.reduce_scatter();
      break;
    case Kind::kAllToAll:
      share.all_to_all();
      break;
    case Kind::kBroadcast:
      if (own.call->root() != party) share.take_whole(own.call->root());
      break;
    case Kind::kRecv:
      share.take_whole(0);
      break;
    case Kind::kExchange:
      share.exchange();
      break;
    case Kind::kPeerRows: {
      KernelContext ctx{.device = &device};
      transfer_peer_rows(round, party, ctx, device.comm());
      break;
    }
  }
  own.moved = device.record(device.comm());
}

void finish_on_device(ThreadsRound& round, int party) {
  ThreadsPost& own = round.post(party);
  Device& device = *own.device;
  for (int i = 0; i < round.size(); ++i) {
    if (i == party || own.read_by_others) device.wait(device.compute(), round.post(i).moved);
  }
  own.kept.clear();
}

}  // namespace tessera
