// Who sends how much to whom, against what traffic_of counts.
#include "runtime/call/flows.h"

#include <map>

#include "tests/runtime/ranks.h"

namespace tessera {
namespace {

using Kind = CollectiveCall::Kind;
using Rows = std::vector<std::int64_t>;

Array rows_of(std::int64_t rows) { return Array::zeros({rows, 3}, DType::kF32); }

/// Rows that `from` sends to `to`: uneven, some none.
std::int64_t rows_between(int from, int to) { return (from * 3 + to * 5) % 4; }

/// A prepared call of `kind` as `place`'s rank makes it; calls of all ranks fit together.
CollectiveCall call_of(Kind kind, const GroupPlace& place) {
  CollectiveCall call;
  const int last = place.size - 1;
  Rows out_rows, in_rows, own_rows;
  for (int i = 0; i < place.size; ++i) {
    out_rows.push_back(rows_between(place.rank, i));
    in_rows.push_back(rows_between(i, place.rank));
    own_rows.push_back(i == last ? 0 : i + 1);
  }
  const std::int64_t own = own_rows[static_cast<std::size_t>(place.rank)];
  const auto sum = [](const Rows& rows) { return std::accumulate(rows.begin(), rows.end(), 0LL); };
  switch (kind) {
    case Kind::kAllReduce:
      call.of = AllReduceCall{.in = Array::zeros({1000}, DType::kF64),
                              .out = Array::zeros({1000}, DType::kF64)};
      break;
    case Kind::kAllGather:
      call.of = AllGatherCall{.in = rows_of(own), .out = rows_of(sum(own_rows)), .rows = own_rows};
      break;
    case Kind::kReduceScatter:
      call.of =
          ReduceScatterCall{.in = rows_of(sum(own_rows)), .out = rows_of(own), .rows = own_rows};
      break;
    case Kind::kAllToAll:
      call.of = AllToAllCall{.in = rows_of(sum(out_rows)),
                             .out = rows_of(sum(in_rows)),
                             .send_splits = out_rows,
                             .recv_splits = in_rows};
      break;
    case Kind::kBroadcast:
      call.of = BroadcastCall{.in_out = rows_of(7), .root = 1};
      break;
    case Kind::kExchange: {
      ExchangeBoxes boxes;
      const auto box = [](int peer, std::int64_t rows) {
        return Transfer{.peer = peer, .dims = {{{.size = rows}}, {{.size = 3}}}};
      };
      for (int i = 0; i < place.size; ++i) {
        boxes.from.push_back(box(i, rows_between(place.rank, i)));
        boxes.from.push_back(box(i, 1));  // two boxes for one peer
        boxes.into.push_back(box(i, rows_between(i, place.rank) + 1));
        boxes.cut_from.push_back({8, 3});
      }
      call.of = ExchangeCall{
          .parts = {{rows_of(8), rows_of(8), std::make_shared<const ExchangeBoxes>(boxes)}}};
      break;
    }
    default:
      break;
  }
  throw_if_error(prepare(call, place));
  return call;
}

std::int64_t bytes_of(const std::vector<Flow>& flows) {
  std::int64_t sum = 0;
  for (const Flow& flow : flows) sum += flow.bytes;
  return sum;
}

/// By (from, to).
using Matrix = std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t>;

}  // namespace

TEST_CASE("flows add up to the traffic, and both ends agree on each", "[runtime][trace]") {
  const Kind kind =
      GENERATE(Kind::kBarrier, Kind::kAllReduce, Kind::kAllGather, Kind::kReduceScatter,
               Kind::kAllToAll, Kind::kBroadcast, Kind::kExchange);
  const int size = GENERATE(2, 3, 4, 8);
  CAPTURE(name_of(kind), size);
  Matrix sent, received;
  for (int rank = 0; rank < size; ++rank) {
    const GroupPlace place{rank, size};
    const CollectiveCall call = call_of(kind, place);
    const Flows flows = flows_of(call, place);
    const Traffic traffic = traffic_of(call, place);
    CHECK(bytes_of(flows.sent) == traffic.sent);
    CHECK(bytes_of(flows.received) == traffic.received);
    for (const Flow& flow : flows.sent) sent[{rank, flow.rank}] += flow.bytes;
    for (const Flow& flow : flows.received) received[{flow.rank, rank}] += flow.bytes;
    for (const auto* list : {&flows.sent, &flows.received}) {
      for (const Flow& flow : *list) CHECK((flow.bytes > 0 && flow.rank != rank));
    }
  }
  CHECK(sent == received);
  CHECK(sent.empty() == (kind == Kind::kBarrier));
}

TEST_CASE("a broadcast's flows leave its root only", "[runtime][trace]") {
  const Flows root = flows_of(call_of(Kind::kBroadcast, {1, 3}), {1, 3});
  CHECK(root.sent == std::vector<Flow>{{0, 84}, {2, 84}});
  CHECK(root.received.empty());
  const Flows leaf = flows_of(call_of(Kind::kBroadcast, {2, 3}), {2, 3});
  CHECK(leaf.sent.empty());
  CHECK(leaf.received == std::vector<Flow>{{1, 84}});
}

TEST_CASE("a message to oneself has no flow", "[runtime][trace]") {
  const CollectiveCall call{.of = SendCall{.in = rows_of(2), .to = 1}};
  CHECK(flows_of(call, {1, 2}).sent.empty());
  CHECK(flows_of(call, {0, 2}).sent == std::vector<Flow>{{1, 24}});
}

TEST_CASE("calls are numbered alike on their ranks and apart from all others", "[runtime][trace]") {
  const Rows ranks = {5, 2}, others = {2, 5};
  const CollectiveCall send{.of = SendCall{.in = rows_of(2), .to = 1}};
  const CollectiveCall recv{.of = RecvCall{.out = rows_of(2), .from = 0}};
  const CollectiveCall back{.of = SendCall{.in = rows_of(2), .to = 0}};
  const CollectiveCall all = call_of(Kind::kAllReduce, {0, 2});
  const EventTrace sent = trace_of(send, {{0, 2}, ranks, 3});
  CHECK(sent.sent == std::vector<Flow>{{2, 24}});  // world ranks
  CHECK(sent.call == trace_of(recv, {{1, 2}, ranks, 3}).call);
  const std::uint64_t numbers[] = {sent.call,
                                   trace_of(send, {{0, 2}, ranks, 4}).call,
                                   trace_of(back, {{1, 2}, ranks, 3}).call,
                                   trace_of(all, {{0, 2}, ranks, 3}).call,
                                   trace_of(all, {{0, 2}, others, 3}).call,
                                   trace_of(all, {{0, 2}, ranks, 4}).call};
  for (const std::uint64_t& a : numbers) {
    for (const std::uint64_t& b : numbers) CHECK((a == b) == (&a == &b));
  }
}

}  // namespace tessera
