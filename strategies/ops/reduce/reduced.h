// strategies/ops/reduce/reduced.h: pieces that reductions over listed dims share. An op has
// attributes `dim` (an int or a list; none or empty means all dims) and `keepdim`; a row is what is
// reduced to one element.
#pragma once

#include <string>
#include <vector>

#include "strategies/ops/schema.h"

namespace tessera::ops {

/// `shape` without the dims listed, or with 1 there where `keepdim` is set. Errors:
/// InvalidArgument.
StatusOr<Shape> reduced_shape(const Shape& shape, const Attrs& attrs);
/// Like operand 0, reduced.
StatusOr<std::vector<TensorMeta>> infer_reduced(std::span<const TensorMeta> inputs,
                                                const Attrs& attrs);
/// The same, refusing integers.
StatusOr<std::vector<TensorMeta>> infer_reduced_floating(std::span<const TensorMeta> inputs,
                                                         const Attrs& attrs);
/// The same for selections: a value and its I64 index. Errors: InvalidArgument also where a row has
/// no element to select.
StatusOr<std::vector<TensorMeta>> infer_selected(std::span<const TensorMeta> inputs,
                                                 const Attrs& attrs);
/// Errors: InvalidArgument where rows are empty, saying that `what` has no value then.
Status require_rows(std::span<const TensorMeta> inputs, const Attrs& attrs, std::string_view what);

/// The dims of operand 0 that a kernel reduces.
std::vector<int> kernel_dims(const KernelCall& call);
/// Elements of each row of a tensor of `shape`.
std::int64_t row_size(const Attrs& attrs, const Shape& shape);
/// Localize: attribute `count` holds the whole tensor's row size.
Attrs localize_count(const Attrs& attrs, std::span<const Spec> inputs, std::span<const Spec>,
                     const Coord&);
/// That attribute, or operand 0's own row size in a plain call.
std::int64_t whole_row_size(const KernelCall& call);

/// x as (kept dims..., n) with the dims listed flattened: an alias where strides allow it.
Array rows_of(KernelContext& ctx, const Array& x, const std::vector<int>& dims);
/// The shape of rows_of without its last dim.
Shape kept_shape(const Shape& shape, const std::vector<int>& dims);
/// A result (contiguous, reduced dims dropped or of size 1) as an array of kept_shape.
Array as_kept(const KernelCall& call, const Array& out);

/// A value of the result's shape with its reduced dims back at size 1.
Var with_kept_dims(GradContext& c, Var value);
/// The same, repeated to operand 0's shape.
Var expanded(GradContext& c, Var value);

/// Of ops whose results are (value, index) along attribute dim: the values' cotangent goes back to
/// where they were taken from. Reads result 1.
std::vector<Var> selected_gradient(GradContext& c);

/// Dims last, first, several, all; even and uneven.
std::vector<Sample> reduction_samples();
/// Sample::adjust: distinct whole numbers, their extremes and middle neither first nor last.
void mix_numbers(int operand, const Shape& shape, std::vector<double>& values);
/// An op of one operand with attributes dim, keepdim and those samples.
OpDef reduction(std::string name, std::string doc, std::string rule, Kernel kernel);

}  // namespace tessera::ops
