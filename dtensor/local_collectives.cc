// Collectives inside regions: plain tensors in, plain tensors out, each with its gradient.
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtensor/autograd.h"
#include "dtensor/local_map.h"
#include "dtensor/pending_rows.h"
#include "dtensor/recompute.h"
#include "kernels/elementwise.h"

namespace tessera {

namespace {

using Splits = std::vector<std::int64_t>;

struct Group {
  Communicator* ranks;
  std::string axes;
};
Group find_group(Runtime& runtime, const AxisGroup& group) {
  std::string axes;
  for (const int axis : group.axes) axes += (axes.empty() ? "" : ",") + group.mesh.axis_label(axis);
  return {value_or_throw(runtime.world().group_along(group.mesh, group.axes)), std::move(axes)};
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
    case RowMove::Kind::kAllToAll:
      break;
  }
  return "all_to_all_v";
}

void check_rows(const DTensor& x, const RowMove& move, const Group& group) {
  check_plain(name_of(move.kind), x);
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

std::shared_ptr<Work> start_work(const DTensor& x, const RowMove& move, const Array& out,
                                 const Group& group, const Site& site) {
  const Array in = kernels::contiguous(x.runtime().kernels(), x.local());
  const CallInfo info = {.tensor = x.name(), .axes = group.axes, .site = site};
  switch (move.kind) {
    case RowMove::Kind::kAllGather:
      return group.ranks->all_gather_async(in, out, move.send, info);
    case RowMove::Kind::kReduceScatter:
      return group.ranks->reduce_scatter_async(in, out, ReduceOp::kSum, move.send, info);
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
  std::int64_t rows = sum_of(move.kind == RowMove::Kind::kAllToAll ? move.recv : move.send);
  if (move.kind == RowMove::Kind::kReduceScatter) rows = move.send[self];
  started.out = rows_like(runtime, x.local(), rows);
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
  }
  std::shared_ptr<Exchange> exchange;
};

PendingRows begin_move(const DTensor& x, const RowMove& move, const Site& site) {
  Runtime& runtime = x.runtime();
  PendingRows pending;
  pending.call_ =
      std::make_shared<PendingRows::Call>(PendingRows::Call{start(runtime, x, move, site)});
  pending.landing_ = plain(runtime, pending.call_->started.out);
  if (!records(runtime, x)) return pending;
  pending.exchange_ = std::make_shared<PendingRows::Exchange>(PendingRows::Exchange{.move = move});
  auto node = std::make_shared<PendingRows::BeginNode>(runtime, site);
  node->exchange = pending.exchange_;
  node->edges.push_back(edge_of(x));
  attach(pending.landing_, std::move(node));
  return pending;
}

DTensor PendingRows::finish() {
  std::exchange(call_, nullptr)->started.wait();
  const DTensor landing = std::exchange(landing_, {});
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
  if (!records(runtime, x)) return result;
  auto node = std::make_shared<AllReduceNode>(runtime, site);
  node->kind = grad;
  node->group = group;
  node->edges.push_back(edge_of(x));
  attach(result, std::move(node));
  return result;
}

}  // namespace tessera
