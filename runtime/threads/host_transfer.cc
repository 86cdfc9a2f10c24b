#include "runtime/threads/host_transfer.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/copy_strip.h"
#include "kernels/fold.h"
#include "kernels/parallel_loop.h"
#include "runtime/call/peer_rows.h"
#include "runtime/plan/box_parts.h"

namespace tessera {
namespace {

using Kind = CollectiveCall::Kind;

// Up to here a copy costs less than a second rendezvous.
constexpr std::int64_t kStagedBytes = 16 * 1024;

// Work of so many bytes is worth waking a second thread for.
constexpr std::int64_t kSharedBytes = 1024 * 1024;

// f(begin, end) over elements, cut on cache lines where several threads share them.
template <class F>
void in_ranges(int threads, std::int64_t elements, std::int64_t element_bytes, const F& f) {
  constexpr std::int64_t kGrain = 1024;
  const int used = elements * element_bytes < kSharedBytes ? 1 : threads;
  kernels::parallel_ranges(used, elements, kGrain, 1, [&](std::int64_t begin, std::int64_t end) {
    f(begin, end);
    kernels::finish_streams();
  });
}

/// A stretch of a larger target.
struct Rows {
  std::byte* to = nullptr;
  std::int64_t bytes = 0;
  std::int64_t whole_bytes = 0;
};

// Past the caches where the whole target is larger than they are.
void copy_rows(const Rows& rows, const std::byte* from, int threads) {
  if (rows.to == from) return;
  const kernels::Stores stores = kernels::stores_for(rows.whole_bytes);
  in_ranges(threads, rows.bytes, 1, [&](std::int64_t begin, std::int64_t end) {
    kernels::copy_strip({.row_bytes = end - begin}, from + begin, rows.to + begin, stores);
  });
}

// Elements [begin, begin + count) of every rank's source, counted from the first one's.
struct Summands {
  DType dtype = DType::kF32;
  Fold how = {};
  std::int64_t begin = 0, count = 0;
};
struct FoldContext {
  kernels::Stores stores = kernels::Stores::kCached;
  int threads = 1;
};

void copy_bytes(std::byte* dst, const std::byte* src, std::int64_t bytes) {
  if (bytes > 0 && dst != src) std::memcpy(dst, src, static_cast<std::size_t>(bytes));
}

std::vector<const std::byte*> sources_of(ThreadsRound& round, std::int64_t offset_bytes) {
  std::vector<const std::byte*> sources;
  sources.reserve(round.parties().size());
  for (int i = 0; i < round.size(); ++i) sources.push_back(round.post(i).source + offset_bytes);
  return sources;
}

// Folds to all targets; each is given by its element `begin`.
void fold_rows(ThreadsRound& round, const Summands& what, std::span<std::byte* const> targets,
               const FoldContext& context) {
  const std::int64_t element = size_of(what.dtype);
  in_ranges(context.threads, what.count, element, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::byte*> to;
    for (std::byte* target : targets) to.push_back(target + begin * element);
    fold_to(what.dtype, what.how, sources_of(round, (what.begin + begin) * element),
            {to, end - begin, context.stores});
  });
}

bool folds_all(const Array& in) { return in.num_bytes() <= kFoldAllBytes; }

void all_reduce(ThreadsRound& round, int party, int threads) {
  const CollectiveCall& call = *round.post(party).call;
  const DType dtype = call.in().dtype();
  const std::int64_t count = call.in().num_elements();
  const Fold how = fold_by(call.reduce(), call.divisor());
  if (folds_all(call.in())) {
    fold(dtype, how, sources_of(round, 0), call.out().bytes(), count);
    return;
  }
  // Nobody else reads or writes this slice of any rank's arrays, so in and out may be one array.
  const Slice slice = slice_of(count, {party, round.size()});
  const std::int64_t at = slice.begin * size_of(dtype);
  std::vector<std::byte*> targets;
  for (int i = 0; i < round.size(); ++i) {
    targets.push_back((i == party ? call.out().bytes() : round.post(i).target) + at);
  }
  fold_rows(round, {dtype, how, slice.begin, slice.end - slice.begin}, targets,
            {kernels::stores_for(call.in().num_bytes()), threads});
}

void all_gather(ThreadsRound& round, int party, int threads) {
  ThreadsPost& own = round.post(party);
  const std::int64_t row = row_bytes(own.call->out());
  std::byte* at = own.call->out().bytes();
  for (int i = 0; i < round.size(); ++i) {
    const std::int64_t bytes = own.signature.recv_splits[static_cast<std::size_t>(i)] * row;
    // The own rows come from the array itself: where they lie in place already, nothing is to copy.
    copy_rows({at, bytes, own.call->out().num_bytes()},
              i == party ? own.call->in().bytes() : round.post(i).source, threads);
    at += bytes;
  }
}

void reduce_scatter(ThreadsRound& round, int party, int threads) {
  ThreadsPost& own = round.post(party);
  const CollectiveCall& call = *own.call;
  const std::int64_t row_elements = row_bytes(call.in()) / size_of(call.in().dtype());
  std::byte* to = call.out().bytes();
  fold_rows(
      round,
      {call.in().dtype(), fold_by(call.reduce(), call.divisor()),
       sum_before(own.signature.send_splits, party) * row_elements, call.out().num_elements()},
      {&to, 1}, {kernels::stores_for(call.out().num_bytes()), threads});
}

void all_to_all(ThreadsRound& round, int party, int threads) {
  ThreadsPost& own = round.post(party);
  const std::int64_t row = row_bytes(own.call->out());
  std::byte* at = own.call->out().bytes();
  for (int i = 0; i < round.size(); ++i) {
    ThreadsPost& peer = round.post(i);
    const std::int64_t bytes = own.signature.recv_splits[static_cast<std::size_t>(i)] * row;
    copy_rows({at, bytes, own.call->out().num_bytes()},
              peer.source + sum_before(peer.signature.send_splits, party) * row, threads);
    at += bytes;
  }
}

void exchange(ThreadsRound& round, int party, int threads) {
  const CollectiveCall& call = *round.post(party).call;
  std::vector<const std::byte*> sources;
  for (std::size_t i = 0; i < call.parts().size(); ++i) {
    const ExchangePart& part = call.parts()[i];
    if (part.boxes->into.empty()) continue;
    sources.clear();
    for (const Transfer& box : part.boxes->into) {
      sources.push_back(round.post(static_cast<int>(box.peer)).parts[i]);
    }
    if (part.boxes->landing != nullptr) {
      part.boxes->landing->land(sources, part.out, threads);
    } else {
      landing_of(*part.boxes, view_of(part.out.shape())).land(sources, part.out, threads);
    }
  }
}

// What others may read, or null.
const Array* readable(const CollectiveCall& call, const GroupPlace& place) {
  switch (call.kind()) {
    case Kind::kBarrier:
    case Kind::kRecv:
      return nullptr;
    case Kind::kBroadcast:
      return call.root() == place.rank ? &call.out() : nullptr;
    default:
      return &call.in();
  }
}

bool gives_others(const CollectiveCall& call, int self) {
  return std::ranges::any_of(call.parts(), [&](const ExchangePart& part) {
    return std::ranges::any_of(part.boxes->from,
                               [&](const Transfer& box) { return box.peer != self; });
  });
}

void publish_parts(ThreadsPost& post, const GroupPlace& place) {
  const CollectiveCall& call = *post.call;
  std::int64_t bytes = 0;
  for (const ExchangePart& part : call.parts()) {
    post.parts.push_back(part.in.is_null() ? nullptr : part.in.bytes());
    if (!part.in.is_null()) bytes += part.in.num_bytes();
  }
  if (!gives_others(call, place.rank)) return;
  post.read_by_others = bytes > kStagedBytes;
  if (post.read_by_others) return;
  post.staged = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
  std::byte* at = post.staged.get();
  for (std::size_t i = 0; i < call.parts().size(); ++i) {
    const Array& in = call.parts()[i].in;
    if (in.is_null()) continue;
    copy_bytes(at, in.bytes(), in.num_bytes());
    post.parts[i] = at;
    at += in.num_bytes();
  }
}

}  // namespace

void publish_peer_buffer(ThreadsPost& post, const GroupPlace& place) {
  const CollectiveCall& call = *post.call;
  const Array& buffer = peer_buffer(call);
  post.target = buffer.bytes();
  post.rows = buffer.size(0);
  post.read_by_others = place.size > 1;
}

void transfer_peer_rows(ThreadsRound& round, int party, KernelContext& ctx, Stream& stream) {
  std::vector<kernels::PeerBuffer> buffers;
  buffers.reserve(static_cast<std::size_t>(round.size()));
  for (int i = 0; i < round.size(); ++i) {
    buffers.push_back({round.post(i).target, round.post(i).rows});
  }
  move_peer_rows(ctx, *round.post(party).call, buffers, stream);
  kernels::finish_streams();
}

void publish_data(ThreadsPost& post, const GroupPlace& place) {
  const CollectiveCall& call = *post.call;
  if (call.kind() == Kind::kExchange) return publish_parts(post, place);
  if (call.kind() == Kind::kPeerRows) return publish_peer_buffer(post, place);
  const Array* source = readable(call, place);
  if (source == nullptr || source->num_bytes() == 0) return;
  post.source = source->bytes();
  if (place.size == 1 && call.kind() != Kind::kSend) return;  // only a recv comes later
  const std::int64_t bytes = source->num_bytes();
  const bool staged = call.kind() == Kind::kAllReduce ? folds_all(*source) : bytes <= kStagedBytes;
  if (staged) {
    post.staged = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
    copy_bytes(post.staged.get(), post.source, bytes);
    post.source = post.staged.get();
  } else {
    post.read_by_others = true;
    if (call.kind() == Kind::kAllReduce) post.target = call.out().bytes();
  }
}

void transfer(ThreadsRound& round, int party, int threads) {
  const CollectiveCall& call = *round.post(party).call;
  const auto take_whole = [&](int from) {
    const std::int64_t bytes = call.out().num_bytes();
    copy_rows({call.out().bytes(), bytes, bytes}, round.post(from).source, threads);
  };
  switch (call.kind()) {
    case Kind::kBarrier:
    case Kind::kSend:
      return;
    case Kind::kAllReduce:
      return all_reduce(round, party, threads);
    case Kind::kAllGather:
      return all_gather(round, party, threads);
    case Kind::kReduceScatter:
      return reduce_scatter(round, party, threads);
    case Kind::kAllToAll:
      return all_to_all(round, party, threads);
    case Kind::kBroadcast:
      if (call.root() != party) take_whole(call.root());
      return;
    case Kind::kRecv:
      return take_whole(0);
    case Kind::kExchange:
      return exchange(round, party, threads);
    case Kind::kPeerRows: {
      KernelContext ctx{.threads = threads};
      return transfer_peer_rows(round, party, ctx, cpu_device().comm());
    }
  }
}

}  // namespace tessera
