// Pooling: maxima and averages over windows, and their gradients. All dims but the windowed ones
// are independent; where a windowed dim is cut, each rank fetches the halo that its windows read.
#include "kernels/pool.h"

#include <utility>

#include "kernels/elementwise.h"
#include "strategies/ops/product/product.h"
#include "strategies/ops/schema.h"
#include "strategies/ops/steps.h"
#include "strategies/ops/window/window_parts.h"

namespace tessera {
namespace {

using kernels::WindowDim;
using kernels::WindowPlane;
using Metas = StatusOr<std::vector<TensorMeta>>;

constexpr int kMostDims = kMaxDims - 1;  // one of height is put in

struct PoolForm {
  enum class What : std::uint8_t { kMax, kMaxWithIndices, kAverage } what = What::kMax;
  WindowDim::Kind windows = WindowDim::Kind::kStrided;
  int num_dims = 2;

  bool adaptive() const { return windows == WindowDim::Kind::kAdaptive; }
  /// Windowed dim `dim`, counted from the end of a tensor.
  int from_end(int dim) const { return dim - num_dims; }
};

WindowDim window_of(const PoolForm& form, const Attrs& attrs, int dim, std::int64_t size,
                    std::int64_t out_size) {
  WindowDim window{.kind = form.windows, .size = size, .out_size = out_size};
  if (form.adaptive()) return window;
  window.kernel = ops::window_attr(attrs, "kernel_size", dim, 1);
  window.stride = ops::window_attr(attrs, "stride", dim, window.kernel);
  window.padding = ops::window_attr(attrs, "padding", dim, 0);
  window.dilation = ops::window_attr(attrs, "dilation", dim, 1);
  return window;
}

/// One windowed dim that is cut, instead of what the arrays' sizes say.
struct CutDim {
  int dim = -1;
  WindowDim window{};
};

WindowPlane plane_of(const PoolForm& form, const Attrs& attrs, const Array& in, const Array& out,
                     const CutDim& cut) {
  WindowPlane plane;
  for (int d = 0; d < form.num_dims; ++d) {
    WindowDim& each = d + 1 == form.num_dims ? plane.w : plane.h;
    each = d == cut.dim ? cut.window
                        : window_of(form, attrs, d, in.size(in.ndim() + form.from_end(d)),
                                    out.size(out.ndim() + form.from_end(d)));
  }
  return plane;
}

kernels::Divisor divisor_of(const PoolForm& form, const Attrs& attrs) {
  using DivisorKind = kernels::Divisor::Kind;
  if (form.adaptive()) return {};
  if (const std::int64_t fixed = attrs.get_int("divisor_override"); fixed != 0) {
    return {DivisorKind::kFixed, static_cast<double>(fixed)};
  }
  return {attrs.get_bool("count_include_pad") ? DivisorKind::kPadded : DivisorKind::kRead};
}

void run_pool(KernelCall& call, const PoolForm& form, const Array& x, const CutDim& cut) {
  const WindowPlane plane = plane_of(form, call.attrs, x, call.outputs[0], cut);
  const Array in = ops::as_planes(x, form.num_dims);
  const Array out = ops::as_planes(call.outputs[0], form.num_dims);
  if (form.what == PoolForm::What::kAverage) {
    kernels::avg_pool(call.ctx, in, plane, divisor_of(form, call.attrs), out);
    return;
  }
  Array indices;
  if (call.outputs.size() > 1) indices = ops::as_planes(call.outputs[1], form.num_dims);
  kernels::max_pool(call.ctx, in, plane, out, indices);
}

/// `x` is not read for averages.
void run_pool_grad(KernelContext& ctx, const PoolForm& form, const Attrs& attrs, const Array& grad,
                   const Array& x, const Array& grad_x, const CutDim& cut) {
  const WindowPlane plane = plane_of(form, attrs, grad_x, grad, cut);
  const Array given = ops::as_planes(grad, form.num_dims);
  const Array result = ops::as_planes(grad_x, form.num_dims);
  if (form.what == PoolForm::What::kAverage) {
    kernels::avg_pool_grad(ctx, given, plane, divisor_of(form, attrs), result);
  } else {
    kernels::max_pool_grad(ctx, given, ops::as_planes(x, form.num_dims), plane, result);
  }
}

/// The windowed dim `dim` with the whole tensors' sizes.
WindowDim whole_window(const PoolForm& form, const Attrs& attrs, int dim, const OperandView& in,
                       const OperandView& out) {
  const auto size = [&](const OperandView& view) {
    return view.spec
        ->global_shape()[static_cast<std::size_t>(view.spec->ndim() + form.from_end(dim))];
  };
  return window_of(form, attrs, dim, size(in), size(out));
}

Interval held_by(const PoolForm& form, int dim, const OperandView& view) {
  return ops::local_interval(view, view.spec->ndim() + form.from_end(dim));
}

/// Fetches what the rank's outputs read.
std::vector<LoweringStep> forward_steps(const PoolForm& form, int dim, int num_outputs) {
  const WindowFn windows = [form, dim](const Attrs& attrs, const OperandView& operand,
                                       const OperandView& result) {
    return ops::one_interval(
        whole_window(form, attrs, dim, operand, result).inputs_of(held_by(form, dim, result)));
  };
  return ops::window_steps(
      {1, num_outputs}, form.from_end(dim), windows, [form, dim](KernelCall& call) {
        const OperandView& result = call.output_views[0];
        const WindowDim window = whole_window(form, call.attrs, dim, call.input_views[0], result);
        run_pool(call, form, call.inputs[1],
                 {dim, ops::gathering(window, held_by(form, dim, result))});
      });
}

/// The outputs that read any of the rank's inputs.
WindowFn readers(const PoolForm& form, int dim) {
  return [form, dim](const Attrs& attrs, const OperandView& grad, const OperandView& result) {
    return ops::one_interval(
        whole_window(form, attrs, dim, result, grad).outputs_of(held_by(form, dim, result)));
  };
}

std::vector<LoweringStep> avg_grad_steps(const PoolForm& form, int dim) {
  return ops::window_steps(
      {1, 1}, form.from_end(dim), readers(form, dim), [form, dim](KernelCall& call) {
        const OperandView& result = call.output_views[0];
        const WindowDim window = whole_window(form, call.attrs, dim, result, call.input_views[0]);
        run_pool_grad(call.ctx, form, call.attrs, call.inputs[1], {}, call.outputs[0],
                      {dim, ops::scattering(window, held_by(form, dim, result))});
      });
}

/// call.inputs: the cotangent, the windows that read the rank's inputs, and what these read.
void run_max_grad(KernelCall& call, const PoolForm& form, int dim) {
  const Array &grad = call.inputs[1], &x = call.inputs[2], &out = call.outputs[0];
  const OperandView& result = call.output_views[0];
  const Interval own = held_by(form, dim, result);
  WindowDim window = whole_window(form, call.attrs, dim, result, call.input_views[0]);
  const Interval outs = window.outputs_of(own);
  window = ops::gathering(window, outs);
  const Array wide = ops::scratch(call, x.shape(), x.dtype());
  run_pool_grad(call.ctx, form, call.attrs, grad, x, wide, {dim, window});
  // Inputs that no window reads lie outside what was fetched.
  kernels::fill(call.ctx, 0.0, out);
  const int at = out.ndim() + form.from_end(dim);
  const std::int64_t first = std::max(own.start, window.in_start);
  const std::int64_t last = std::min(own.stop, window.in_start + wide.size(at));
  if (first >= last) return;
  kernels::copy(call.ctx, wide.slice(at, first - window.in_start, last - window.in_start),
                out.slice(at, first - own.start, last - own.start));
}

/// Where the largest element stands is known from all that its window reads: a rank fetches the
/// windows that read its inputs, and what these read.
std::vector<LoweringStep> max_grad_steps(const PoolForm& form, int dim) {
  const WindowFn inputs = [form, dim](const Attrs& attrs, const OperandView& operand,
                                      const OperandView& result) {
    // The cotangent's whole size follows from the input's.
    WindowDim window = whole_window(form, attrs, dim, operand, operand);
    window.out_size = ops::window_attr(attrs, "grad_size", dim, 0);
    return ops::one_interval(window.inputs_of(window.outputs_of(held_by(form, dim, result))));
  };
  ops::Steps steps(2, 1);
  const auto grad = steps.operand(0), input = steps.operand(1);
  const auto read_by = steps.window(grad, form.from_end(dim), readers(form, dim));
  const auto read = steps.window(input, form.from_end(dim), inputs);
  steps.local({grad, read_by, read}, steps.results(),
              [form, dim](KernelCall& call) { run_max_grad(call, form, dim); });
  return std::move(steps).take();
}

using StepsOf = std::vector<LoweringStep> (*)(const PoolForm&, int dim);

std::vector<Lowering> lowerings(const PoolForm& form, StepsOf steps) {
  std::vector<Lowering> all;
  for (int dim = 0; dim < form.num_dims; ++dim) {
    all.push_back({ops::window_letter(dim, form.num_dims),
                   "each rank fetches what its windows read next to its own part",
                   [form, dim, steps](const Attrs&) { return steps(form, dim); },
                   Lowering::Cut::kIntervals});
  }
  return all;
}

StatusOr<std::int64_t> out_size_of(const WindowDim& w, bool rounds_up) {
  const std::int64_t span = w.size + 2 * w.padding - w.dilation * (w.kernel - 1) - 1;
  if (span < 0 || 2 * w.padding > w.kernel) {
    return invalid_argument("a window of " + std::to_string(w.kernel) + " elements, " +
                            std::to_string(w.dilation) + " apart, does not fit into " +
                            std::to_string(w.size) + " with padding " + std::to_string(w.padding) +
                            " (at most half a window)");
  }
  std::int64_t out = (span + (rounds_up ? w.stride - 1 : 0)) / w.stride + 1;
  // The last window has to start inside the input or its padding before.
  if (rounds_up && (out - 1) * w.stride >= w.size + w.padding) --out;
  return out;
}

Status check_attrs(const PoolForm& form, const Attrs& attrs) {
  const std::string_view needed = form.adaptive() ? "output_size" : "kernel_size";
  if (attrs.get_ints(needed).empty()) return invalid_argument(std::string(needed) + " is empty");
  if (form.adaptive()) return ops::check_window_attr(attrs, "output_size", form.num_dims, 1);
  TSR_RETURN_IF_ERROR(ops::check_window_attr(attrs, "kernel_size", form.num_dims, 1));
  TSR_RETURN_IF_ERROR(ops::check_window_attr(attrs, "stride", form.num_dims, 1));
  TSR_RETURN_IF_ERROR(ops::check_window_attr(attrs, "padding", form.num_dims, 0));
  return ops::check_window_attr(attrs, "dilation", form.num_dims, 1);
}

Infer infer_pool(const PoolForm& form) {
  return [form](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
    TSR_RETURN_IF_ERROR(check_attrs(form, attrs));
    TensorMeta out = inputs[0];
    const auto ndim = static_cast<int>(out.shape.size());
    if (ndim < form.num_dims || !is_floating(out.dtype)) {
      return invalid_argument("input " + std::string(name_of(out.dtype)) + to_string(out.shape) +
                              ": need a floating dtype and at least " +
                              std::to_string(form.num_dims) + " dims");
    }
    for (int d = 0; d < form.num_dims; ++d) {
      std::int64_t& size = out.shape[static_cast<std::size_t>(ndim + form.from_end(d))];
      if (form.adaptive()) {
        if (size < 1) return invalid_argument("a windowed dim has no elements");
        size = ops::window_attr(attrs, "output_size", d, 1);
        continue;
      }
      TSR_ASSIGN_OR_RETURN(
          size, out_size_of(window_of(form, attrs, d, size, 0), attrs.get_bool("ceil_mode")));
    }
    if (form.what != PoolForm::What::kMaxWithIndices) return std::vector<TensorMeta>{out};
    return std::vector<TensorMeta>{out, {out.shape, DType::kI64}};
  };
}

Shape last_sizes(const Shape& shape, int num_dims) { return {shape.end() - num_dims, shape.end()}; }

/// Of a pool's gradient: the operand that the forward call had, whose result was of `grad`'s shape.
Infer infer_grad(const PoolForm& form) {
  return [form](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
    TensorMeta whole = inputs.back();
    const bool average = form.what == PoolForm::What::kAverage;
    const std::string_view name = average ? "input_size" : "grad_size";
    const Shape sizes = attrs.get_ints(name);
    if (static_cast<int>(sizes.size()) != form.num_dims) {
      return invalid_argument(std::string(name) + " is " + to_string(sizes) + "; need " +
                              std::to_string(form.num_dims) + " entries");
    }
    if (average) std::copy(sizes.begin(), sizes.end(), whole.shape.end() - form.num_dims);
    TSR_RETURN_IF_ERROR(ops::check_cotangent(infer_pool(form), {&whole, 1}, attrs, inputs[0]));
    if (!average && last_sizes(inputs[0].shape, form.num_dims) != sizes) {
      return invalid_argument("grad_size is " + to_string(sizes) + ", but grad is " +
                              to_string(inputs[0].shape));
    }
    return std::vector<TensorMeta>{whole};
  };
}

std::vector<AttrDef> attrs_of(const PoolForm& form) {
  if (form.adaptive()) return {ops::ints_attr("output_size")};
  std::vector<AttrDef> attrs = {ops::ints_attr("kernel_size"), ops::ints_attr_or_none("stride"),
                                ops::ints_attr_or_none("padding")};
  if (form.what == PoolForm::What::kAverage) {
    attrs.push_back(ops::bool_attr("ceil_mode", false));
    attrs.push_back(ops::bool_attr("count_include_pad", true));
    attrs.push_back(ops::int_attr("divisor_override", 0));
  } else {
    attrs.push_back(ops::ints_attr_or_none("dilation"));
    attrs.push_back(ops::bool_attr("ceil_mode", false));
  }
  return attrs;
}

std::vector<Sample> samples_of(const PoolForm& form) {
  const bool two = form.num_dims == 2;
  const auto shape = [&](Shape planes, std::int64_t h, std::int64_t w) {
    if (two) planes.push_back(h);
    planes.push_back(w);
    return planes;
  };
  const auto sizes = [&](std::int64_t h, std::int64_t w) { return two ? Shape{h, w} : Shape{w}; };
  if (form.adaptive()) {
    return {{.shapes = {shape({6}, 7, 9)}, .attrs = {{"output_size", sizes(6, 7)}}},
            {.shapes = {shape({2, 3}, 5, 3)}, .attrs = {{"output_size", sizes(2, 2)}}},
            {.shapes = {shape({3}, 3, 5)}, .attrs = {{"output_size", sizes(4, 7)}}}};
  }
  std::vector<Sample> samples = {
      {.shapes = {shape({6}, 7, 8)}, .attrs = {{"kernel_size", Shape{2}}, {"stride", Shape{1}}}},
      {.shapes = {shape({2, 3}, 5, 3)},
       .attrs = {{"kernel_size", Shape{3}}, {"padding", Shape{1}}}},
      {.shapes = {shape({3}, 6, 9)},
       .attrs = {{"kernel_size", sizes(2, 3)}, {"stride", Shape{2}}, {"ceil_mode", true}}}};
  if (form.what == PoolForm::What::kAverage) {
    samples[2].attrs.set("padding", sizes(1, 1));
    samples.push_back(samples[1]);
    samples.back().attrs.set("count_include_pad", false);
    samples.push_back(samples[0]);
    samples.back().attrs.set("divisor_override", std::int64_t{3});
  } else {
    samples[2].attrs.set("dilation", sizes(1, 2));
  }
  return samples;
}

std::string stem_of(const PoolForm& form) {
  return std::string(form.adaptive() ? "adaptive_" : "") +
         (form.what == PoolForm::What::kAverage ? "avg" : "max") + "_pool" +
         std::to_string(form.num_dims) + "d";
}

/// The samples of a pool's gradient: the cotangent's shape first.
std::vector<Sample> grad_samples_of(const PoolForm& form) {
  std::vector<Sample> samples = samples_of(form);
  const OpDef pool = {.name = stem_of(form), .attrs = attrs_of(form)};
  for (Sample& sample : samples) {
    const TensorMeta in{sample.shapes[0], DType::kF64};
    const Attrs attrs = value_or_throw(complete_attrs(pool, sample.attrs));
    const Shape out = value_or_throw(infer_pool(form)({&in, 1}, attrs))[0].shape;
    const Shape& whole = sample.shapes[0];
    if (form.what == PoolForm::What::kAverage) {
      sample.attrs.set("input_size", last_sizes(whole, form.num_dims));
      sample.shapes = {out};
    } else {
      sample.attrs.set("grad_size", last_sizes(out, form.num_dims));
      sample.shapes.insert(sample.shapes.begin(), out);
    }
  }
  return samples;
}

std::string windowed_dims(const PoolForm& form) { return form.num_dims == 2 ? "*hw" : "*w"; }
std::string window_marks(const PoolForm& form) { return form.num_dims == 2 ? "h~ w~" : "w~"; }

Gradient gradient_of(const PoolForm& form) {
  return [form](GradContext& c) {
    std::vector<Var> grads(1);
    const Var grad = c.cotangent(0);
    if (!grad.defined()) return grads;
    Attrs attrs = c.attrs();
    if (form.what == PoolForm::What::kAverage) {
      attrs.set("input_size", last_sizes(c.input_shape(0), form.num_dims));
      grads[0] = c.call(stem_of(form) + "_grad", {grad}, attrs);
    } else {
      attrs.set("grad_size", last_sizes(c.shape(grad), form.num_dims));
      grads[0] = c.call(stem_of(form) + "_grad", {grad, c.input(0)}, attrs);
    }
    return grads;
  };
}

void add_pool(OpTable& table, const PoolForm& form, std::string name, std::string doc) {
  const std::string dims = windowed_dims(form);
  OpDef def{.name = std::move(name),
            .doc = std::move(doc),
            .args = {in("self").dims(form.num_dims, kMostDims)}};
  def.attrs = attrs_of(form);
  def.rule = dims + " -> " + dims;
  StepsOf steps = [](const PoolForm& f, int dim) { return forward_steps(f, dim, 1); };
  if (form.what == PoolForm::What::kMaxWithIndices) {
    def.rule += ", " + dims + " int | " + window_marks(form);
    def.num_outputs = 2;
    steps = [](const PoolForm& f, int dim) { return forward_steps(f, dim, 2); };
  } else {
    def.rule += " | " + window_marks(form);
    def.rule += form.what == PoolForm::What::kAverage ? " | lin A" : " | max A";
  }
  def.kernel = [form](KernelCall& call) { run_pool(call, form, call.inputs[0], {}); };
  def.infer = infer_pool(form);
  def.gradient = gradient_of(form);
  if (form.what != PoolForm::What::kAverage) def.saved_inputs = {0};
  def.lowerings = lowerings(form, steps);
  def.samples = samples_of(form);
  table.must_add(std::move(def));
}

void add_grad(OpTable& table, const PoolForm& form) {
  const std::string dims = windowed_dims(form);
  const bool average = form.what == PoolForm::What::kAverage;
  OpDef def{.name = stem_of(form) + "_grad", .doc = "Cotangent of a pool's operand."};
  def.attrs = attrs_of(form);
  def.attrs.push_back(ops::ints_attr(average ? "input_size" : "grad_size"));
  def.infer = infer_grad(form);
  def.samples = grad_samples_of(form);
  if (average) {
    def.args = {in("grad").floating().dims(form.num_dims, kMostDims)};
    def.rule = dims + " -> " + dims + " | " + window_marks(form) + " | lin A";
    def.kernel = [form](KernelCall& call) {
      run_pool_grad(call.ctx, form, call.attrs, call.inputs[0], {}, call.outputs[0], {});
    };
    def.lowerings = lowerings(form, avg_grad_steps);
  } else {
    def.args = {in("grad").floating().dims(form.num_dims, kMostDims), in("self").with_dtype_of(0)};
    def.rule = dims + ", " + dims + " -> " + dims + " | " + window_marks(form) + " | lin A";
    def.kernel = [form](KernelCall& call) {
      run_pool_grad(call.ctx, form, call.attrs, call.inputs[0], call.inputs[1], call.outputs[0],
                    {});
    };
    def.lowerings = lowerings(form, max_grad_steps);
  }
  table.must_add(std::move(def));
}

}  // namespace

void add_pool_ops(OpTable& table) {
  using What = PoolForm::What;
  for (const int num_dims : {1, 2}) {
    for (const auto windows : {WindowDim::Kind::kStrided, WindowDim::Kind::kAdaptive}) {
      const PoolForm average{What::kAverage, windows, num_dims};
      add_pool(table, average, stem_of(average), "Averages of windows.");
      add_grad(table, average);
      const PoolForm largest{What::kMax, windows, num_dims};
      const PoolForm indexed{What::kMaxWithIndices, windows, num_dims};
      if (largest.adaptive()) {
        add_pool(table, indexed, stem_of(indexed),
                 "Largest elements of windows that share out the dim, and where they stand.");
      } else {
        add_pool(table, largest, stem_of(largest), "Largest elements of windows.");
        add_pool(table, indexed, stem_of(indexed) + "_with_indices",
                 "Largest elements of windows, and where in the plane they stand; the first of "
                 "equals, of NaN the last.");
      }
      add_grad(table, largest);
    }
  }
}

}  // namespace tessera
