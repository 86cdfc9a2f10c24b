#include "strategies/ops/reduce/reduced.h"

#include <algorithm>

#include "kernels/elementwise.h"

namespace tessera::ops {
namespace {

/// The attribute that localize_count sets.
constexpr std::string_view kCount = "count";

bool contains(const std::vector<int>& dims, int dim) {
  return std::binary_search(dims.begin(), dims.end(), dim);
}

}  // namespace

StatusOr<Shape> reduced_shape(const Shape& shape, const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const auto dims, dims_attr(attrs, static_cast<int>(shape.size())));
  return attrs.get_bool_or("keepdim", false) ? keep_dims(shape, dims) : kept_shape(shape, dims);
}

StatusOr<std::vector<TensorMeta>> infer_reduced(std::span<const TensorMeta> inputs,
                                                const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const Shape shape, reduced_shape(inputs[0].shape, attrs));
  return std::vector<TensorMeta>{{shape, inputs[0].dtype}};
}

StatusOr<std::vector<TensorMeta>> infer_reduced_floating(std::span<const TensorMeta> inputs,
                                                         const Attrs& attrs) {
  if (!is_floating(inputs[0].dtype)) {
    return invalid_argument("dtype " + std::string(name_of(inputs[0].dtype)) +
                            " where a floating type is needed; cast with `to` first");
  }
  return infer_reduced(inputs, attrs);
}

StatusOr<std::vector<TensorMeta>> infer_selected(std::span<const TensorMeta> inputs,
                                                 const Attrs& attrs) {
  TSR_RETURN_IF_ERROR(require_rows(inputs, attrs, "a selection"));
  TSR_ASSIGN_OR_RETURN(const Shape shape, reduced_shape(inputs[0].shape, attrs));
  return std::vector<TensorMeta>{{shape, inputs[0].dtype}, {shape, DType::kI64}};
}

Status require_rows(std::span<const TensorMeta> inputs, const Attrs& attrs, std::string_view what) {
  const Shape& shape = inputs[0].shape;
  TSR_RETURN_IF_ERROR(dims_attr(attrs, static_cast<int>(shape.size())).status());
  if (row_size(attrs, shape) > 0) return absl::OkStatus();
  const Shape dims = attrs.get_ints_or("dim", {});
  return invalid_argument((dims.empty() ? "all dims" : "dim " + to_string(dims)) + " of " +
                          to_string(shape) + " hold no element, and " + std::string(what) +
                          " of none has no value");
}

std::vector<int> kernel_dims(const KernelCall& call) {
  return value_or_throw(dims_attr(call.attrs, call.inputs[0].ndim()));
}

std::int64_t row_size(const Attrs& attrs, const Shape& shape) {
  std::int64_t count = 1;
  for (const int dim : value_or_throw(dims_attr(attrs, static_cast<int>(shape.size())))) {
    count *= shape[static_cast<std::size_t>(dim)];
  }
  return count;
}

Attrs localize_count(const Attrs& attrs, std::span<const Spec> inputs, std::span<const Spec>,
                     const Coord&) {
  Attrs local = attrs;
  local.set(kCount, row_size(attrs, inputs[0].global_shape()));
  return local;
}

std::int64_t whole_row_size(const KernelCall& call) {
  if (call.attrs.has(kCount)) return call.attrs.get_int(kCount);
  return row_size(call.attrs, call.inputs[0].shape());
}

Shape kept_shape(const Shape& shape, const std::vector<int>& dims) {
  Shape kept;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!contains(dims, static_cast<int>(d))) kept.push_back(shape[d]);
  }
  return kept;
}

Array rows_of(KernelContext& ctx, const Array& x, const std::vector<int>& dims) {
  Shape shape = kept_shape(x.shape(), dims);
  Shape strides = kept_shape(x.strides(), dims);
  Shape flat = shape;
  std::int64_t n = 1;
  for (const int dim : dims) {
    shape.push_back(x.size(dim));
    strides.push_back(x.strides()[static_cast<std::size_t>(dim)]);
    n *= x.size(dim);
  }
  flat.push_back(n);
  const Array moved = x.as_strided(shape, strides, x.offset());
  const Array alias = moved.try_view(flat);
  return alias.is_null() ? kernels::contiguous(ctx, moved).try_view(flat) : alias;
}

Array as_kept(const KernelCall& call, const Array& out) {
  if (!call.attrs.get_bool_or("keepdim", false)) return out;
  const auto dims = value_or_throw(dims_attr(call.attrs, out.ndim()));
  return out.try_view(kept_shape(out.shape(), dims));
}

Var with_kept_dims(GradContext& c, Var value) {
  if (c.attrs().get_bool_or("keepdim", false)) return value;
  const int ndim = static_cast<int>(c.input_shape(0).size());
  return unsqueeze_all(c, value, value_or_throw(dims_attr(c.attrs(), ndim)));
}

Var expanded(GradContext& c, Var value) {
  return c.call("expand", {with_kept_dims(c, value)}, {{"size", c.input_shape(0)}});
}

std::vector<Var> selected_gradient(GradContext& c) {
  if (!c.cotangent(0).defined()) return {Var{}};
  return {c.call("gather_grad", {with_kept_dims(c, c.cotangent(0)), with_kept_dims(c, c.output(1))},
                 {{"dim", c.attrs().get_int("dim")}, {"size", c.input_shape(0)}})};
}

std::vector<Sample> reduction_samples() {
  return {{.shapes = {{8, 6}}, .attrs = {{"dim", Shape{1}}}},
          {.shapes = {{5, 3}}, .attrs = {{"dim", Shape{0}}, {"keepdim", true}}},
          {.shapes = {{8, 3, 2}}, .attrs = {{"dim", Shape{0, -1}}}},
          {.shapes = {{5, 2}}}};
}

void mix_numbers(int, const Shape& shape, std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>((11 * i + 17) % values.size());  // 11 divides no sample's size
  }
  // Low and high do not lie alike in all samples.
  if (!shape.empty() && shape[0] % 2 == 1) std::reverse(values.begin(), values.end());
}

OpDef reduction(std::string name, std::string doc, std::string rule, Kernel kernel) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .args = {in("self")},
          .attrs = {ints_attr_or_none("dim"), bool_attr("keepdim", false)},
          .rule = std::move(rule),
          .kernel = std::move(kernel),
          .infer = infer_reduced,
          .samples = reduction_samples()};
}

}  // namespace tessera::ops
