// Parts of a dim. A cut dim is made whole first; all others keep their cuts.
#include <algorithm>
#include <limits>

#include "kernels/elementwise.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using Metas = StatusOr<std::vector<TensorMeta>>;

struct Window {
  int dim = 0;
  std::int64_t start = 0;
  std::int64_t stop = 0;
};

/// Negative positions count from the end; positions beyond it are taken as the end.
StatusOr<Window> slice_window(const Shape& shape, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, static_cast<int>(shape.size())));
  const std::int64_t size = shape[static_cast<std::size_t>(dim)];
  const auto position = [size](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  const std::int64_t start = position(attrs.get_int("start"));
  return Window{dim, start, std::max(start, position(attrs.get_int("end")))};
}

StatusOr<Window> narrow_window(const Shape& shape, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, static_cast<int>(shape.size())));
  const std::int64_t size = shape[static_cast<std::size_t>(dim)];
  std::int64_t start = attrs.get_int("start");
  if (start < 0) start += size;
  const std::int64_t stop = start + attrs.get_int("length");
  if (start < 0 || stop < start || stop > size) {
    return invalid_argument("start " + std::to_string(attrs.get_int("start")) + ", length " +
                            std::to_string(attrs.get_int("length")) + " leave dim " +
                            std::to_string(dim) + " of " + to_string(shape));
  }
  return Window{dim, start, stop};
}

StatusOr<Window> select_window(const Shape& shape, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const int dim, ops::dim_attr(attrs, static_cast<int>(shape.size())));
  const std::int64_t size = shape[static_cast<std::size_t>(dim)];
  const std::int64_t asked = attrs.get_int("index");
  const std::int64_t index = asked < 0 ? asked + size : asked;
  if (index < 0 || index >= size) {
    return invalid_argument("index " + std::to_string(asked) + " leaves dim " +
                            std::to_string(dim) + " of " + to_string(shape));
  }
  return Window{dim, index, index + 1};
}

using WindowOf = StatusOr<Window> (*)(const Shape&, const Attrs&);

template <WindowOf kWindow>
Metas infer_part(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TensorMeta out = inputs[0];
  TSR_ASSIGN_OR_RETURN(const Window window, kWindow(out.shape, attrs));
  out.shape[static_cast<std::size_t>(window.dim)] = window.stop - window.start;
  return std::vector<TensorMeta>{out};
}

Metas infer_select(std::span<const TensorMeta> inputs, const Attrs& attrs) {
  TensorMeta out = inputs[0];
  TSR_ASSIGN_OR_RETURN(const Window window, select_window(out.shape, attrs));
  out.shape.erase(out.shape.begin() + window.dim);
  return std::vector<TensorMeta>{out};
}

template <WindowOf kWindow>
void run_part(KernelCall& call) {
  const Array& x = call.inputs[0];
  const Window window = value_or_throw(kWindow(x.shape(), call.attrs));
  call.outputs[0] = x.slice(window.dim, window.start, window.stop);
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
  if (c.output_shape(0).size() < c.input_shape(0).size()) {
    grad = c.call("unsqueeze", {grad}, {{"dim", dim}});
  }
  const std::int64_t size = c.input_shape(0)[static_cast<std::size_t>(dim)];
  return {c.call("slice_grad", {grad}, {{"dim", dim}, {"start", window.start}, {"size", size}})};
}

void add_slice_grad(OpTable& table) {
  table.must_add(
      {.name = "slice_grad",
       .doc = "Zeros of `size` along a dim, with the operand at `start`: a slice's cotangent, or "
              "padding.",
       .args = {in("grad")},
       .attrs = {ops::int_attr("dim"), ops::int_attr("start"), ops::int_attr("size")},
       .rule = "*r@dim -> *K@dim | r! | lin A | mono A",
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
         if (start < 0 || start + size > attrs.get_int("size")) {
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
       .samples = {{.shapes = {{8, 6}}, .attrs = {{"dim", 1}, {"start", 2}, {"size", 9}}},
                   {.shapes = {{5, 3}}, .attrs = {{"dim", 0}, {"start", 0}, {"size", 8}}}}});
}

OpDef part(std::string name, std::string doc, Kernel kernel, Infer infer, Gradient gradient) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .args = {in("self")},
          .attrs = {ops::int_attr("dim")},
          .rule = "*r@dim -> *K@dim | r! | lin A | mono A",
          .kernel = std::move(kernel),
          .infer = std::move(infer),
          .gradient = std::move(gradient),
          .is_view = true,
          .declined = {"S(r): what a rank holds of the window is no canonical cut of the result"}};
}

}  // namespace

void add_slice_ops(OpTable& table) {
  OpDef slice =
      part("slice", "Elements [start, end) of a dim; negative positions count from the end.",
           run_part<slice_window>, infer_part<slice_window>, part_gradient<slice_window>);
  slice.attrs.push_back(ops::int_attr("start", 0));
  slice.attrs.push_back(ops::int_attr("end", std::numeric_limits<std::int64_t>::max()));
  slice.samples = {{.shapes = {{8, 6}}, .attrs = {{"dim", 1}, {"start", 1}, {"end", 4}}},
                   {.shapes = {{5, 8}}, .attrs = {{"dim", 0}, {"start", -2}}}};
  table.must_add(std::move(slice));

  OpDef narrow =
      part("narrow", "`length` elements of a dim from `start` on.", run_part<narrow_window>,
           infer_part<narrow_window>, part_gradient<narrow_window>);
  narrow.attrs.push_back(ops::int_attr("start"));
  narrow.attrs.push_back(ops::int_attr("length"));
  narrow.samples = {{.shapes = {{8, 6}}, .attrs = {{"dim", 1}, {"start", 1}, {"length", 4}}},
                    {.shapes = {{5, 8}}, .attrs = {{"dim", 0}, {"start", 2}, {"length", 0}}}};
  table.must_add(std::move(narrow));

  OpDef select = part("select", "The slice at `index` of a dim, which goes away.", run_select,
                      infer_select, part_gradient<select_window>);
  select.attrs.push_back(ops::int_attr("index"));
  select.rule = "*r@dim -> * | r! | lin A | mono A";
  select.samples = {{.shapes = {{8, 6}}, .attrs = {{"dim", 1}, {"index", 2}}},
                    {.shapes = {{5, 8, 3}}, .attrs = {{"dim", 0}, {"index", -1}}}};
  table.must_add(std::move(select));
  add_slice_grad(table);
}

}  // namespace tessera
