#include "runtime/call/communicator.h"

#include <utility>

namespace tessera {

using Kind = CollectiveCall::Kind;
using WorkPtr = std::shared_ptr<Work>;
using Splits = std::span<const std::int64_t>;

namespace {

CollectiveCall call_of(Kind kind, const Array& in, const Array& out) {
  CollectiveCall call;
  call.kind = kind;
  call.in = in;
  call.out = out;
  return call;
}

}  // namespace

WorkPtr Communicator::all_reduce_async(const Array& in, const Array& out, ReduceOp op,
                                       const CallInfo& info) {
  CollectiveCall call = call_of(Kind::kAllReduce, in, out);
  call.reduce = op;
  return start(std::move(call), info);
}

WorkPtr Communicator::all_gather_async(const Array& in, const Array& out, Splits rows,
                                       const CallInfo& info) {
  CollectiveCall call = call_of(Kind::kAllGather, in, out);
  call.recv_splits.assign(rows.begin(), rows.end());
  return start(std::move(call), info);
}

WorkPtr Communicator::reduce_scatter_async(const Array& in, const Array& out, ReduceOp op,
                                           Splits rows, const CallInfo& info) {
  CollectiveCall call = call_of(Kind::kReduceScatter, in, out);
  call.reduce = op;
  call.send_splits.assign(rows.begin(), rows.end());
  return start(std::move(call), info);
}

WorkPtr Communicator::all_to_all_async(const Array& in, const Array& out, Splits send_splits,
                                       Splits recv_splits, const CallInfo& info) {
  CollectiveCall call = call_of(Kind::kAllToAll, in, out);
  call.send_splits.assign(send_splits.begin(), send_splits.end());
  call.recv_splits.assign(recv_splits.begin(), recv_splits.end());
  return start(std::move(call), info);
}

WorkPtr Communicator::peer_rows_async(PeerRows rows, const Array& in, const Array& out,
                                      const CallInfo& info) {
  CollectiveCall call = call_of(Kind::kPeerRows, in, out);
  call.peer_rows = std::make_shared<const PeerRows>(std::move(rows));
  return start(std::move(call), info);
}

WorkPtr Communicator::broadcast_async(const Array& in_out, int root, const CallInfo& info) {
  CollectiveCall call = call_of(Kind::kBroadcast, in_out, in_out);
  call.root = root;
  return start(std::move(call), info);
}

WorkPtr Communicator::send_async(const Array& in, int to, const CallInfo& info) {
  CollectiveCall call = call_of(Kind::kSend, in, {});
  call.root = to;
  return start(std::move(call), info);
}

WorkPtr Communicator::recv_async(const Array& out, int from, const CallInfo& info) {
  CollectiveCall call = call_of(Kind::kRecv, {}, out);
  call.root = from;
  return start(std::move(call), info);
}

void Communicator::all_reduce(const Array& in, const Array& out, ReduceOp op,
                              const CallInfo& info) {
  all_reduce_async(in, out, op, info)->wait();
}
void Communicator::all_gather(const Array& in, const Array& out, Splits rows,
                              const CallInfo& info) {
  all_gather_async(in, out, rows, info)->wait();
}
void Communicator::reduce_scatter(const Array& in, const Array& out, ReduceOp op, Splits rows,
                                  const CallInfo& info) {
  reduce_scatter_async(in, out, op, rows, info)->wait();
}
void Communicator::all_to_all(const Array& in, const Array& out, Splits send_splits,
                              Splits recv_splits, const CallInfo& info) {
  all_to_all_async(in, out, send_splits, recv_splits, info)->wait();
}
void Communicator::broadcast(const Array& in_out, int root, const CallInfo& info) {
  broadcast_async(in_out, root, info)->wait();
}
void Communicator::send(const Array& in, int to, const CallInfo& info) {
  send_async(in, to, info)->wait();
}
void Communicator::recv(const Array& out, int from, const CallInfo& info) {
  recv_async(out, from, info)->wait();
}
void Communicator::barrier(const CallInfo& info) { start(CollectiveCall{}, info)->wait(); }

}  // namespace tessera
