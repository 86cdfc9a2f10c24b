// Collectives inside regions: plain tensors in, plain tensors out, each with its gradient.
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtensor/autograd.h"
#include "dtensor/local_map.h"
#include "dtensor/observer.h"
#include "dtensor/pending_rows.h"
#include "dtensor/recompute.h"
#include "kernels/elementwise.h"
#include "kernels/peer_rows.h"

namespace tessera {

namespace {

using Splits = std::vector<std::int64_t>;

struct Group {
  Communicator* ranks;
  std::string axes;
};
Group find_group(Runtime& runtime, const AxisGroup& group) {
  return {value_or_throw(runtime.world().group_along(group.mesh, group.axes)),
          group.mesh.axis_labels(group.axes)};
}

void check_plain(std::string_view op, const DTensor& x) {
  if (x.mesh().ndim() == 0 && !x.local().is_null()) return;
  throw Error(invalid_argument(absl::StrFormat(
      "%s: the operand must be a plain tensor inside a region. [%s]", op, x.spec().to_string())));
}

std::int64_t sum_of(std::span<const std::int64_t> splits) {
  std::int64_t sum = 0;
  for (const std::int64_t each : splits) sum += each;
  return sum;
}

Array rows_like(Runtime& runtime, const Array& x, std::int64_t rows) {
  Shape shape = x.shape();
  shape[0] = rows;
  return Array::empty(shape, x.dtype(), runtime.kernels().allocator);
}

std::string_view name_of(RowMove::Kind kind) {
  switch (kind) {
    case RowMove::Kind::kAllGather:
      return "all_gather_rows";
    case RowMove::Kind::kReduceScatter:
      return "reduce_scatter_rows";
    case RowMove::Kind::kPut:
      return "put_peer_rows";
    case RowMove::Kind::kAdd:
      return "sum_peer_rows";
    case RowMove::Kind::kAllToAll:
      break;
  }
  return "all_to_all_v";
}

bool is_among_peers(RowMove::Kind kind) {
  return kind == RowMove::Kind::kPut || kind == RowMove::Kind::kAdd;
}

void check_rows(const DTensor& x, const RowMove& move, const Group& group) {
  check_plain(name_of(move.kind), x);
  if (is_among_peers(move.kind)) {
    const std::int64_t rows =
        move.kind == RowMove::Kind::kPut ? move.peers->place_TK.size(0) : move.peers->rows;
    if (x.ndim() == 2 && x.size(0) == rows) return;
    throw Error(invalid_argument(absl::StrFormat("%s: the operand must be [%d, D]. [%s]",
                                                 name_of(move.kind), rows, x.spec().to_string())));
  }
  const auto ranks = static_cast<std::size_t>(group.ranks->size());
  const auto self = static_cast<std::size_t>(group.ranks->rank());
  const bool gathers = move.kind == RowMove::Kind::kAllGather;
  const bool one_each = move.send.size() == ranks &&
                        (move.kind != RowMove::Kind::kAllToAll || move.recv.size() == ranks);
  if (one_each && x.ndim() > 0 &&
      (gathers ? move.send[self] : sum_of(move.send)) == x.global_shape()[0]) {
    return;
  }
  throw Error(invalid_argument(
      absl::StrFormat("%s: %s %s must be %d numbers%s the operand's rows. [%s]", name_of(move.kind),
                      gathers ? "rows" : "the splits", to_string(ShapeView(move.send)), ranks,
                      gathers ? ", this rank's" : " that add up to", x.spec().to_string())));
}

/// A collective under way, or what it brought in the first pass of a selective piece.
struct Started {
  Array out;
  std::shared_ptr<Work> work;  ///< null where it is over
  std::shared_ptr<KeptResult> kept;

  void wait() {
    if (work == nullptr) return;
    std::exchange(work, nullptr)->wait();
    kept->keep(out);
  }
};

/// Rows of the result.
std::int64_t rows_after(const RowMove& move, std::size_t self) {
  switch (move.kind) {
    case RowMove::Kind::kAllToAll:
      return sum_of(move.recv);
    case RowMove::Kind::kAllGather:
      return sum_of(move.send);
    case RowMove::Kind::kReduceScatter:
      return move.send[self];
    case RowMove::Kind::kPut:
      return move.peers->rows;
    case RowMove::Kind::kAdd:
      break;
  }
  return move.peers->place_TK.size(0);
}

PeerRows peer_rows_of(PeerRows::Way way, const PeerPlaces& places) {
  return {.way = way,
          .place_TK = places.place_TK.local(),
          .copies = places.copies,
          .buffer_rows = places.buffer_rows,
          .rows_of_tokens = places.rows_of_tokens,
          .rows_of_buffer = places.rows_of_buffer};
}

/// Begins to put tokens, weighted or not, into the ranks' buffers `out`.
std::shared_ptr<Work> start_put(Runtime& runtime, const Array& tokens, const Array& weights,
                                const PeerPlaces& places, const Array& out, const Group& group,
                                const CallInfo& info) {
  if (places.counts_e.defined()) {
    kernels::clear_unfilled_rows(runtime.kernels(), places.counts_e.local(),
                                 places.filled_e.local(), out);
  }
  PeerRows rows = peer_rows_of(PeerRows::Way::kPut, places);
  rows.weights_TK = weights;
  return group.ranks->peer_rows_async(std::move(rows), tokens, out, info);
}

std::shared_ptr<Work> start_work(const DTensor& x, const RowMove& move, const Array& out,
                                 const Group& group, const Site& site) {
  const Array in = kernels::contiguous(x.runtime().kernels(), x.local());
  const CallInfo info = {.tensor = x.name(), .axes = group.axes, .site = site};
  switch (move.kind) {
    case RowMove::Kind::kAllGather:
      return group.ranks->all_gather_async(in, out, move.send, info);
    case RowMove::Kind::kReduceScatter:
      return group.ranks->reduce_scatter_async(in, out, ReduceOp::kSum, move.send, info);
    case RowMove::Kind::kPut:
      return start_put(x.runtime(), in, {}, *move.peers, out, group, info);
    case RowMove::Kind::kAdd:
      return group.ranks->peer_rows_async(peer_rows_of(PeerRows::Way::kSum, *move.peers), in, out,
                                          info);
    case RowMove::Kind::kAllToAll:
      break;
  }
  return group.ranks->all_to_all_async(in, out, move.send, move.recv, info);
}

Started start(Runtime& runtime, const DTensor& x, const RowMove& move, const Site& site) {
  const Group found = find_group(runtime, move.group);
  check_rows(x, move, found);
  Started started{.out = {}, .work = nullptr, .kept = std::make_shared<KeptResult>(runtime)};
  if (started.kept->has()) {
    started.out = started.kept->take();
    return started;
  }
  const auto self = static_cast<std::size_t>(found.ranks->rank());
  started.out = rows_like(runtime, x.local(), rows_after(move, self));
  started.work = start_work(x, move, started.out, found, site);
  return started;
}

struct RowMoveNode final : GradNode {
  using GradNode::GradNode;
  std::string_view name() const override { return name_of(move.kind); }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override {
    grads[0] = move_rows(cotangents[0], move.reversed(), site);
  }
  RowMove move;
};

struct AllReduceNode final : GradNode {
  using GradNode::GradNode;
  std::string_view name() const override { return "all_reduce_sum"; }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override {
    grads[0] = kind == SumGradient::kReplicated ? cotangents[0]
                                                : all_reduce_sum(cotangents[0], group, kind, site);
  }
  SumGradient kind = SumGradient::kReplicated;
  AxisGroup group;
};

Splits copy_of(std::span<const std::int64_t> splits) { return {splits.begin(), splits.end()}; }

}  // namespace

RowMove RowMove::reversed() const {
  switch (kind) {
    case Kind::kAllGather:
      return {.kind = Kind::kReduceScatter, .group = group, .send = send};
    case Kind::kReduceScatter:
      return {.kind = Kind::kAllGather, .group = group, .send = send};
    case Kind::kPut:
      return {.kind = Kind::kAdd, .group = group, .peers = peers};
    case Kind::kAdd:
      return {.kind = Kind::kPut, .group = group, .peers = peers};
    case Kind::kAllToAll:
      break;
  }
  return {.kind = Kind::kAllToAll, .group = group, .send = recv, .recv = send};
}

// ---- begun and finished

/// What both nodes of a move share: the cotangent's exchange, begun by one and awaited by the
/// other.
struct PendingRows::Exchange {
  RowMove move;
  std::shared_ptr<Work> back = nullptr;
};
/// The forward call.
struct PendingRows::Call {
  Started started;
};

/// Its result is the landing place, which only the FinishNode reads.
struct PendingRows::BeginNode final : GradNode {
  using GradNode::GradNode;
  std::string_view name() const override { return name_of(exchange->move.kind); }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override {
    std::exchange(exchange->back, nullptr)->wait();
    grads[0] = cotangents[0];
    tell_region(runtime, "wait", RegionKind::kCommunicates, {grads[0]}, {}, site);
  }
  std::shared_ptr<Exchange> exchange;
};

struct PendingRows::FinishNode final : GradNode {
  using GradNode::GradNode;
  std::string_view name() const override { return name_of(exchange->move.kind); }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override {
    Started started = start(runtime, cotangents[0], exchange->move.reversed(), site);
    exchange->back = std::move(started.work);
    grads[0] = plain(runtime, std::move(started.out));
    tell_region(runtime, name_of(exchange->move.reversed().kind), RegionKind::kCommunicates,
                {cotangents[0]}, grads[0], site);
  }
  std::shared_ptr<Exchange> exchange;
};

PendingRows begin_move(const DTensor& x, const RowMove& move, const Site& site) {
  Runtime& runtime = x.runtime();
  PendingRows pending;
  pending.call_ =
      std::make_shared<PendingRows::Call>(PendingRows::Call{start(runtime, x, move, site)});
  pending.landing_ = plain(runtime, pending.call_->started.out);
  tell_region(runtime, name_of(move.kind), RegionKind::kCommunicates, {x}, pending.landing_, site);
  if (!records(runtime, x)) return pending;
  pending.exchange_ = std::make_shared<PendingRows::Exchange>(PendingRows::Exchange{.move = move});
  auto node = std::make_shared<PendingRows::BeginNode>(runtime, site);
  node->exchange = pending.exchange_;
  node->edges.push_back(edge_of(x));
  attach(pending.landing_, std::move(node));
  return pending;
}

// ---- weighted sums of peers' rows

/// What both nodes of a sum share: the cotangents under way.
struct PendingRows::Sum {
  RowMove move;
  DTensor rows, weights;  ///< until the sum is finished
  std::shared_ptr<Work> put = nullptr, dots = nullptr;
  Array grad_weights = {};
};

struct PendingRows::BeginSumNode final : GradNode {
  using GradNode::GradNode;
  std::string_view name() const override { return "sum_peer_rows"; }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override {
    std::exchange(sum->put, nullptr)->wait();
    std::exchange(sum->dots, nullptr)->wait();
    grads[0] = cotangents[0];
    grads[1] = plain(runtime, std::exchange(sum->grad_weights, {}));
    tell_region(runtime, "wait", RegionKind::kCommunicates, {grads[0]}, grads[1], site);
  }
  std::shared_ptr<Sum> sum;
};

struct PendingRows::FinishSumNode final : GradNode {
  using GradNode::GradNode;
  std::string_view name() const override { return "sum_peer_rows"; }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override {
    KernelContext& kernels = runtime.kernels();
    const Group group = find_group(runtime, sum->move.group);
    const PeerPlaces& places = *sum->move.peers;
    const Array buffer = kernels::contiguous(kernels, restore(rows, "rows").local());
    const Array weights_TK = kernels::contiguous(kernels, restore(weights, "weights").local());
    const Array tokens = kernels::contiguous(kernels, cotangents[0].local());
    const CallInfo info = {.axes = group.axes, .site = site};
    const Array grad_rows = Array::empty(buffer.shape(), buffer.dtype(), kernels.allocator);
    sum->put = start_put(runtime, tokens, weights_TK, places, grad_rows, group, info);
    sum->grad_weights = Array::empty(weights_TK.shape(), weights_TK.dtype(), kernels.allocator);
    PeerRows dots = peer_rows_of(PeerRows::Way::kDot, places);
    dots.tokens_TD = tokens;
    sum->dots = group.ranks->peer_rows_async(std::move(dots), buffer, sum->grad_weights, info);
    grads[0] = plain(runtime, grad_rows);
    tell_region(runtime, "sum_peer_rows_backward", RegionKind::kCommunicates, {cotangents[0]},
                grads[0], site);
  }
  void release() override {
    rows = {};
    weights = {};
  }
  std::shared_ptr<Sum> sum;
  SavedTensor rows, weights;
};

PendingRows begin_sum(const DTensor& rows_RD, const DTensor& weights_TK, const RowMove& move,
                      DType out, const Site& site) {
  Runtime& runtime = rows_RD.runtime();
  KernelContext& kernels = runtime.kernels();
  const Group group = find_group(runtime, move.group);
  check_rows(rows_RD, move, group);
  Started started{.out = {}, .work = nullptr, .kept = std::make_shared<KeptResult>(runtime)};
  if (started.kept->has()) {
    started.out = started.kept->take();
  } else {
    started.out =
        Array::empty({move.peers->place_TK.size(0), rows_RD.size(1)}, out, kernels.allocator);
    PeerRows rows = peer_rows_of(PeerRows::Way::kSum, *move.peers);
    rows.weights_TK = kernels::contiguous(kernels, weights_TK.local());
    started.work = group.ranks->peer_rows_async(
        std::move(rows), kernels::contiguous(kernels, rows_RD.local()), started.out,
        {.tensor = rows_RD.name(), .axes = group.axes, .site = site});
  }
  PendingRows pending;
  pending.call_ = std::make_shared<PendingRows::Call>(PendingRows::Call{std::move(started)});
  pending.landing_ = plain(runtime, pending.call_->started.out);
  tell_region(runtime, "sum_peer_rows", RegionKind::kCommunicates, {rows_RD, weights_TK},
              pending.landing_, site);
  const bool records_rows = records(runtime, rows_RD);
  if (!records(runtime, weights_TK) && !records_rows) return pending;
  pending.sum_ = std::make_shared<PendingRows::Sum>(
      PendingRows::Sum{.move = move, .rows = rows_RD, .weights = weights_TK});
  auto node = std::make_shared<PendingRows::BeginSumNode>(runtime, site);
  node->sum = pending.sum_;
  node->edges.push_back(edge_of(rows_RD));
  node->edges.push_back(edge_of(weights_TK));
  attach(pending.landing_, std::move(node));
  return pending;
}

DTensor PendingRows::finish() {
  std::exchange(call_, nullptr)->started.wait();
  const DTensor landing = std::exchange(landing_, {});
  tell_region(landing.runtime(), "wait", RegionKind::kCommunicates, {landing}, {}, Site::current());
  if (const auto sum = std::exchange(sum_, nullptr)) {
    Runtime& runtime = landing.runtime();
    DTensor result = plain(runtime, landing.local());
    auto node = std::make_shared<FinishSumNode>(runtime, Site::current());
    node->sum = sum;
    node->rows = save(std::exchange(sum->rows, {}));
    node->weights = save(std::exchange(sum->weights, {}));
    node->edges.push_back(edge_of(landing));
    attach(result, std::move(node));
    return result;
  }
  const auto exchange = std::exchange(exchange_, nullptr);
  if (exchange == nullptr) return landing;
  Runtime& runtime = landing.runtime();
  DTensor result = plain(runtime, landing.local());
  auto node = std::make_shared<FinishNode>(runtime, Site::current());
  node->exchange = exchange;
  node->edges.push_back(edge_of(landing));
  attach(result, std::move(node));
  return result;
}

// ---- at once

DTensor move_rows(const DTensor& x, const RowMove& move, const Site& site) {
  Runtime& runtime = x.runtime();
  Started started = start(runtime, x, move, site);
  started.wait();
  DTensor result = plain(runtime, std::move(started.out));
  tell_region(runtime, name_of(move.kind), RegionKind::kCommunicates, {x}, result, site);
  if (!records(runtime, x)) return result;
  auto node = std::make_shared<RowMoveNode>(runtime, site);
  node->move = move;
  node->edges.push_back(edge_of(x));
  attach(result, std::move(node));
  return result;
}

DTensor all_to_all_v(const DTensor& x, std::span<const std::int64_t> send_splits,
                     std::span<const std::int64_t> recv_splits, const AxisGroup& group,
                     const Site& site) {
  return move_rows(x,
                   {.kind = RowMove::Kind::kAllToAll,
                    .group = group,
                    .send = copy_of(send_splits),
                    .recv = copy_of(recv_splits)},
                   site);
}

DTensor all_gather_rows(const DTensor& x, std::span<const std::int64_t> rows,
                        const AxisGroup& group, const Site& site) {
  return move_rows(x, {.kind = RowMove::Kind::kAllGather, .group = group, .send = copy_of(rows)},
                   site);
}

DTensor reduce_scatter_rows(const DTensor& x, std::span<const std::int64_t> rows,
                            const AxisGroup& group, const Site& site) {
  return move_rows(
      x, {.kind = RowMove::Kind::kReduceScatter, .group = group, .send = copy_of(rows)}, site);
}

DTensor all_reduce_sum(const DTensor& x, const AxisGroup& group, SumGradient grad,
                       const Site& site) {
  check_plain("all_reduce_sum", x);
  Runtime& runtime = x.runtime();
  const Group found = find_group(runtime, group);
  KeptResult kept(runtime);
  Array out;
  if (kept.has()) {
    out = kept.take();
  } else {
    const Array in = kernels::contiguous(runtime.kernels(), x.local());
    out = Array::empty(in.shape(), in.dtype(), runtime.kernels().allocator);
    found.ranks->all_reduce(in, out, ReduceOp::kSum,
                            {.tensor = x.name(), .axes = found.axes, .site = site});
    kept.keep(out);
  }
  DTensor result = plain(runtime, std::move(out));
  tell_region(runtime, "all_reduce_sum", RegionKind::kCommunicates, {x}, result, site);
  if (!records(runtime, x)) return result;
  auto node = std::make_shared<AllReduceNode>(runtime, site);
  node->kind = grad;
  node->group = group;
  node->edges.push_back(edge_of(x));
  attach(result, std::move(node));
  return result;
}

}  // namespace tessera
