#include "runtime/communicator.h"

#include <utility>

namespace tessera {

using Kind = CollectiveCall::Kind;

std::shared_ptr<Work> Communicator::all_reduce_async(const Array& in, const Array& out, ReduceOp op,
                                                     const CallInfo& info) {
  CollectiveCall call;
  call.kind = Kind::kAllReduce;
  call.in = in;
  call.out = out;
  call.reduce = op;
  return start(std::move(call), info);
}

void Communicator::all_reduce(const Array& in, const Array& out, ReduceOp op,
                              const CallInfo& info) {
  all_reduce_async(in, out, op, info)->wait();
}

void Communicator::all_gather(const Array& in, const Array& out, std::span<const std::int64_t> rows,
                              const CallInfo& info) {
  CollectiveCall call;
  call.kind = Kind::kAllGather;
  call.in = in;
  call.out = out;
  call.recv_splits.assign(rows.begin(), rows.end());
  start(std::move(call), info)->wait();
}

void Communicator::reduce_scatter(const Array& in, const Array& out, ReduceOp op,
                                  std::span<const std::int64_t> rows, const CallInfo& info) {
  CollectiveCall call;
  call.kind = Kind::kReduceScatter;
  call.in = in;
  call.out = out;
  call.reduce = op;
  call.send_splits.assign(rows.begin(), rows.end());
  start(std::move(call), info)->wait();
}

std::shared_ptr<Work> Communicator::all_to_all_async(const Array& in, const Array& out,
                                                     std::span<const std::int64_t> send_splits,
                                                     std::span<const std::int64_t> recv_splits,
                                                     const CallInfo& info) {
  CollectiveCall call;
  call.kind = Kind::kAllToAll;
  call.in = in;
  call.out = out;
  call.send_splits.assign(send_splits.begin(), send_splits.end());
  call.recv_splits.assign(recv_splits.begin(), recv_splits.end());
  return start(std::move(call), info);
}

void Communicator::all_to_all(const Array& in, const Array& out,
                              std::span<const std::int64_t> send_splits,
                              std::span<const std::int64_t> recv_splits, const CallInfo& info) {
  all_to_all_async(in, out, send_splits, recv_splits, info)->wait();
}

void Communicator::broadcast(const Array& in_out, int root, const CallInfo& info) {
  CollectiveCall call;
  call.kind = Kind::kBroadcast;
  call.in = in_out;
  call.out = in_out;
  call.root = root;
  start(std::move(call), info)->wait();
}

void Communicator::send(const Array& in, int to, const CallInfo& info) {
  CollectiveCall call;
  call.kind = Kind::kSend;
  call.in = in;
  call.root = to;
  start(std::move(call), info)->wait();
}

void Communicator::recv(const Array& out, int from, const CallInfo& info) {
  CollectiveCall call;
  call.kind = Kind::kRecv;
  call.out = out;
  call.root = from;
  start(std::move(call), info)->wait();
}

void Communicator::barrier(const CallInfo& info) { start(CollectiveCall{}, info)->wait(); }

}  // namespace tessera
