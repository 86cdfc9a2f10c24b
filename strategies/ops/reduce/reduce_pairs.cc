// Whether two tensors agree everywhere.
#include <algorithm>
#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/row_fold.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using kernels::Binary;

StatusOr<std::vector<TensorMeta>> infer_agreement(std::span<const TensorMeta> inputs,
                                                  const Attrs&) {
  if (inputs[0].shape != inputs[1].shape) {
    return invalid_argument("self " + to_string(inputs[0].shape) + " and other " +
                            to_string(inputs[1].shape) + " must have one shape");
  }
  return std::vector<TensorMeta>{{{}, DType::kBool}};
}

void store_all(KernelCall& call, const Array& agrees) {
  kernels::fold_rows(call.ctx, {kernels::RowFold::kAll}, agrees.try_view({agrees.num_elements()}),
                     call.outputs[0]);
}

void run_equal(KernelCall& call) {
  const Array agrees = ops::scratch(call, call.inputs[0].shape(), DType::kBool);
  kernels::binary(call.ctx, Binary::kEq, call.inputs[0], call.inputs[1], agrees);
  store_all(call, agrees);
}

/// Within atol + rtol |other|, or equal (infinities), or both NaN where that counts as equal.
void run_allclose(KernelCall& call) {
  Array wide[2];
  for (std::size_t i = 0; i < 2; ++i) {
    wide[i] = ops::scratch(call, call.inputs[i].shape(), DType::kF64);
    kernels::copy(call.ctx, call.inputs[i], wide[i]);
  }
  const Array &a = wide[0], &b = wide[1];
  const Array agrees = ops::scratch(call, a.shape(), DType::kBool);
  const Array other = ops::scratch(call, a.shape(), DType::kBool);
  kernels::binary(call.ctx, Binary::kEq, a, b, agrees);
  if (call.attrs.get_bool("equal_nan")) {
    const Array of_b = ops::scratch(call, a.shape(), DType::kBool);
    kernels::unary(call.ctx, kernels::Unary::kIsNan, a, other);
    kernels::unary(call.ctx, kernels::Unary::kIsNan, b, of_b);
    kernels::binary(call.ctx, Binary::kLogicalAnd, other, of_b, other);
    kernels::binary(call.ctx, Binary::kLogicalOr, agrees, other, agrees);
  }
  // |a − b| ≤ atol + rtol·|b|, where b is finite.
  kernels::binary(call.ctx, Binary::kSub, a, b, a);
  kernels::unary(call.ctx, kernels::Unary::kAbs, a, a);
  kernels::unary(call.ctx, kernels::Unary::kAbs, b, b);
  const double infinity = std::numeric_limits<double>::infinity();
  const Array finite = ops::scratch(call, b.shape(), DType::kBool);
  kernels::binary_scalar(call.ctx, Binary::kLt, b, infinity, finite);
  kernels::binary_scalar(call.ctx, Binary::kMul, b, call.attrs.get_double("rtol"), b);
  kernels::binary_scalar(call.ctx, Binary::kAdd, b, call.attrs.get_double("atol"), b);
  kernels::binary(call.ctx, Binary::kLe, a, b, other);
  kernels::binary(call.ctx, Binary::kLogicalAnd, other, finite, other);
  kernels::binary(call.ctx, Binary::kLogicalOr, agrees, other, agrees);
  store_all(call, agrees);
}

/// Operands that agree but for one element, or everywhere.
auto agreeing(std::size_t but) {
  return [but](int operand, const Shape&, std::vector<double>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<double>(i % 7) + (operand == 1 && i == but ? 1.0 : 0.0);
    }
  };
}

OpDef agreement(std::string name, std::string doc, Kernel kernel) {
  constexpr std::size_t kNowhere = 1000;
  OpDef def = {.name = std::move(name),
               .doc = std::move(doc),
               .args = {in("self"), in("other")},
               .rule = "*, * -> | *:min",
               .kernel = std::move(kernel),
               .infer = infer_agreement};
  def.samples = {{.shapes = {{6, 7}, {6, 7}}, .adjust = agreeing(5)},
                 {.shapes = {{5, 3}, {5, 3}}, .adjust = agreeing(5)},
                 {.shapes = {{3, 2}, {3, 2}}, .adjust = agreeing(kNowhere)}};
  for (Sample& sample : def.samples) sample.differentiable = false;
  return def;
}

}  // namespace

void add_reduce_pairs_ops(OpTable& table) {
  table.must_add(agreement("equal", "True where all elements of two tensors are equal; NaN is not.",
                           run_equal));
  OpDef allclose =
      agreement("allclose",
                "True where all elements differ by at most atol + rtol |other|, or are "
                "equal; NaN equal NaN where equal_nan.",
                run_allclose);
  allclose.attrs = {ops::double_attr("rtol", 1e-5), ops::double_attr("atol", 1e-8),
                    ops::bool_attr("equal_nan", false)};
  table.must_add(std::move(allclose));
}

}  // namespace tessera
