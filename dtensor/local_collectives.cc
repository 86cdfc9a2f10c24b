// Collectives inside regions: plain tensors in, plain tensors out, each with its gradient.
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "dtensor/autograd.h"
#include "dtensor/local_map.h"
#include "dtensor/recompute.h"
#include "kernels/elementwise.h"

namespace tessera {

namespace {

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

/// What a collective brings; in the second pass of a selective piece what it brought in the first.
template <class Make>
Array kept_or_made(Runtime& runtime, const Make& make) {
  KeptResult kept(runtime);
  if (kept.has()) return kept.take();
  Array made = make();
  kept.keep(made);
  return made;
}

using Splits = std::vector<std::int64_t>;

void check_rows(std::string_view op, const DTensor& x, std::span<const std::int64_t> splits,
                const Group& group) {
  const bool fits = x.ndim() > 0 && sum_of(splits) == x.global_shape()[0];
  if (static_cast<int>(splits.size()) == group.ranks->size() && fits) return;
  throw Error(invalid_argument(absl::StrFormat(
      "%s: the splits %s must be %d numbers that add up to the operand's rows. [%s]", op,
      to_string(ShapeView(splits)), group.ranks->size(), x.spec().to_string())));
}

struct AllToAllNode final : GradNode {
  using GradNode::GradNode;
  std::string_view name() const override { return "all_to_all_v"; }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override {
    grads[0] = all_to_all_v(cotangents[0], received, sent, group, site);
  }
  Splits sent, received;
  AxisGroup group;
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

struct AllGatherNode final : GradNode {
  using GradNode::GradNode;
  std::string_view name() const override { return "all_gather_rows"; }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override {
    grads[0] = reduce_scatter_rows(cotangents[0], rows, group, site);
  }
  Splits rows;
  AxisGroup group;
};

struct ReduceScatterNode final : GradNode {
  using GradNode::GradNode;
  std::string_view name() const override { return "reduce_scatter_rows"; }
  void run(std::span<const DTensor> cotangents, std::span<DTensor> grads) override {
    grads[0] = all_gather_rows(cotangents[0], rows, group, site);
  }
  Splits rows;
  AxisGroup group;
};

}  // namespace

DTensor all_to_all_v(const DTensor& x, std::span<const std::int64_t> send_splits,
                     std::span<const std::int64_t> recv_splits, const AxisGroup& group,
                     const Site& site) {
  check_plain("all_to_all_v", x);
  Runtime& runtime = x.runtime();
  const Group found = find_group(runtime, group);
  check_rows("all_to_all_v", x, send_splits, found);
  Array out = kept_or_made(runtime, [&] {
    const Array in = kernels::contiguous(runtime.kernels(), x.local());
    Array received = rows_like(runtime, in, sum_of(recv_splits));
    found.ranks->all_to_all(in, received, send_splits, recv_splits,
                            {.tensor = x.name(), .axes = found.axes, .site = site});
    return received;
  });
  DTensor result = plain(runtime, std::move(out));
  if (!records(runtime, x)) return result;
  auto node = std::make_shared<AllToAllNode>(runtime, site);
  node->sent.assign(send_splits.begin(), send_splits.end());
  node->received.assign(recv_splits.begin(), recv_splits.end());
  node->group = group;
  node->edges.push_back(edge_of(x));
  attach(result, std::move(node));
  return result;
}

DTensor all_reduce_sum(const DTensor& x, const AxisGroup& group, SumGradient grad,
                       const Site& site) {
  check_plain("all_reduce_sum", x);
  Runtime& runtime = x.runtime();
  const Group found = find_group(runtime, group);
  Array out = kept_or_made(runtime, [&] {
    const Array in = kernels::contiguous(runtime.kernels(), x.local());
    Array sum = Array::empty(in.shape(), in.dtype(), runtime.kernels().allocator);
    found.ranks->all_reduce(in, sum, ReduceOp::kSum,
                            {.tensor = x.name(), .axes = found.axes, .site = site});
    return sum;
  });
  DTensor result = plain(runtime, std::move(out));
  if (!records(runtime, x)) return result;
  auto node = std::make_shared<AllReduceNode>(runtime, site);
  node->kind = grad;
  node->group = group;
  node->edges.push_back(edge_of(x));
  attach(result, std::move(node));
  return result;
}

DTensor all_gather_rows(const DTensor& x, std::span<const std::int64_t> rows,
                        const AxisGroup& group, const Site& site) {
  check_plain("all_gather_rows", x);
  Runtime& runtime = x.runtime();
  const Group found = find_group(runtime, group);
  const auto self = static_cast<std::size_t>(found.ranks->rank());
  if (static_cast<int>(rows.size()) != found.ranks->size() || x.ndim() == 0 ||
      rows[self] != x.global_shape()[0]) {
    throw Error(invalid_argument(absl::StrFormat(
        "all_gather_rows: rows %s must be %d numbers, this rank's the operand's rows. [%s]",
        to_string(ShapeView(rows)), found.ranks->size(), x.spec().to_string())));
  }
  Array out = kept_or_made(runtime, [&] {
    const Array in = kernels::contiguous(runtime.kernels(), x.local());
    Array all = rows_like(runtime, in, sum_of(rows));
    found.ranks->all_gather(in, all, rows, {.tensor = x.name(), .axes = found.axes, .site = site});
    return all;
  });
  DTensor result = plain(runtime, std::move(out));
  if (!records(runtime, x)) return result;
  auto node = std::make_shared<AllGatherNode>(runtime, site);
  node->rows.assign(rows.begin(), rows.end());
  node->group = group;
  node->edges.push_back(edge_of(x));
  attach(result, std::move(node));
  return result;
}

DTensor reduce_scatter_rows(const DTensor& x, std::span<const std::int64_t> rows,
                            const AxisGroup& group, const Site& site) {
  check_plain("reduce_scatter_rows", x);
  Runtime& runtime = x.runtime();
  const Group found = find_group(runtime, group);
  check_rows("reduce_scatter_rows", x, rows, found);
  Array out = kept_or_made(runtime, [&] {
    const Array in = kernels::contiguous(runtime.kernels(), x.local());
    Array own = rows_like(runtime, in, rows[static_cast<std::size_t>(found.ranks->rank())]);
    found.ranks->reduce_scatter(in, own, ReduceOp::kSum, rows,
                                {.tensor = x.name(), .axes = found.axes, .site = site});
    return own;
  });
  DTensor result = plain(runtime, std::move(out));
  if (!records(runtime, x)) return result;
  auto node = std::make_shared<ReduceScatterNode>(runtime, site);
  node->rows.assign(rows.begin(), rows.end());
  node->group = group;
  node->edges.push_back(edge_of(x));
  attach(result, std::move(node));
  return result;
}

}  // namespace tessera
