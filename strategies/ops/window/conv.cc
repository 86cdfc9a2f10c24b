// Convolutions, transposed convolutions and their gradients in one and two dims. Batch and channels
// are cut as in a product; where height or width is cut, each rank fetches the halo that its
// windows read.
#include <algorithm>
#include <utility>

#include "placement/checked_int.h"
#include "strategies/ops/product/product.h"
#include "strategies/ops/schema.h"
#include "strategies/ops/window/conv_parts.h"
#include "strategies/ops/window/window_parts.h"

namespace tessera {
namespace {

using kernels::WindowDim;
using Role = ops::ConvForm::Role;
using Metas = StatusOr<std::vector<TensorMeta>>;

Status check_attrs(const Attrs& attrs, int num_dims) {
  TSR_RETURN_IF_ERROR(ops::check_window_attr(attrs, "stride", num_dims, 1));
  TSR_RETURN_IF_ERROR(ops::check_window_attr(attrs, "padding", num_dims, 0));
  return ops::check_window_attr(attrs, "dilation", num_dims, 1);
}

/// `channels` of the input, `weight`'s first two sizes as (per group of outputs, per group of
/// inputs).
Status check_shapes(std::span<const TensorMeta> inputs, int num_dims, std::int64_t groups,
                    bool transposed) {
  const Shape& x = inputs[0].shape;
  const Shape& weight = inputs[1].shape;
  const auto ndim = static_cast<std::size_t>(2 + num_dims);
  bool fits = x.size() == ndim && weight.size() == ndim && weight[0] % groups == 0;
  fits = fits && std::all_of(weight.begin() + 2, weight.end(), [](auto size) { return size > 0; });
  fits = fits && CheckedInt(x[1]) == (transposed ? weight[0] : CheckedInt(weight[1]) * groups);
  if (!fits) {
    return ops::shapes_differ(
        "input", x, "weight", weight,
        std::string("need ") + (num_dims == 1 ? "[n, c, w]" : "[n, c, h, w]") + " and " +
            (transposed ? "[c, o / groups, …]" : "[o, c / groups, …]") + " with groups " +
            std::to_string(groups) + " dividing both channels");
  }
  const std::int64_t outputs = transposed ? (CheckedInt(weight[1]) * groups).clamped() : weight[0];
  if (inputs.size() > 2 && !inputs[2].absent && inputs[2].shape != Shape{outputs}) {
    return ops::shapes_differ(
        "weight", weight, "bias", inputs[2].shape,
        "bias must have an entry for each of the " + std::to_string(outputs) + " output channels");
  }
  return absl::OkStatus();
}

/// (input, weight, bias?) → output.
Infer infer_forward(int num_dims) {
  return [num_dims](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
    TSR_RETURN_IF_ERROR(check_attrs(attrs, num_dims));
    TSR_RETURN_IF_ERROR(check_shapes(inputs, num_dims, attrs.get_int("groups"), false));
    TensorMeta out = inputs[0];
    out.shape[1] = inputs[1].shape[0];
    for (int d = 0; d < num_dims; ++d) {
      const auto at = static_cast<std::size_t>(2 + d);
      const WindowDim window =
          ops::conv_window(attrs, d, inputs[1].shape[at], inputs[0].shape[at], 0);
      out.shape[at] = ops::conv_out_size(window);
      if (out.shape[at] < 1) {
        return invalid_argument("a window of " + std::to_string(window.kernel) + " elements, " +
                                std::to_string(window.dilation) + " apart, does not fit into " +
                                std::to_string(window.size) + " with padding " +
                                std::to_string(window.padding));
      }
    }
    return std::vector<TensorMeta>{std::move(out)};
  };
}

Infer infer_transposed(int num_dims) {
  return [num_dims](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
    TSR_RETURN_IF_ERROR(check_attrs(attrs, num_dims));
    TSR_RETURN_IF_ERROR(ops::check_window_attr(attrs, "output_padding", num_dims, 0));
    TSR_RETURN_IF_ERROR(check_shapes(inputs, num_dims, attrs.get_int("groups"), true));
    TensorMeta out = inputs[0];
    out.shape[1] = (CheckedInt(inputs[1].shape[1]) * attrs.get_int("groups")).clamped();
    for (int d = 0; d < num_dims; ++d) {
      const auto at = static_cast<std::size_t>(2 + d);
      if (inputs[0].shape[at] == 0) {
        return invalid_argument("dim " + std::to_string(at) + " of the input has no elements");
      }
      const WindowDim w = ops::conv_window(attrs, d, inputs[1].shape[at], 0, 0);
      const std::int64_t more = ops::window_attr(attrs, "output_padding", d, 0);
      const CheckedInt span = CheckedInt(w.dilation) * (w.kernel - 1) + more + 1;
      out.shape[at] =
          ((CheckedInt(inputs[0].shape[at]) - 1) * w.stride - 2 * w.padding + span).clamped();
      if (out.shape[at] < 1 || more >= w.stride) {
        return invalid_argument("dim " + std::to_string(at) + " of the result would have " +
                                std::to_string(out.shape[at]) +
                                " elements; output_padding must be smaller than stride");
      }
    }
    return std::vector<TensorMeta>{std::move(out)};
  };
}

Shape with_sizes(Shape lead, const Shape& sizes) {
  lead.insert(lead.end(), sizes.begin(), sizes.end());
  return lead;
}

/// `grad` is what a convolution of these would give.
Status check_grad(int num_dims, const Attrs& attrs, const TensorMeta& grad, const TensorMeta& in,
                  const TensorMeta& weight) {
  const TensorMeta operands[] = {in, weight};
  return ops::check_cotangent(infer_forward(num_dims), operands, attrs, grad);
}

std::vector<AttrDef> conv_attrs() {
  return {ops::ints_attr_or_none("stride"), ops::ints_attr_or_none("padding"),
          ops::ints_attr_or_none("dilation"), ops::int_attr("groups", 1).at_least(1)};
}

/// The windowed sizes of a shape, as an attribute.
Shape windowed(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

Attrs without(const Attrs& attrs, std::string_view name) {
  Attrs rest;
  for (const auto& [known, value] : attrs) {
    if (known != name) rest.set(known, value);
  }
  return rest;
}
Attrs with(Attrs attrs, std::string_view name, const Shape& value) {
  attrs.set(name, value);
  return attrs;
}

std::string name_of_op(int num_dims, std::string_view what) {
  return "conv" + std::to_string(num_dims) + "d" + std::string(what);
}

Var bias_gradient(GradContext& c, Var grad, int num_dims) {
  Shape dims{0};
  for (int d = 0; d < num_dims; ++d) dims.push_back(2 + d);
  return ops::grad_like(c, c.call("sum", {grad}, {{"dim", dims}, {"keepdim", false}}), 2);
}

Gradient forward_gradient(int num_dims) {
  return [num_dims](GradContext& c) {
    std::vector<Var> grads(3);
    const Var grad = c.cotangent(0);
    if (c.needs(0)) {
      const Attrs attrs = with(c.attrs(), "input_size", windowed(c.input_shape(0)));
      grads[0] = ops::grad_like(
          c, c.call(name_of_op(num_dims, "_input_grad"), {grad, c.input(1)}, attrs), 0);
    }
    if (c.needs(1)) {
      const Attrs attrs = with(c.attrs(), "kernel_size", windowed(c.input_shape(1)));
      grads[1] = ops::grad_like(
          c, c.call(name_of_op(num_dims, "_weight_grad"), {grad, c.input(0)}, attrs), 1);
    }
    if (c.needs(2)) grads[2] = bias_gradient(c, grad, num_dims);
    return grads;
  };
}

/// A transposed convolution is the input's cotangent, so that its own is a convolution.
Gradient transposed_gradient(int num_dims) {
  return [num_dims](GradContext& c) {
    std::vector<Var> grads(3);
    const Var grad = c.cotangent(0);
    const Attrs attrs = without(c.attrs(), "output_padding");
    if (c.needs(0)) {
      grads[0] =
          ops::grad_like(c, c.call(name_of_op(num_dims, ""), {grad, c.input(1), Var{}}, attrs), 0);
    }
    if (c.needs(1)) {
      const Attrs sized = with(attrs, "kernel_size", windowed(c.input_shape(1)));
      grads[1] = ops::grad_like(
          c, c.call(name_of_op(num_dims, "_weight_grad"), {c.input(0), grad}, sized), 1);
    }
    if (c.needs(2)) grads[2] = bias_gradient(c, grad, num_dims);
    return grads;
  };
}

/// `text` with the letters of height and of the kernel's height where there are two dims.
std::string rule_of(int num_dims, std::string text) {
  for (const auto& [mark, letters] : {std::pair{"H", "h"}, std::pair{"T", "i"}}) {
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
      text.replace(at, 1, num_dims == 2 ? letters : "");
    }
  }
  return text;
}
std::string marks_of(int num_dims) { return num_dims == 2 ? "h~ w~ i! j!" : "w~ j!"; }

std::vector<Sample> forward_samples(int num_dims) {
  if (num_dims == 1) {
    return {{.shapes = {{6, 6, 11}, {7, 6, 6}, {7}},
             .attrs = {{"padding", Shape{1}}},
             .differentiable = false},
            {.shapes = {{2, 3, 5}, {2, 3, 3}}},
            {.shapes = {{2, 4, 9}, {6, 2, 3}, {6}},
             .attrs = {{"stride", Shape{2}},
                       {"padding", Shape{2}},
                       {"dilation", Shape{2}},
                       {"groups", std::int64_t{2}}}}};
  }
  return {{.shapes = {{6, 6, 8, 9}, {7, 6, 6, 6}, {7}},
           .attrs = {{"padding", Shape{2, 1}}},
           .differentiable = false},
          {.shapes = {{1, 2, 5, 4}, {2, 2, 2, 3}}, .attrs = {{"padding", Shape{1}}}},
          {.shapes = {{2, 4, 7, 6}, {4, 2, 3, 2}, {4}},
           .attrs = {{"stride", Shape{2, 1}},
                     {"padding", Shape{1, 2}},
                     {"dilation", Shape{1, 2}},
                     {"groups", std::int64_t{2}}}}};
}

std::vector<Sample> transposed_samples(int num_dims) {
  if (num_dims == 1) {
    return {{.shapes = {{6, 6, 7}, {6, 7, 6}, {7}},
             .attrs = {{"padding", Shape{2}}},
             .differentiable = false},
            {.shapes = {{2, 3, 5}, {3, 2, 3}}},
            {.shapes = {{2, 4, 5}, {4, 3, 3}, {6}},
             .attrs = {{"stride", Shape{2}},
                       {"padding", Shape{1}},
                       {"output_padding", Shape{1}},
                       {"groups", std::int64_t{2}}}}};
  }
  return {{.shapes = {{6, 6, 6, 7}, {6, 7, 6, 6}, {7}},
           .attrs = {{"padding", Shape{2, 3}}},
           .differentiable = false},
          {.shapes = {{1, 2, 5, 4}, {2, 2, 2, 3}}},
          {.shapes = {{2, 4, 3, 4}, {4, 2, 3, 2}, {4}},
           .attrs = {{"stride", Shape{2, 1}},
                     {"padding", Shape{1, 0}},
                     {"output_padding", Shape{1, 0}},
                     {"groups", std::int64_t{2}}}}};
}

/// Operands (output side, weight) and the sizes of the input side.
std::vector<Sample> input_grad_samples(int num_dims) {
  if (num_dims == 1) {
    return {{.shapes = {{6, 7, 8}, {7, 6, 6}},
             .attrs = {{"padding", Shape{1}}, {"input_size", Shape{11}}}},
            {.shapes = {{2, 2, 3}, {2, 3, 3}}, .attrs = {{"input_size", Shape{5}}}},
            {.shapes = {{2, 6, 5}, {6, 2, 3}},
             .attrs = {{"stride", Shape{2}},
                       {"padding", Shape{2}},
                       {"dilation", Shape{2}},
                       {"groups", std::int64_t{2}},
                       {"input_size", Shape{9}}}}};
  }
  return {{.shapes = {{6, 7, 7, 6}, {7, 6, 6, 6}},
           .attrs = {{"padding", Shape{2, 1}}, {"input_size", Shape{8, 9}}}},
          {.shapes = {{1, 2, 6, 4}, {2, 2, 2, 3}},
           .attrs = {{"padding", Shape{1}}, {"input_size", Shape{5, 4}}}},
          {.shapes = {{2, 4, 4, 8}, {4, 2, 3, 2}},
           .attrs = {{"stride", Shape{2, 1}},
                     {"padding", Shape{1, 2}},
                     {"dilation", Shape{1, 2}},
                     {"groups", std::int64_t{2}},
                     {"input_size", Shape{7, 6}}}}};
}

/// Operands (output side, input side) and the sizes of the weight.
std::vector<Sample> weight_grad_samples(int num_dims) {
  std::vector<Sample> samples = input_grad_samples(num_dims);
  for (Sample& sample : samples) {
    const Shape weight = sample.shapes[1];
    Shape in = sample.shapes[0];
    in[1] = weight[1] * std::max<std::int64_t>(1, sample.attrs.get_int_or("groups", 1));
    const Shape sizes = sample.attrs.get_ints("input_size");
    std::copy(sizes.begin(), sizes.end(), in.begin() + 2);
    sample.shapes[1] = in;
    sample.attrs = with(without(sample.attrs, "input_size"), "kernel_size", windowed(weight));
  }
  return samples;
}

constexpr char kInfinitiesMeet[] =
    "R, R, P(max); R, R, P(min): where the product is infinite, a rank that holds the opposite "
    "infinity, as one without elements does, gives NaN";

void add_forward(OpTable& table, int num_dims) {
  OpDef def{.name = name_of_op(num_dims, ""),
            .doc = "Convolution of [n, c, …] with weight [o, c / groups, …], plus bias [o].",
            .args = {in("input").floating(), in("weight").with_dtype_of(0),
                     in_optional("bias").with_dtype_of(0)},
            .attrs = conv_attrs(),
            .rule = rule_of(num_dims, "b(gc)Hw, (go)cTj, (go)? -> b(go)Hw | c:sum ") +
                    marks_of(num_dims) + " | lin A*B+C",
            .kernel = ops::conv_kernel({Role::kForward, num_dims, 3}),
            .infer = infer_forward(num_dims),
            .gradient = forward_gradient(num_dims),
            .saved_inputs = {0, 1},
            .localize = ops::conv_kernel_localize(),
            .lowerings = ops::halo_lowerings({Role::kForward, num_dims, 3}),
            .cotangent_spreads =
                "to the weight: the input's zero padding is a factor of its "
                "products, as in PyTorch",
            .declined = {kInfinitiesMeet},
            .samples = forward_samples(num_dims)};
  table.must_add(std::move(def));
}

void add_transposed(OpTable& table, int num_dims) {
  OpDef def{.name = "conv_transpose" + std::to_string(num_dims) + "d",
            .doc = "Transposed convolution of [n, c, …] with weight [c, o / groups, …], plus bias.",
            .args = {in("input").floating(), in("weight").with_dtype_of(0),
                     in_optional("bias").with_dtype_of(0)},
            .attrs = conv_attrs(),
            .rule = rule_of(num_dims, "b(gc)Hw, (gc)oTj, (go)? -> b(go)Hw | c:sum ") +
                    marks_of(num_dims) + " | lin A*B+C",
            .kernel = ops::conv_kernel({Role::kInput, num_dims, 3}),
            .infer = infer_transposed(num_dims),
            .gradient = transposed_gradient(num_dims),
            .saved_inputs = {0, 1},
            .localize = ops::conv_kernel_localize(),
            .lowerings = ops::halo_lowerings({Role::kInput, num_dims, 3}),
            .declined = {kInfinitiesMeet},
            .samples = transposed_samples(num_dims)};
  def.attrs.push_back(ops::ints_attr_or_none("output_padding"));
  table.must_add(std::move(def));
}

void add_input_grad(OpTable& table, int num_dims) {
  OpDef def{.name = name_of_op(num_dims, "_input_grad"),
            .doc = "Cotangent of a convolution's input, whose windowed sizes are input_size.",
            .args = {in("grad").floating(), in("weight").with_dtype_of(0)},
            .attrs = conv_attrs(),
            .rule = rule_of(num_dims, "b(go)Hw, (go)cTj -> b(gc)Hw | o:sum ") + marks_of(num_dims) +
                    " | lin A*B",
            .kernel = ops::conv_kernel({Role::kInput, num_dims, 2}),
            .localize = ops::conv_kernel_localize(),
            .lowerings = ops::halo_lowerings({Role::kInput, num_dims, 2}),
            .samples = input_grad_samples(num_dims)};
  def.attrs.push_back(ops::ints_attr("input_size"));
  def.infer = [num_dims](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
    const CheckedInt channels = CheckedInt(inputs[1].shape[1]) * attrs.get_int("groups");
    const Shape lead = {inputs[0].shape[0], channels.clamped()};
    const TensorMeta in = {with_sizes(lead, attrs.get_ints("input_size")), inputs[0].dtype};
    TSR_RETURN_IF_ERROR(check_grad(num_dims, attrs, inputs[0], in, inputs[1]));
    return std::vector<TensorMeta>{in};
  };
  table.must_add(std::move(def));
}

void add_weight_grad(OpTable& table, int num_dims) {
  OpDef def{.name = name_of_op(num_dims, "_weight_grad"),
            .doc = "Cotangent of a convolution's weight, whose windowed sizes are kernel_size.",
            .args = {in("grad").floating(), in("input").with_dtype_of(0)},
            .attrs = conv_attrs(),
            .rule = rule_of(num_dims, "b(go)Hw, b(gc)Hw -> (go)c") +
                    (num_dims == 2 ? "IJ | b:sum h~ w~" : "J | b:sum w~") + " | lin A*B",
            .kernel = ops::conv_kernel({Role::kWeight, num_dims, 2}),
            .localize = ops::conv_weight_localize(),
            .lowerings = ops::halo_lowerings({Role::kWeight, num_dims, 2}),
            .samples = weight_grad_samples(num_dims)};
  def.attrs.push_back(ops::ints_attr("kernel_size"));
  def.infer = [num_dims](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
    const Shape lead = {inputs[0].shape[1], inputs[1].shape[1] / attrs.get_int("groups")};
    const TensorMeta weight = {with_sizes(lead, attrs.get_ints("kernel_size")), inputs[0].dtype};
    TSR_RETURN_IF_ERROR(check_grad(num_dims, attrs, inputs[0], inputs[1], weight));
    return std::vector<TensorMeta>{weight};
  };
  table.must_add(std::move(def));
}

}  // namespace

void add_conv_ops(OpTable& table) {
  for (const int num_dims : {1, 2}) {
    add_forward(table, num_dims);
    add_transposed(table, num_dims);
    add_input_grad(table, num_dims);
    add_weight_grad(table, num_dims);
  }
}

}  // namespace tessera
