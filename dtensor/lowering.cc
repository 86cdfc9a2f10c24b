#include <algorithm>
#include <utility>
#include <vector>

#include "dtensor/dispatch.h"
#include "kernels/elementwise.h"

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
  const Array mine = Array::empty({1}, DType::kI64, ctx.allocator);
  mine.data<std::int64_t>()[0] = rows_first.size(0);
  const Array sizes = Array::empty({group.size()}, DType::kI64, ctx.allocator);
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

}  // namespace

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
  for (const LoweringStep& step : local.lowering_steps()) {
    if (step.kind == LoweringStep::Kind::kLocal) {
      local.run_step(ctx, step, temporaries);
      continue;
    }
    for (std::size_t i = 0; i < step.in.size(); ++i) {
      const Array& in = temporaries[static_cast<std::size_t>(step.in[i])];
      Array& out = temporaries[static_cast<std::size_t>(step.out[i])];
      Array result = step.kind == LoweringStep::Kind::kReduce
                         ? reduce(runtime, call, in, step.reduce, info)
                         : gather(runtime, call, in, step.dim, info);
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
