#include "strategies/ops/window/conv_parts.h"

#include <algorithm>
#include <utility>

#include "kernels/conv.h"
#include "kernels/elementwise.h"
#include "placement/checked_int.h"
#include "strategies/ops/product/product.h"
#include "strategies/ops/schema.h"
#include "strategies/ops/steps.h"
#include "strategies/ops/window/window_parts.h"

namespace tessera::ops {
namespace {

using kernels::WindowDim;
using kernels::WindowPlane;
using Role = ConvForm::Role;

/// The weight's sizes, which neither the attributes nor every operand of a lowering's step say.
constexpr std::string_view kKernelSize = "kernel_size";

/// How the output side's windowed dim is cut: kind, axis among those of more than one rank, count
/// and grain of each level, and how many sizes it states, which follow.
constexpr std::string_view kOutLevels = "out_levels";

/// Axes of more than one rank, in order: two meshes of one op may differ in the others.
std::vector<int> real_axes(const Mesh& mesh) {
  std::vector<int> axes;
  for (int axis = 0; axis < mesh.ndim(); ++axis) {
    if (mesh.size(axis) > 1) axes.push_back(axis);
  }
  return axes;
}

Shape levels_to(const Mesh& mesh, const Levels& levels) {
  const std::vector<int> axes = real_axes(mesh);
  Shape entries;
  for (const Level& level : levels) {
    const auto at = std::find(axes.begin(), axes.end(), level.axis);
    entries.push_back(static_cast<std::int64_t>(level.kind));
    entries.push_back(at == axes.end() ? -1 : at - axes.begin());
    entries.push_back(level.count);
    entries.push_back(level.grain);
    const std::int64_t stated = level.sizes ? level.sizes.num_coords() : 0;
    entries.push_back(stated);
    for (std::int64_t c = 0; c < stated; ++c) {
      const RaggedPart part = level.sizes.part_of(c);
      entries.push_back(part.stop - part.start);
    }
  }
  return entries;
}

Levels levels_from(const Mesh& mesh, const Shape& entries) {
  const std::vector<int> axes = real_axes(mesh);
  Levels levels;
  for (std::size_t i = 0; i + 4 < entries.size();) {
    const int axis = entries[i + 1] < 0 ? -1 : axes[static_cast<std::size_t>(entries[i + 1])];
    levels.push_back({static_cast<Level::Kind>(entries[i]), axis, entries[i + 2], entries[i + 3]});
    const auto stated = static_cast<std::size_t>(entries[i + 4]);
    if (stated > 0) levels.back().sizes = RaggedSizes(view_of(entries).subspan(i + 5, stated));
    i += 5 + stated;
  }
  return levels;
}

/// Which arrays of a call are the input side, the weight and the output side of its windows.
struct Sides {
  Array in, weight, out;
};

/// The windows of one call; `cut`, where ranks hold parts of it, replaces one windowed dim's.
struct CutDim {
  int dim = -1;
  WindowDim window{};
};
WindowPlane plane_of(const Attrs& attrs, int num_dims, const Sides& sides, const CutDim& cut) {
  WindowPlane plane;
  for (int d = 0; d < num_dims; ++d) {
    WindowDim& each = d + 1 == num_dims ? plane.w : plane.h;
    each = conv_window(attrs, d, sides.weight.size(2 + d), sides.in.size(2 + d),
                       sides.out.size(2 + d));
    if (d == cut.dim) each = cut.window;
  }
  return plane;
}

void run_form(KernelContext& ctx, const ConvForm& form, const Attrs& attrs, const Sides& sides,
              const CutDim& cut) {
  const WindowPlane plane = plane_of(attrs, form.num_dims, sides, cut);
  const Array in = as_planes(sides.in, form.num_dims);
  const Array weight = as_planes(sides.weight, form.num_dims);
  const Array out = as_planes(sides.out, form.num_dims);
  switch (form.role) {
    case Role::kForward:
      return kernels::conv2d(ctx, in, weight, plane, out);
    case Role::kInput:
      return kernels::conv2d_input_grad(ctx, out, weight, plane, in);
    case Role::kWeight:
      return kernels::conv2d_weight_grad(ctx, out, in, plane, weight);
  }
}

/// Operands: forward (in, weight, bias?), input (out, weight, bias?), weight (out, in).
Sides sides_of(const ConvForm& form, std::span<const Array> inputs, const Array& result) {
  switch (form.role) {
    case Role::kForward:
      return {inputs[0], inputs[1], result};
    case Role::kInput:
      return {result, inputs[1], inputs[0]};
    case Role::kWeight:
      break;
  }
  return {inputs[1], result, inputs[0]};
}

void add_bias(KernelCall& call, std::size_t operand) {
  if (call.inputs.size() <= operand || call.inputs[operand].is_null()) return;
  Array bias = call.inputs[operand];
  while (bias.ndim() + 1 < call.outputs[0].ndim()) bias = with_unit_dim(bias, bias.ndim());
  kernels::binary(call.ctx, kernels::Binary::kAdd, call.outputs[0], bias, call.outputs[0]);
}

/// The windowed dim `dim` of a call that is cut, with the sizes of the whole tensors.
WindowDim whole_window(const Attrs& attrs, int dim, const OperandView& in, const OperandView& out) {
  const auto d = static_cast<std::size_t>(2 + dim);
  return conv_window(attrs, dim, window_attr(attrs, kKernelSize, dim, 1),
                     in.spec->global_shape()[d], out.spec->global_shape()[d]);
}

/// What a rank fetches of the operand that it reads through windows.
std::vector<Interval> needed(const ConvForm& form, const Attrs& attrs, int dim,
                             const OperandView& operand, const OperandView& result) {
  if (form.role == Role::kForward) {
    const WindowDim window = whole_window(attrs, dim, operand, result);
    return one_interval(window.inputs_of(local_interval(result, 2 + dim)));
  }
  if (form.role == Role::kInput) {
    const WindowDim window = whole_window(attrs, dim, result, operand);
    return one_interval(window.outputs_of(local_interval(result, 2 + dim)));
  }
  // The result has no such dim: the attributes say how the output side is cut.
  WindowDim window = whole_window(attrs, dim, operand, operand);
  window.out_size = conv_out_size(window);
  const Mesh& mesh = operand.spec->mesh();
  const std::vector<Interval> held = local_intervals(
      mesh, window.out_size, levels_from(mesh, attrs.get_ints(kOutLevels)), *operand.coord);
  return one_interval(window.inputs_of(held.empty() ? Interval{} : held.front()));
}

/// The last operand of the step is the fetched window; the others are as in the plain call.
void run_cut(KernelCall& call, const ConvForm& form, int dim) {
  const OperandView &first = call.input_views[0], &result = call.output_views[0];
  CutDim cut{.dim = dim};
  const auto d = 2 + dim;
  Sides sides = sides_of(form, call.inputs, call.outputs[0]);
  const Array& fetched = call.inputs.back();
  switch (form.role) {
    case Role::kForward:
      sides.in = fetched;
      cut.window =
          gathering(whole_window(call.attrs, dim, first, result), local_interval(result, d));
      break;
    case Role::kInput:
      sides.out = fetched;
      cut.window =
          scattering(whole_window(call.attrs, dim, result, first), local_interval(result, d));
      break;
    case Role::kWeight:
      sides.in = fetched;
      cut.window = gathering(whole_window(call.attrs, dim, call.input_views[1], first),
                             local_interval(first, d));
      break;
  }
  run_form(call.ctx, form, call.attrs, sides, cut);
}

std::vector<LoweringStep> halo_steps(const ConvForm& form, int dim, const Attrs& attrs) {
  const WindowFn windows = [form, dim, attrs](const Attrs&, const OperandView& operand,
                                              const OperandView& result) {
    return needed(form, attrs, dim, operand, result);
  };
  if (form.role != Role::kWeight) {
    return window_steps({form.num_operands, 1}, 2 + dim, windows, [form, dim](KernelCall& call) {
      run_cut(call, form, dim);
      if (form.num_operands > 2) add_bias(call, 2);
    });
  }
  Steps steps(2, 1);
  const auto grad = steps.operand(0), in = steps.operand(1), result = steps.result();
  const auto fetched = steps.window(in, 2 + dim, windows), own = steps.value();
  steps.local({grad, in, fetched, result}, {own}, [form, dim](KernelCall& call) {
    const Array& like = call.inputs.back();
    call.outputs[0] = scratch(call, like.shape(), like.dtype());
    KernelCall inner = call;
    inner.inputs = call.inputs.first(3);
    run_cut(inner, form, dim);
  });
  steps.all_reduce({own}, {result}, ReduceOp::kSum);
  return std::move(steps).take();
}

}  // namespace

WindowDim conv_window(const Attrs& attrs, int dim, std::int64_t kernel, std::int64_t size,
                      std::int64_t out_size) {
  return {.kernel = kernel,
          .stride = window_attr(attrs, "stride", dim, 1),
          .padding = window_attr(attrs, "padding", dim, 0),
          .dilation = window_attr(attrs, "dilation", dim, 1),
          .size = size,
          .out_size = out_size};
}

std::int64_t conv_out_size(const WindowDim& w) {
  const CheckedInt span =
      CheckedInt(w.size) + 2 * w.padding - CheckedInt(w.dilation) * (CheckedInt(w.kernel) - 1) - 1;
  return span < 0 ? 0 : (span / w.stride + 1).clamped();
}

Kernel conv_kernel(ConvForm form) {
  return [form](KernelCall& call) {
    run_form(call.ctx, form, call.attrs, sides_of(form, call.inputs, call.outputs[0]), {});
    if (form.num_operands > 2) add_bias(call, 2);
  };
}

std::vector<Lowering> halo_lowerings(ConvForm form) {
  std::vector<Lowering> lowerings;
  for (int dim = 0; dim < form.num_dims; ++dim) {
    lowerings.push_back({window_letter(dim, form.num_dims),
                         "each rank fetches the rows or columns next to its own that its windows "
                         "read",
                         [form, dim](const Attrs& attrs) { return halo_steps(form, dim, attrs); },
                         Lowering::Cut::kIntervals});
  }
  return lowerings;
}

Localize conv_kernel_localize() {
  return [](const Attrs& attrs, std::span<const Spec> inputs, std::span<const Spec>, const Coord&) {
    const Shape& weight = inputs[1].global_shape();
    Attrs local = attrs;
    local.set(kKernelSize, AttrValue(std::in_place_type<Shape>, weight.begin() + 2, weight.end()));
    return local;
  };
}

Localize conv_weight_localize() {
  return [](const Attrs& attrs, std::span<const Spec> inputs, std::span<const Spec>, const Coord&) {
    Attrs local = attrs;
    const std::vector<Levels>& dims = inputs[0].layout().dims;
    for (std::size_t d = 2; d < dims.size(); ++d) {
      if (!dims[d].empty()) local.set(kOutLevels, levels_to(inputs[0].mesh(), dims[d]));
    }
    return local;
  };
}

}  // namespace tessera::ops
