#include "runtime/call/communicator.h"

#include <utility>

namespace tessera {

using WorkPtr = std::shared_ptr<Work>;
using Splits = std::span<const std::int64_t>;

namespace {

std::vector<std::int64_t> copy_of(Splits splits) { return {splits.begin(), splits.end()}; }

/// f(the call of its kind).
template <class F>
decltype(auto) visit_call(const CollectiveCall& call, F&& f) {
  return std::visit(std::forward<F>(f), call.of);
}

}  // namespace

const Array& internal::null_array() noexcept {
  static const Array none;
  return none;
}

ReduceOp CollectiveCall::reduce() const noexcept {
  return visit_call(*this, [](const auto& each) -> ReduceOp {
    if constexpr (requires { each.reduce; }) return each.reduce;
    return ReduceOp::kSum;
  });
}

std::int64_t CollectiveCall::divisor() const noexcept {
  return visit_call(*this, [](const auto& each) -> std::int64_t {
    if constexpr (requires { each.divisor; }) return each.divisor;
    return 1;
  });
}

int CollectiveCall::root() const noexcept {
  return visit_call(*this, [](const auto& each) -> int {
    if constexpr (requires { each.root; }) return each.root;
    if constexpr (requires { each.to; }) return each.to;
    if constexpr (requires { each.from; }) return each.from;
    return 0;
  });
}

std::span<const ExchangePart> CollectiveCall::parts() const noexcept {
  return visit_call(*this, [](const auto& each) -> std::span<const ExchangePart> {
    if constexpr (requires { each.parts; }) return each.parts;
    return {};
  });
}

std::int64_t CollectiveCall::pack_bytes() const noexcept {
  return visit_call(*this, [](const auto& each) -> std::int64_t {
    if constexpr (requires { each.pack_bytes; }) return each.pack_bytes;
    return kPackBytes;
  });
}

WorkPtr Communicator::all_reduce_async(const Array& in, const Array& out, ReduceOp op,
                                       const CallInfo& info) {
  return start({.of = AllReduceCall{.in = in, .out = out, .reduce = op}}, info);
}

WorkPtr Communicator::all_gather_async(const Array& in, const Array& out, Splits rows,
                                       const CallInfo& info) {
  return start({.of = AllGatherCall{.in = in, .out = out, .rows = copy_of(rows)}}, info);
}

WorkPtr Communicator::reduce_scatter_async(const Array& in, const Array& out, ReduceOp op,
                                           Splits rows, const CallInfo& info) {
  return start({.of = ReduceScatterCall{.in = in, .out = out, .reduce = op, .rows = copy_of(rows)}},
               info);
}

WorkPtr Communicator::all_to_all_async(const Array& in, const Array& out, Splits send_splits,
                                       Splits recv_splits, const CallInfo& info) {
  return start({.of = AllToAllCall{.in = in,
                                   .out = out,
                                   .send_splits = copy_of(send_splits),
                                   .recv_splits = copy_of(recv_splits)}},
               info);
}

WorkPtr Communicator::peer_rows_async(PeerRows rows, const Array& in, const Array& out,
                                      const CallInfo& info) {
  auto kept = std::make_shared<const PeerRows>(std::move(rows));
  return start({.of = PeerRowsCall{.in = in, .out = out, .rows = std::move(kept)}}, info);
}

WorkPtr Communicator::broadcast_async(const Array& in_out, int root, const CallInfo& info) {
  return start({.of = BroadcastCall{.in_out = in_out, .root = root}}, info);
}

WorkPtr Communicator::send_async(const Array& in, int to, const CallInfo& info) {
  return start({.of = SendCall{.in = in, .to = to}}, info);
}

WorkPtr Communicator::recv_async(const Array& out, int from, const CallInfo& info) {
  return start({.of = RecvCall{.out = out, .from = from}}, info);
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
