#include "strategies/ops/schema.h"

#include <algorithm>
#include <limits>
#include <optional>

namespace tessera::ops {
namespace {

/// BOOL below integers below floating types.
int kind_of(DType dtype) { return is_floating(dtype) ? 2 : is_integer(dtype) ? 1 : 0; }

}  // namespace

AttrDef ints_attr_or_none(std::string name) {
  AttrDef attr = {std::move(name), AttrDef::Type::kInts, {}};
  attr.default_value.emplace(std::in_place_type<Shape>);
  return attr;
}

AttrDef lower_bound_attr(std::string name) {
  return double_attr(std::move(name), -std::numeric_limits<double>::infinity())
      .with(AttrDef::Number::kLowerBound);
}
AttrDef upper_bound_attr(std::string name) {
  return double_attr(std::move(name), std::numeric_limits<double>::infinity())
      .with(AttrDef::Number::kUpperBound);
}

StatusOr<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t size_a = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t size_b = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (size_a != size_b && size_a != 1 && size_b != 1) {
      return invalid_argument("operands " + to_string(a) + " and " + to_string(b) +
                              " do not broadcast: dims from the right must be equal or 1");
    }
    out[out.size() - 1 - i] = size_a == 1 ? size_b : size_a;
  }
  return out;
}

DType promote_operands(std::span<const TensorMeta> inputs) {
  std::optional<DType> of_dims, of_scalars;
  for (const TensorMeta& input : inputs) {
    if (input.absent) continue;
    std::optional<DType>& into = input.shape.empty() ? of_scalars : of_dims;
    into = into ? promote(*into, input.dtype) : input.dtype;
  }
  if (!of_dims) return of_scalars.value_or(DType::kF32);
  const bool lifts = of_scalars && kind_of(*of_scalars) > kind_of(*of_dims);
  return lifts ? *of_scalars : *of_dims;
}

StatusOr<std::vector<TensorMeta>> infer_elementwise(std::span<const TensorMeta> inputs,
                                                    const Attrs&) {
  TensorMeta out = {.shape = inputs[0].shape, .dtype = promote_operands(inputs)};
  for (const TensorMeta& input : inputs.subspan(1)) {
    TSR_ASSIGN_OR_RETURN(out.shape, broadcast(out.shape, input.shape));
  }
  return std::vector<TensorMeta>{out};
}

StatusOr<std::vector<TensorMeta>> infer_floating(std::span<const TensorMeta> inputs,
                                                 const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(auto out, infer_elementwise(inputs, attrs));
  if (!is_floating(out[0].dtype)) {
    return invalid_argument("dtype " + std::string(name_of(out[0].dtype)) +
                            " where a floating type is needed; cast with `to` first");
  }
  return out;
}

StatusOr<std::vector<TensorMeta>> infer_difference(std::span<const TensorMeta> inputs,
                                                   const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(auto out, infer_elementwise(inputs, attrs));
  if (out[0].dtype == DType::kBool) {
    return invalid_argument("BOOL has no differences; use logical_xor, or cast with `to` first");
  }
  return out;
}

StatusOr<std::vector<TensorMeta>> infer_predicate(std::span<const TensorMeta> inputs,
                                                  const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(auto out, infer_elementwise(inputs, attrs));
  out[0].dtype = DType::kBool;
  return out;
}

StatusOr<std::vector<TensorMeta>> infer_in_place(std::span<const TensorMeta> inputs, const Attrs&) {
  for (const TensorMeta& input : inputs.subspan(1)) {
    TSR_ASSIGN_OR_RETURN(const Shape both, broadcast(inputs[0].shape, input.shape));
    if (both != inputs[0].shape) {
      return invalid_argument("in place on " + to_string(inputs[0].shape) + ", but the operand " +
                              to_string(input.shape) + " would broadcast it to " + to_string(both));
    }
    if (kind_of(input.dtype) > kind_of(inputs[0].dtype)) {
      return invalid_argument("in place on " + std::string(name_of(inputs[0].dtype)) +
                              ", which cannot hold a result of " +
                              std::string(name_of(input.dtype)));
    }
  }
  return std::vector<TensorMeta>{inputs[0]};
}

Infer like_operands(std::vector<int> operands) {
  return [operands = std::move(operands)](std::span<const TensorMeta> inputs,
                                          const Attrs&) -> StatusOr<std::vector<TensorMeta>> {
    std::vector<TensorMeta> out;
    for (const int operand : operands) out.push_back(inputs[static_cast<std::size_t>(operand)]);
    return out;
  };
}

Status check_cotangent(const Infer& forward, std::span<const TensorMeta> operands,
                       const Attrs& attrs, const TensorMeta& grad) {
  for (const TensorMeta& operand : operands) {
    TSR_RETURN_IF_ERROR(check_tensor_size(view_of(operand.shape), operand.dtype));
  }
  TSR_ASSIGN_OR_RETURN(const auto results, forward(operands, attrs));
  if (results[0].shape == grad.shape) return absl::OkStatus();
  return invalid_argument("the cotangent has shape " + to_string(grad.shape) + ", but of " +
                          to_string(operands[0].shape) + " the result is " +
                          to_string(results[0].shape));
}

int nameable_dims(std::size_t ndim) { return std::max(1, static_cast<int>(ndim)); }

StatusOr<int> dim_attr(const Attrs& attrs, int ndim, std::string_view name) {
  return normalize_dim(attrs.get_int(name), ndim);
}

StatusOr<std::vector<int>> dims_attr(const Attrs& attrs, int ndim, std::string_view name) {
  std::vector<int> dims;
  for (const std::int64_t dim : attrs.get_ints_or(name, {})) {
    if (ndim == 0 && (dim == 0 || dim == -1)) continue;  // a scalar's only dim, as ATen takes it
    TSR_ASSIGN_OR_RETURN(const int normal, normalize_dim(dim, ndim));
    dims.push_back(normal);
  }
  if (dims.empty()) {
    for (int dim = 0; dim < ndim; ++dim) dims.push_back(dim);
  }
  std::sort(dims.begin(), dims.end());
  if (std::adjacent_find(dims.begin(), dims.end()) != dims.end()) {
    return invalid_argument(std::string(name) +
                            " lists a dim twice: " + to_string(attrs.get_ints_or(name, {})));
  }
  return dims;
}

int kernel_dim(const KernelCall& call, const Array& array, std::string_view name) {
  return value_or_throw(dim_attr(call.attrs, array.ndim(), name));
}

Var grad_like(GradContext& context, Var grad, int operand) {
  if (!grad.defined()) return grad;
  grad = context.sum_to(grad, context.input_shape(operand));
  const DType dtype = context.input_dtype(operand);
  if (context.dtype(grad) == dtype) return grad;
  return context.call("to", {grad}, {{"dtype", dtype}});
}

Var unsqueeze_all(GradContext& context, Var value, std::span<const int> dims) {
  for (const int dim : dims) {
    value = context.call("unsqueeze", {value}, {{"dim", std::int64_t{dim}}});
  }
  return value;
}

void take_scalars_as_lines(OpDef& def) {
  def.infer = [infer = def.infer](std::span<const TensorMeta> inputs,
                                  const Attrs& attrs) -> StatusOr<std::vector<TensorMeta>> {
    if (!inputs[0].shape.empty()) return infer(inputs, attrs);
    std::vector<TensorMeta> lines(inputs.begin(), inputs.end());
    for (TensorMeta& line : lines) {
      if (line.shape.empty() && !line.absent) line.shape = {1};
    }
    TSR_ASSIGN_OR_RETURN(auto results, infer(lines, attrs));
    for (TensorMeta& result : results) {
      if (result.shape != Shape{1}) {
        return invalid_argument("a 0-d tensor is a line of one element; the result would have " +
                                to_string(result.shape));
      }
      result.shape.clear();
    }
    return results;
  };
  def.kernel = [kernel = def.kernel](KernelCall& call) {
    if (call.inputs[0].ndim() > 0) return kernel(call);
    const auto line_of = [](const Array& x) {
      return !x.is_null() && x.ndim() == 0 ? x.try_view({1}) : x;
    };
    std::vector<Array> inputs, outputs;
    for (const Array& input : call.inputs) inputs.push_back(line_of(input));
    for (const Array& output : call.outputs) outputs.push_back(line_of(output));
    KernelCall lines{.ctx = call.ctx,
                     .inputs = inputs,
                     .attrs = call.attrs,
                     .outputs = outputs,
                     .absent = call.absent};
    kernel(lines);
  };
}

Array scratch(KernelCall& call, const Shape& shape, DType dtype) {
  return Array::empty(shape, dtype, call.ctx.allocator);
}

Array broadcast_view(const Array& x, const Shape& shape) {
  Shape strides(shape.size(), 0);
  const std::size_t lead = shape.size() - x.shape().size();
  for (std::size_t dim = lead; dim < shape.size(); ++dim) {
    if (x.shape()[dim - lead] == shape[dim]) strides[dim] = x.strides()[dim - lead];
  }
  return x.as_strided(shape, strides, x.offset());
}

Shape keep_dims(Shape shape, std::span<const int> dims) {
  for (const int dim : dims) shape[static_cast<std::size_t>(dim)] = 1;
  return shape;
}

}  // namespace tessera::ops
