// Parts of a dim, as views. Of a cut dim, each rank fetches what its share of the result needs; all
// others keep their cuts.
#include <algorithm>
#include <limits>

#include "kernels/elementwise.h"
#include "placement/checked_int.h"
#include "strategies/ops/index/index_local.h"
#include "strategies/ops/schema.h"
#include "strategies/ops/steps.h"
#include "strategies/ops/view/index_map.h"
#include "strategies/rules/held_part.h"

namespace tessera {
namespace {

using Metas = StatusOr<std::vector<TensorMeta>>;

struct Window {
  int dim = 0;
  std::int64_t start = 0;
  std::int64_t stop = 0;
  std::int64_t step = 1;

  std::int64_t count() const { return (stop - start + step - 1) / step; }
};

/// Negative positions count from the end; positions beyond it are taken as the end.
StatusOr<Window> slice_window(const Shape& shape, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, static_cast<int>(shape.size())));
  const std::int64_t size = shape[static_cast<std::size_t>(dim)];
  const auto position = [size](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const std::int64_t start = position(attrs.get_int("start"));
  // A step beyond the dim takes one position, whatever it is.
  const std::int64_t step = std::min(attrs.get_int_or("step", 1), std::max<std::int64_t>(size, 1));
  if (step < 1) {
    return invalid_argument("step is " + std::to_string(step) + ", but must be at least 1");
  }
  return Window{dim, start, std::max(start, position(attrs.get_int("end"))), step};
}

StatusOr<Window> narrow_window(const Shape& shape, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, static_cast<int>(shape.size())));
  const std::int64_t size = shape[static_cast<std::size_t>(dim)];
  std::int64_t start = attrs.get_int("start");
  if (start < 0) start += size;
  const std::int64_t length = attrs.get_int("length");
  const CheckedInt stop = CheckedInt(start) + length;
  if (start < 0 || length < 0 || stop > size) {
    return invalid_argument("start " + std::to_string(attrs.get_int("start")) + ", length " +
                            std::to_string(length) + " leave dim " + std::to_string(dim) + " of " +
                            to_string(shape));
  }
  return Window{dim, start, stop.clamped()};
}

StatusOr<Window> select_window(const Shape& shape, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const ops::SelectedIndex at, ops::selected_index(shape, attrs));
  return Window{at.dim, at.index, at.index + 1};
}

using WindowOf = StatusOr<Window> (*)(const Shape&, const Attrs&);

template <WindowOf kWindow>
Metas infer_part(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TensorMeta out = inputs[0];
  TSR_ASSIGN_OR_RETURN(const Window window, kWindow(out.shape, attrs));
  out.shape[static_cast<std::size_t>(window.dim)] = window.count();
  return std::vector<TensorMeta>{out};
}

Metas infer_select(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TensorMeta out = inputs[0];
  TSR_ASSIGN_OR_RETURN(const Window window, select_window(out.shape, attrs));
  out.shape.erase(out.shape.begin() + window.dim);
  return std::vector<TensorMeta>{out};
}

/// Every step-th element of a dim.
Array part_of(const Array& x, const Window& window) {
  const Array part = x.slice(window.dim, window.start, window.stop);
  if (window.step == 1) return part;
  Shape shape = part.shape(), strides = part.strides();
  shape[static_cast<std::size_t>(window.dim)] = window.count();
  // A step that nobody takes may be any.
  if (window.count() > 1) strides[static_cast<std::size_t>(window.dim)] *= window.step;
  return part.as_strided(shape, strides, part.offset());
}

template <WindowOf kWindow>
void run_part(KernelCall& call) {
  const Array& x = call.inputs[0];
  call.outputs[0] = part_of(x, value_or_throw(kWindow(x.shape(), call.attrs)));
}

/// What a rank's share of the result is taken from, and the share itself out of that.
template <WindowOf kWindow>
std::vector<LoweringStep> part_steps(const Attrs& attrs) {
  const WindowFn windows = [](const Attrs& global, const OperandView& operand,
                              const OperandView& result) {
    const Window window = value_or_throw(kWindow(operand.spec->global_shape(), global));
    std::vector<Interval> needed = held_part(result, window.dim).held;
    for (Interval& each : needed) {
      each = {window.start + each.start * window.step,
              window.start + (each.stop - 1) * window.step + 1};
    }
    return needed;
  };
  const int dim = static_cast<int>(attrs.get_int("dim"));
  return ops::window_steps({1, 1}, dim, windows, [dim](KernelCall& call) {
    const Array& fetched = call.inputs[1];
    kernels::copy(call.ctx,
                  part_of(fetched, {dim, 0, fetched.size(dim), call.attrs.get_int_or("step", 1)}),
                  call.outputs[0]);
  });
}

std::vector<LoweringStep> select_steps(const Attrs& attrs) {
  const WindowFn windows = [](const Attrs& global, const OperandView& operand, const OperandView&) {
    const Window window = value_or_throw(select_window(operand.spec->global_shape(), global));
    return std::vector<Interval>{{window.start, window.stop}};
  };
  const int dim = static_cast<int>(attrs.get_int("dim"));
  return ops::window_steps({1, 1}, dim, windows, [](KernelCall& call) {
    kernels::copy(call.ctx, call.inputs[1].try_view(call.outputs[0].shape()), call.outputs[0]);
  });
}

void run_select(KernelCall& call) {
  const Array& x = call.inputs[0];
  const Window window = value_or_throw(select_window(x.shape(), call.attrs));
  const Array part = x.slice(window.dim, window.start, window.stop);
  Shape shape = part.shape();
  Shape strides = part.strides();
  shape.erase(shape.begin() + window.dim);
  strides.erase(strides.begin() + window.dim);
  call.outputs[0] = part.as_strided(shape, strides, part.offset());
}

template <WindowOf kWindow>
std::vector<Var> part_gradient(GradContext& c) {
  const Window window = value_or_throw(kWindow(c.input_shape(0), c.attrs()));
  Var grad = c.cotangent(0);
  const std::int64_t dim = window.dim;
  if (window.step != 1) {
    const Var zeros = c.call("new_zeros", {grad}, {{"size", c.input_shape(0)}});
    return {c.call("slice_scatter", {zeros, grad}, c.attrs())};
  }
  if (c.output_shape(0).size() < c.input_shape(0).size()) {
    grad = c.call("unsqueeze", {grad}, {{"dim", dim}});
  }
  const std::int64_t size = c.input_shape(0)[static_cast<std::size_t>(dim)];
  return {c.call("slice_grad", {grad}, {{"dim", dim}, {"start", window.start}, {"size", size}})};
}

/// A rank's share of the padded dim: the operand's elements that fall into it, zeros around them.
std::vector<LoweringStep> pad_steps(const Attrs& attrs) {
  const std::int64_t start = attrs.get_int("start");
  const int dim = static_cast<int>(attrs.get_int("dim"));
  const auto place = [start, dim](KernelCall& call) {
    const Array& fetched = call.inputs[1];
    const Array& out = call.outputs[0];
    kernels::fill(call.ctx, 0.0, out);
    if (fetched.num_elements() == 0) return;
    const std::int64_t first = held_part(call.output_views[0], dim).held.front().start;
    const std::int64_t at = std::max<std::int64_t>(start - first, 0);
    kernels::copy(call.ctx, fetched, out.slice(dim, at, at + fetched.size(dim)));
  };
  return ops::window_steps({1, 1}, dim, ops::window_of_part(dim, start), place);
}

void add_slice_grad(OpTable& table) {
  table.must_add(
      {.name = "slice_grad",
       .doc = "Zeros of `size` along a dim, with the operand at `start`: a slice's cotangent, or "
              "padding.",
       .args = {in("grad")},
       .attrs = {ops::int_attr("dim"), ops::int_attr("start"), ops::int_attr("size")},
       .rule = "*r@dim -> *r | r~ | lin A | mono A | prod A",
       .kernel =
           [](KernelCall& call) {
             const Array& grad = call.inputs[0];
             const int dim = ops::kernel_dim(call, grad);
             const std::int64_t start = call.attrs.get_int("start");
             kernels::fill(call.ctx, 0.0, call.outputs[0]);
             kernels::copy(call.ctx, grad,
                           call.outputs[0].slice(dim, start, start + grad.size(dim)));
           },
       .infer = [](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
         TensorMeta out = inputs[0];
         TSR_ASSIGN_OR_RETURN(const int dim,
                              ops::dim_attr(attrs, static_cast<int>(out.shape.size())));
         std::int64_t& size = out.shape[static_cast<std::size_t>(dim)];
         const std::int64_t start = attrs.get_int("start");
         if (start < 0 || CheckedInt(start) + size > attrs.get_int("size")) {
           return invalid_argument("start " + std::to_string(start) + " and size " +
                                   std::to_string(attrs.get_int("size")) + " do not hold " +
                                   to_string(inputs[0].shape) + " along dim " +
                                   std::to_string(dim));
         }
         size = attrs.get_int("size");
         return std::vector<TensorMeta>{out};
       },
       .gradient = [](GradContext& c) -> std::vector<Var> {
         const std::int64_t dim = c.attrs().get_int("dim");
         const int place =
             value_or_throw(normalize_dim(dim, static_cast<int>(c.input_shape(0).size())));
         return {c.call("narrow", {c.cotangent(0)},
                        {{"dim", dim},
                         {"start", c.attrs().get_int("start")},
                         {"length", c.input_shape(0)[static_cast<std::size_t>(place)]}})};
       },
       .localize = ops::localize_dim,
       .lowerings = {{"r", "each rank fetches what falls into its share", pad_steps,
                      Lowering::Cut::kIntervals}},
       .samples = {{.shapes = {{8, 6}}, .attrs = {{"dim", 1}, {"start", 2}, {"size", 9}}},
                   {.shapes = {{5, 3}}, .attrs = {{"dim", 0}, {"start", 0}, {"size", 8}}}}});
}

template <WindowOf kWindow>
OpDef part(std::string name, std::string doc) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .args = {in("self")},
          .attrs = {ops::int_attr("dim")},
          .rule = "*r@dim -> *r | r~ | lin A | mono A | prod A",
          .kernel = run_part<kWindow>,
          .infer = infer_part<kWindow>,
          .gradient = part_gradient<kWindow>,
          .localize = ops::localize_dim,
          .lowerings = {{"r", "each rank fetches what its share of the result is taken from",
                         part_steps<kWindow>, Lowering::Cut::kIntervals}},
          .is_view = true};
}

}  // namespace

void add_slice_ops(OpTable& table) {
  OpDef slice = part<slice_window>(
      "slice",
      "Every step-th element of [start, end) of a dim; negative positions count from the "
      "end.");
  slice.attrs.push_back(ops::int_attr("start", 0));
  slice.attrs.push_back(ops::int_attr("end", std::numeric_limits<std::int64_t>::max()));
  slice.attrs.push_back(ops::int_attr("step", 1));
  slice.samples = {{.shapes = {{8, 6}}, .attrs = {{"dim", 1}, {"start", 1}, {"end", 4}}},
                   {.shapes = {{6, 9}}, .attrs = {{"dim", 1}, {"start", 1}, {"step", 3}}},
                   {.shapes = {{5, 8}}, .attrs = {{"dim", 0}, {"start", -2}}}};
  table.must_add(std::move(slice));

  OpDef narrow = part<narrow_window>("narrow", "`length` elements of a dim from `start` on.");
  narrow.attrs.push_back(ops::int_attr("start"));
  narrow.attrs.push_back(ops::int_attr("length"));
  narrow.samples = {{.shapes = {{8, 6}}, .attrs = {{"dim", 1}, {"start", 1}, {"length", 4}}},
                    {.shapes = {{5, 8}}, .attrs = {{"dim", 0}, {"start", 2}, {"length", 0}}}};
  table.must_add(std::move(narrow));

  OpDef select = part<select_window>("select", "The slice at `index` of a dim, which goes away.");
  select.kernel = run_select;
  select.infer = infer_select;
  select.lowerings = {{"r", "all ranks fetch the slice", select_steps}};
  select.attrs.push_back(ops::int_attr("index"));
  select.rule = "*r@dim -> * | r! | lin A | mono A | prod A";
  select.samples = {{.shapes = {{8, 6}}, .attrs = {{"dim", 1}, {"index", 2}}},
                    {.shapes = {{5, 8, 3}}, .attrs = {{"dim", 0}, {"index", -1}}}};
  table.must_add(std::move(select));
  add_slice_grad(table);
}

}  // namespace tessera
