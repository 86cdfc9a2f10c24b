#include "dtensor/lowering.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "kernels/elementwise.h"
#include "strategies/rules/window.h"

namespace tessera {

namespace {

/// `x` with `dim` first, contiguous: collectives join rows.
Array dim_first(KernelContext& ctx, const Array& x, int dim) {
  Array moved = x;
  for (int at = dim; at > 0; --at) moved = moved.transpose(at, at - 1);
  return kernels::contiguous(ctx, moved);
}
Array dim_back(KernelContext& ctx, const Array& x, int dim) {
  Array moved = x;
  for (int at = 0; at < dim; ++at) moved = moved.transpose(at, at + 1);
  return kernels::contiguous(ctx, moved);
}

/// The group's parts of one temporary, joined along `dim` in order of coord. Shards may be uneven,
/// so sizes come first.
Array gather(Runtime& runtime, const ResolvedCall& call, const Array& part, int dim,
             const CallInfo& info) {
  KernelContext& ctx = runtime.kernels();
  Communicator& group = *call.group;
  const Array rows_first = dim_first(ctx, part, dim);
  const auto& on_host = runtime.host_kernels().allocator;
  const Array mine = Array::empty({1}, DType::kI64, on_host);
  mine.data<std::int64_t>()[0] = rows_first.size(0);
  const Array sizes = Array::empty({group.size()}, DType::kI64, on_host);
  // On a simulated rank nothing arrives: the others' parts are taken to be as long as its own.
  std::fill_n(sizes.data<std::int64_t>(), group.size(), rows_first.size(0));
  group.all_gather(mine, sizes, {}, info);
  const std::vector<std::int64_t> rows(sizes.data<std::int64_t>(),
                                       sizes.data<std::int64_t>() + group.size());
  Shape shape = rows_first.shape();
  shape[0] = 0;
  for (const std::int64_t each : rows) shape[0] += each;
  const Array joined = Array::empty(shape, part.dtype(), ctx.allocator);
  group.all_gather(rows_first, joined, rows, info);
  return dim_back(ctx, joined, dim);
}

Array reduce(Runtime& runtime, const ResolvedCall& call, const Array& part, ReduceOp op,
             const CallInfo& info) {
  KernelContext& ctx = runtime.kernels();
  const Array in = kernels::contiguous(ctx, part);
  const Array out = Array::empty(in.shape(), in.dtype(), ctx.allocator);
  call.group->all_reduce(in, out, op, info);
  return out;
}

/// The transfer of a piece; the other dims are whole.
Transfer transfer_of(const WindowPiece& piece, std::size_t peer, const Shape& local, int dim) {
  Transfer box{.peer = static_cast<std::int64_t>(peer), .contributor = 0, .dims = {}};
  for (const std::int64_t size : local) box.dims.push_back({{0, 0, size}});
  box.dims[static_cast<std::size_t>(dim)] = {piece.run};
  return box;
}

std::shared_ptr<const ExchangeBoxes> boxes_of(const ResolvedCall& call, const LoweringStep& step,
                                              std::span<const Coord> group, const Coord& coord) {
  const Spec& operand = *call.inputs[static_cast<std::size_t>(step.in[0])];
  const auto self = static_cast<std::size_t>(call.group->rank());
  TSR_CHECK(group[self] == coord, absl::StrFormat("rank %d of the group", call.group->rank()));
  ExchangeBoxes boxes;
  for (std::size_t place = 0; place < group.size(); ++place) {
    for (const WindowPiece& piece : window_pieces(*call.local, step, group, place)) {
      // Ranks of the group differ along the window's dim only.
      if (place == self) {
        const Shape local = operand.local_shape(group[piece.holder]);
        boxes.into.push_back(transfer_of(piece, piece.holder, local, step.dim));
        boxes.cut_from.push_back(local);
      }
      if (piece.holder == self) {
        boxes.from.push_back(transfer_of(piece, place, operand.local_shape(coord), step.dim));
      }
    }
  }
  return std::make_shared<const ExchangeBoxes>(std::move(boxes));
}

/// Exactly what this rank lacks comes from the ranks that hold it.
Array fetch_window(Runtime& runtime, const ResolvedCall& call, const Array& part,
                   std::size_t number, const CallInfo& info) {
  KernelContext& ctx = runtime.kernels();
  const LoweringStep& step = call.local->lowering_steps()[number];
  Shape shape = part.shape();
  std::int64_t& size = shape[static_cast<std::size_t>(step.dim)];
  size = 0;
  for (const Interval& window : call.local->windows_of(step, *runtime.coord_on(call.outputs[0]))) {
    size += std::max<std::int64_t>(0, window.stop - window.start);
  }
  const Array in = kernels::contiguous(ctx, part);
  const Array out = Array::empty(shape, part.dtype(), ctx.allocator);
  ExchangeCall exchange;
  exchange.parts.push_back({.in = in, .out = out, .boxes = call.windows[number]});
  call.group->start({.of = std::move(exchange)}, info)->wait();
  return out;
}

Array run_collective(Runtime& runtime, const ResolvedCall& call, const Array& part,
                     std::size_t number, const CallInfo& info) {
  const LoweringStep& step = call.local->lowering_steps()[number];
  switch (step.kind) {
    case LoweringStep::Kind::kReduce:
      return reduce(runtime, call, part, step.reduce, info);
    case LoweringStep::Kind::kGather:
      return gather(runtime, call, part, step.dim, info);
    case LoweringStep::Kind::kWindow:
      return fetch_window(runtime, call, part, number, info);
    case LoweringStep::Kind::kLocal:
      break;
  }
  return part;
}

}  // namespace

std::vector<std::shared_ptr<const ExchangeBoxes>> plan_windows(const ResolvedCall& call,
                                                               const Coord& coord) {
  const std::vector<LoweringStep>& steps = call.local->lowering_steps();
  std::vector<std::shared_ptr<const ExchangeBoxes>> windows(steps.size());
  std::vector<Coord> group;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind != LoweringStep::Kind::kWindow) continue;
    if (group.empty()) {
      group = group_coords(call.outputs[0]->mesh(), coord, call.local->lowering_axes());
    }
    windows[i] = boxes_of(call, steps[i], group, coord);
  }
  return windows;
}

void run_lowering(Runtime& runtime, const ResolvedCall& call, std::span<const Array> inputs,
                  std::span<Array> outputs, const Site& site) {
  KernelContext& ctx = runtime.kernels();
  const LocalOp& local = *call.local;
  local.allocate_outputs(ctx, inputs, outputs);
  int last = static_cast<int>(inputs.size() + outputs.size()) - 1;
  for (const LoweringStep& step : local.lowering_steps()) {
    for (const int i : step.out) last = std::max(last, i);
  }
  std::vector<Array> temporaries(static_cast<std::size_t>(last) + 1);
  std::copy(inputs.begin(), inputs.end(), temporaries.begin());
  std::copy(outputs.begin(), outputs.end(),
            temporaries.begin() + static_cast<std::ptrdiff_t>(inputs.size()));
  const CallInfo info{.tensor = call.op->def.name, .axes = call.group_axes, .site = site};
  for (std::size_t number = 0; number < local.lowering_steps().size(); ++number) {
    const LoweringStep& step = local.lowering_steps()[number];
    if (step.kind == LoweringStep::Kind::kLocal) {
      local.run_step(ctx, step, temporaries);
      continue;
    }
    for (std::size_t i = 0; i < step.in.size(); ++i) {
      const Array& in = temporaries[static_cast<std::size_t>(step.in[i])];
      Array& out = temporaries[static_cast<std::size_t>(step.out[i])];
      Array result = run_collective(runtime, call, in, number, info);
      const bool is_output = step.out[i] >= static_cast<int>(inputs.size()) &&
                             step.out[i] < static_cast<int>(inputs.size() + outputs.size());
      if (is_output) {
        kernels::copy(ctx, result, out);
      } else {
        out = std::move(result);
      }
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = temporaries[inputs.size() + i];
}

}  // namespace tessera
