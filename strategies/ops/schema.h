// strategies/ops/schema.h: pieces that op definitions share: attribute declarations, shape
// inference, gradients. An Infer says shapes and dtypes where the rule does not; texts name
// operands by their position's letter.
#pragma once

#include <string>
#include <vector>

#include "strategies/rules/op.h"

namespace tessera::ops {

inline AttrDef bool_attr(std::string name, bool value) {
  return {std::move(name), AttrDef::Type::kBool, AttrValue{value}};
}
inline AttrDef int_attr(std::string name) { return {std::move(name), AttrDef::Type::kInt, {}}; }
inline AttrDef int_attr(std::string name, std::int64_t value) {
  return {std::move(name), AttrDef::Type::kInt, AttrValue{value}};
}
/// An int that is added to positions: no larger than any size, so that sums fit 64 bits.
inline AttrDef offset_attr(std::string name, std::int64_t value) {
  return int_attr(std::move(name), value).between(-kMaxTensorBytes, kMaxTensorBytes);
}
inline AttrDef double_attr(std::string name) {
  return {std::move(name), AttrDef::Type::kDouble, {}};
}
inline AttrDef double_attr(std::string name, double value) {
  return {std::move(name), AttrDef::Type::kDouble, AttrValue{value}};
}
/// A number that meets elements of the result: see AttrDef::Number.
inline AttrDef element_attr(std::string name) {
  return double_attr(std::move(name)).with(AttrDef::Number::kElement);
}
inline AttrDef element_attr(std::string name, double value) {
  return double_attr(std::move(name), value).with(AttrDef::Number::kElement);
}
/// A number that must be finite.
inline AttrDef finite_attr(std::string name) {
  return double_attr(std::move(name)).with(AttrDef::Number::kFinite);
}
inline AttrDef finite_attr(std::string name, double value) {
  return double_attr(std::move(name), value).with(AttrDef::Number::kFinite);
}
/// The least or the largest that elements of the result may be; infinite by default.
AttrDef lower_bound_attr(std::string name);
AttrDef upper_bound_attr(std::string name);
inline AttrDef ints_attr(std::string name) { return {std::move(name), AttrDef::Type::kInts, {}}; }
/// An int that may be left out.
inline AttrDef int_attr_or_none(std::string name) {
  return {std::move(name), AttrDef::Type::kInt, AttrValue{}};
}
/// A list that is empty by default.
AttrDef ints_attr_or_none(std::string name);

/// The shape that both operands broadcast to, dims from the right. Errors: InvalidArgument with
/// both shapes.
StatusOr<Shape> broadcast(const Shape& a, const Shape& b);
/// promote() of the operands with dims; a 0-d operand counts only where it is of a higher kind, an
/// absent one never. Source: torch.
DType promote_operands(std::span<const TensorMeta> inputs);
/// All operands broadcast, dtype promote_operands().
StatusOr<std::vector<TensorMeta>> infer_elementwise(std::span<const TensorMeta> inputs,
                                                    const Attrs& attrs);
/// infer_elementwise(), refusing integers, on which the function is not defined.
StatusOr<std::vector<TensorMeta>> infer_floating(std::span<const TensorMeta> inputs,
                                                 const Attrs& attrs);
/// infer_elementwise(), refusing BOOL results: truth values have no differences.
StatusOr<std::vector<TensorMeta>> infer_difference(std::span<const TensorMeta> inputs,
                                                   const Attrs& attrs);
/// infer_elementwise() with BOOL results.
StatusOr<std::vector<TensorMeta>> infer_predicate(std::span<const TensorMeta> inputs,
                                                  const Attrs& attrs);
/// The result is like operand 0, to whose shape all others must broadcast, and whose kind of dtype
/// (BOOL, integer, floating) must hold theirs.
StatusOr<std::vector<TensorMeta>> infer_in_place(std::span<const TensorMeta> inputs,
                                                 const Attrs& attrs);
/// One result for each operand listed, of its shape and dtype.
Infer like_operands(std::vector<int> operands);

/// Of a gradient's inference: `operands`, with the forward call's attributes among `attrs`, would
/// have given a result of `grad`'s shape. Errors: InvalidArgument with both, and forward's own.
Status check_cotangent(const Infer& forward, std::span<const TensorMeta> operands,
                       const Attrs& attrs, const TensorMeta& grad);

/// How many dims may be named: of a 0-d tensor one, 0 or -1, as if of size 1. Source: ATen.
int nameable_dims(std::size_t ndim);
/// Attribute `name` as a dim of a tensor of `ndim` dims. Errors: InvalidArgument.
StatusOr<int> dim_attr(const Attrs& attrs, int ndim, std::string_view name = "dim");
/// The dims listed by `name`, ascending; all where the list is empty or left out. Errors:
/// InvalidArgument, also for a repeated dim.
StatusOr<std::vector<int>> dims_attr(const Attrs& attrs, int ndim, std::string_view name = "dim");
/// The dim attribute inside a kernel, where it has been checked.
int kernel_dim(const KernelCall& call, const Array& array, std::string_view name = "dim");

/// Sums the cotangent back to operand i's shape and casts it to its dtype.
Var grad_like(GradContext& context, Var grad, int operand);
/// Inserts size-1 dims at `dims` (ascending positions in the result).
Var unsqueeze_all(GradContext& context, Var value, std::span<const int> dims);

/// Lets `def`, which works along one dim of its operands, take 0-d ones: as lines of one element,
/// whose dim is 0 or -1; results are 0-d again. Source: ATen.
void take_scalars_as_lines(OpDef& def);
/// An array for an intermediate of a kernel.
Array scratch(KernelCall& call, const Shape& shape, DType dtype);
/// An alias of `x` repeated to `shape` with strides of 0.
Array broadcast_view(const Array& x, const Shape& shape);
/// `shape` with 1 at each of `dims`.
Shape keep_dims(Shape shape, std::span<const int> dims);

}  // namespace tessera::ops
