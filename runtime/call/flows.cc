#include "runtime/call/flows.h"

#include <utility>

namespace tessera {
namespace {

using Kind = CollectiveCall::Kind;

/// Bytes to, or from, each rank of a group.
class ByRank {
 public:
  explicit ByRank(const GroupPlace& place)
      : own_(place.rank), bytes_(static_cast<std::size_t>(place.size)) {}
  void add(std::int64_t rank, std::int64_t bytes) {
    if (rank != own_) bytes_[static_cast<std::size_t>(rank)] += bytes;
  }
  template <class BytesOf>
  void add_all(BytesOf&& bytes_of) {
    for (std::size_t rank = 0; rank < bytes_.size(); ++rank) {
      add(static_cast<std::int64_t>(rank), bytes_of(static_cast<int>(rank)));
    }
  }
  std::vector<Flow> flows() const {
    std::vector<Flow> flows;
    for (std::size_t rank = 0; rank < bytes_.size(); ++rank) {
      if (bytes_[rank] > 0) flows.push_back({static_cast<std::int64_t>(rank), bytes_[rank]});
    }
    return flows;
  }

 private:
  std::int64_t own_;
  std::vector<std::int64_t> bytes_;
};

void add_boxes(ByRank& flows, std::span<const Transfer> boxes, std::int64_t element) {
  for (const Transfer& box : boxes) flows.add(box.peer, box.num_elements() * element);
}

/// Bytes to each rank, and as many from it.
void add_all_reduce(const CollectiveCall& call, const GroupPlace& place, ByRank& flows) {
  if (call.in().num_bytes() <= kFoldAllBytes) {
    return flows.add_all([&](int) { return call.in().num_bytes(); });
  }
  // Each rank gets the others' summands of its slice, and gives them the folded slice.
  const auto slice_bytes = [&](int rank) {
    const Slice slice = slice_of(call.in().num_elements(), {rank, place.size});
    return (slice.end - slice.begin) * size_of(call.in().dtype());
  };
  const std::int64_t own = slice_bytes(place.rank);
  flows.add_all([&](int rank) { return slice_bytes(rank) + own; });
}

void add_peer_rows(const CollectiveCall& call, const GroupPlace& place, ByRank& sent,
                   ByRank& received) {
  const PeerRowCounts counts = peer_row_counts(call, place);
  const std::int64_t row = row_bytes(peer_buffer(call));
  const bool puts = call.as<PeerRowsCall>().rows->way == PeerRows::Way::kPut;
  const auto add = [&](ByRank& flows, const std::vector<std::int64_t>& rows) {
    flows.add_all([&](int rank) { return rows[static_cast<std::size_t>(rank)] * row; });
  };
  add(puts ? sent : received, counts.of_tokens);
  add(puts ? received : sent, counts.of_buffer);
}

/// The same on all machines and in all processes, unlike a container's hash. Source: SplitMix64.
std::uint64_t mixed(std::uint64_t state, std::uint64_t value) {
  std::uint64_t z = state + value + 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

// Collectives of a group share a lane; so do the messages of one ordered pair.
std::uint64_t number_of(const CollectiveCall& call, const CallPlace& place) {
  std::uint64_t number = 0;
  const auto mix = [&](std::int64_t value) {
    number = mixed(number, static_cast<std::uint64_t>(value));
  };
  for (const std::int64_t rank : place.ranks) mix(rank);
  mix(-1);
  if (is_message(call.kind())) {
    const bool sends = call.kind() == Kind::kSend;
    mix(sends ? place.group.rank : call.root());
    mix(sends ? call.root() : place.group.rank);
  }
  mix(-2);
  mix(static_cast<std::int64_t>(place.sequence));
  return number;
}

void name_by_world_rank(std::vector<Flow>& flows, std::span<const std::int64_t> ranks) {
  for (Flow& flow : flows) flow.rank = ranks[static_cast<std::size_t>(flow.rank)];
}

}  // namespace

Flows flows_of(const CollectiveCall& call, const GroupPlace& place) {
  ByRank sent(place), received(place);
  const auto split = [](const std::vector<std::int64_t>& splits, int rank) {
    return splits[static_cast<std::size_t>(rank)];
  };
  switch (call.kind()) {
    case Kind::kBarrier:
      break;
    case Kind::kAllReduce:
      add_all_reduce(call, place, sent);
      received = sent;
      break;
    case Kind::kAllGather: {
      const std::int64_t row = row_bytes(call.out());
      sent.add_all([&](int) { return call.in().num_bytes(); });
      received.add_all([&](int rank) { return split(call.as<AllGatherCall>().rows, rank) * row; });
      break;
    }
    case Kind::kReduceScatter: {
      const std::int64_t row = row_bytes(call.in());
      sent.add_all([&](int rank) { return split(call.as<ReduceScatterCall>().rows, rank) * row; });
      received.add_all([&](int) { return call.out().num_bytes(); });
      break;
    }
    case Kind::kAllToAll: {
      const std::int64_t row = row_bytes(call.in());
      sent.add_all(
          [&](int rank) { return split(call.as<AllToAllCall>().send_splits, rank) * row; });
      received.add_all(
          [&](int rank) { return split(call.as<AllToAllCall>().recv_splits, rank) * row; });
      break;
    }
    case Kind::kBroadcast:
      if (call.root() == place.rank) sent.add_all([&](int) { return call.out().num_bytes(); });
      received.add(call.root(), call.out().num_bytes());
      break;
    case Kind::kSend:
      sent.add(call.root(), call.in().num_bytes());
      break;
    case Kind::kRecv:
      received.add(call.root(), call.out().num_bytes());
      break;
    case Kind::kExchange:
      for (const ExchangePart& part : call.parts()) {
        add_boxes(sent, part.boxes->from, size_of(dtype_of(part)));
        add_boxes(received, part.boxes->into, size_of(dtype_of(part)));
      }
      break;
    case Kind::kPeerRows:
      add_peer_rows(call, place, sent, received);
      break;
  }
  return {sent.flows(), received.flows()};
}

EventTrace trace_of(const CollectiveCall& call, const CallPlace& place) {
  Flows flows = flows_of(call, place.group);
  name_by_world_rank(flows.sent, place.ranks);
  name_by_world_rank(flows.received, place.ranks);
  return {.call = number_of(call, place),
          .sent = std::move(flows.sent),
          .received = std::move(flows.received)};
}

}  // namespace tessera
