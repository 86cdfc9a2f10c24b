// Products that an equation states: einsum, tensordot, inner. The equation is the rule.
#include <numeric>
#include <utility>

#include "kernels/elementwise.h"
#include "placement/checked_int.h"
#include "strategies/ops/call_rule.h"
#include "strategies/ops/product/product.h"
#include "strategies/ops/product/product_equation.h"
#include "strategies/ops/schema.h"

namespace tessera {
namespace {

using ops::Equation;
using Metas = StatusOr<std::vector<TensorMeta>>;
using Shapes = std::vector<Shape>;
/// The equation of a call.
using EquationOf = StatusOr<Equation> (*)(const Attrs&, std::span<const Shape>);

constexpr std::size_t kMostOperands = 8;

StatusOr<Equation> stated(const Attrs& attrs, std::span<const Shape> shapes) {
  if (shapes.size() > kMostOperands) {
    return invalid_argument(std::to_string(shapes.size()) + " operands; at most " +
                            std::to_string(kMostOperands) + " are taken");
  }
  return ops::parse_equation(attrs.get_string("equation"), shapes);
}

/// Dims `dims_self` of the first operand against `dims_other` of the second.
StatusOr<Equation> paired(std::span<const Shape> shapes, const Shape& dims_self,
                          const Shape& dims_other) {
  if (dims_self.size() != dims_other.size()) {
    return invalid_argument("dims_self " + to_string(dims_self) + " and dims_other " +
                            to_string(dims_other) + " must list equally many dims");
  }
  if (shapes[0].size() + shapes[1].size() > 26) return invalid_argument("more than 26 dims");
  Equation equation;
  char next = 'a';
  for (const Shape& shape : shapes) {
    std::string& letters = equation.operands.emplace_back();
    for (std::size_t d = 0; d < shape.size(); ++d) letters += next++;
  }
  for (std::size_t i = 0; i < dims_self.size(); ++i) {
    TSR_ASSIGN_OR_RETURN(const int a,
                         normalize_dim(dims_self[i], static_cast<int>(shapes[0].size())));
    TSR_ASSIGN_OR_RETURN(const int b,
                         normalize_dim(dims_other[i], static_cast<int>(shapes[1].size())));
    const auto at = static_cast<std::size_t>(a), other = static_cast<std::size_t>(b);
    const std::int64_t size_a = shapes[0][at], size_b = shapes[1][other];
    if (size_a != size_b) {
      return invalid_argument("self " + to_string(shapes[0]) + " and other " +
                              to_string(shapes[1]) + " have " + std::to_string(size_a) + " and " +
                              std::to_string(size_b) + " elements along the dims of pair " +
                              std::to_string(i));
    }
    equation.operands[1][other] = equation.operands[0][at];
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const std::string& others = equation.operands[1 - i];
    for (const char letter : equation.operands[i]) {
      if (others.find(letter) == std::string::npos) equation.result += letter;
    }
  }
  return equation;
}

StatusOr<Equation> of_tensordot(const Attrs& attrs, std::span<const Shape> shapes) {
  return paired(shapes, attrs.get_ints("dims_self"), attrs.get_ints("dims_other"));
}

/// The last dims; a scalar takes part as a factor.
StatusOr<Equation> of_inner(const Attrs&, std::span<const Shape> shapes) {
  const bool scalar = shapes[0].empty() || shapes[1].empty();
  return scalar ? paired(shapes, {}, {}) : paired(shapes, {-1}, {-1});
}

template <class Operands, class ShapeOf>
Shapes shapes_of(const Operands& operands, const ShapeOf& shape_of) {
  Shapes shapes;
  for (const auto& operand : operands) shapes.push_back(shape_of(operand));
  return shapes;
}

OpDef equation_op(std::string name, std::string doc, EquationOf equation_of) {
  OpDef def{.name = name, .doc = std::move(doc)};
  def.rule = "";
  def.kernel = [equation_of](KernelCall& call) {
    const Shapes shapes = shapes_of(call.inputs, [](const Array& array) { return array.shape(); });
    ops::run_equation(call.ctx, value_or_throw(equation_of(call.attrs, shapes)), call.inputs,
                      call.outputs[0]);
  };
  def.infer = [equation_of](std::span<const TensorMeta> inputs, const Attrs& attrs) -> Metas {
    const Shapes shapes = shapes_of(inputs, [](const TensorMeta& meta) { return meta.shape; });
    TSR_ASSIGN_OR_RETURN(const Equation equation, equation_of(attrs, shapes));
    TSR_ASSIGN_OR_RETURN(const DType dtype, ops::product_dtype(inputs));
    return std::vector<TensorMeta>{{ops::result_shape(equation, shapes), dtype}};
  };
  def.strategies = [name, equation_of](std::span<const Spec* const> inputs,
                                       std::span<const TensorMeta> outputs,
                                       const Attrs& attrs) -> StatusOr<std::vector<Strategy>> {
    const Shapes shapes = shapes_of(inputs, [](const Spec* spec) { return spec->global_shape(); });
    TSR_ASSIGN_OR_RETURN(const Equation equation, equation_of(attrs, shapes));
    TSR_ASSIGN_OR_RETURN(std::string rule, ops::rule_of(equation, shapes));
    return ops::strategies_of_rule({name, std::move(rule)}, inputs, outputs, attrs);
  };
  def.gradient = [equation_of](GradContext& c) {
    Shapes shapes;
    for (int i = 0; i < c.num_inputs(); ++i) shapes.push_back(c.input_shape(i));
    const Equation equation = value_or_throw(equation_of(c.attrs(), shapes));
    std::vector<Var> grads(shapes.size());
    for (int i = 0; i < c.num_inputs(); ++i) {
      if (!c.needs(i)) continue;
      grads[static_cast<std::size_t>(i)] =
          ops::grad_like(c, ops::equation_gradient(c, equation, shapes, i), i);
    }
    return grads;
  };
  return def;
}

Sample einsum_sample(std::string equation, std::vector<Shape> shapes) {
  return {.shapes = std::move(shapes), .attrs = {{"equation", std::move(equation)}}};
}

/// Kronecker product of two matrices: (a c)(b d) = ab · cd.
void run_kron(KernelCall& call) {
  const Array &a = call.inputs[0], &b = call.inputs[1];
  // No sums: the sign of a zero product stays.
  kernels::binary(call.ctx, kernels::Binary::kMul, a.try_view({a.size(0), 1, a.size(1), 1}),
                  b.try_view({1, b.size(0), 1, b.size(1)}),
                  call.outputs[0].try_view({a.size(0), b.size(0), a.size(1), b.size(1)}));
}

void add_kron(OpTable& table) {
  table.must_add(
      {.name = "kron",
       .doc = "Kronecker product of two matrices.",
       .args = {in("self"), in("other")},
       .rule = "ab, cd -> (ac)(bd) | lin A*B | prod A*B",
       .kernel = run_kron,
       .infer = [](std::span<const TensorMeta> inputs, const Attrs&) -> Metas {
         const Shape &a = inputs[0].shape, &b = inputs[1].shape;
         if (a.size() != 2 || b.size() != 2) {
           return ops::shapes_differ("self", a, "other", b, "need two matrices");
         }
         TSR_ASSIGN_OR_RETURN(const DType dtype, ops::product_dtype(inputs));
         return std::vector<TensorMeta>{
             {{(CheckedInt(a[0]) * b[0]).clamped(), (CheckedInt(a[1]) * b[1]).clamped()}, dtype}};
       },
       .gradient = [](GradContext& c) -> std::vector<Var> {
         const Shape &a = c.input_shape(0), &b = c.input_shape(1);
         const Var grad =
             c.call("reshape", {c.cotangent(0)}, {{"shape", Shape{a[0], b[0], a[1], b[1]}}});
         const auto part = [&](std::string equation, int other, int operand) {
           return ops::grad_like(
               c, c.call("einsum", {grad, c.input(other)}, {{"equation", std::move(equation)}}),
               operand);
         };
         return {c.needs(0) ? part("acbd,cd->ab", 1, 0) : Var{},
                 c.needs(1) ? part("acbd,ab->cd", 0, 1) : Var{}};
       },
       .saved_inputs = {0, 1},
       .samples = {{.shapes = {{6, 7}, {7, 6}}}, {.shapes = {{5, 3}, {2, 1}}}}});
}

}  // namespace

void add_product_einsum_ops(OpTable& table) {
  OpDef einsum = equation_op("einsum",
                             "Sums of products by an equation such as \"ij,jk->ik\"; no letter "
                             "twice in one operand.",
                             stated);
  einsum.args = {in_list("operands")};
  einsum.finite = {0};
  einsum.attrs = {{"equation", AttrDef::Type::kString, {}}};
  einsum.saved_inputs.resize(kMostOperands);
  std::iota(einsum.saved_inputs.begin(), einsum.saved_inputs.end(), 0);
  einsum.samples = {einsum_sample("ij,jk->ik", {{8, 6}, {6, 7}}),
                    einsum_sample("bij,bkj", {{2, 5, 3}, {2, 4, 3}}),
                    einsum_sample("ab,bc,ca->b", {{3, 4}, {4, 2}, {2, 3}}),
                    einsum_sample("ijk->ki", {{3, 5, 2}}),
                    einsum_sample("...ij,...jk->...ik", {{2, 3, 4}, {1, 4, 2}}),
                    einsum_sample("ij,kl->iljk", {{6, 7}, {6, 8}}),
                    einsum_sample(",ij->ji", {{}, {3, 2}}),
                    einsum_sample("->", {{}})};
  table.must_add(std::move(einsum));

  OpDef tensordot = equation_op(
      "tensordot", "Sum of products over pairs of dims; the others stand in order.", of_tensordot);
  tensordot.args = {in("self"), in("other")};
  tensordot.finite = {0, 1};
  tensordot.attrs = {ops::ints_attr_or_none("dims_self"), ops::ints_attr_or_none("dims_other")};
  tensordot.saved_inputs = {0, 1};
  tensordot.samples = {
      {.shapes = {{8, 6}, {6, 7}}, .attrs = {{"dims_self", Shape{1}}, {"dims_other", Shape{0}}}},
      {.shapes = {{5, 3, 2}, {3, 4, 2}},
       .attrs = {{"dims_self", Shape{1, -1}}, {"dims_other", Shape{0, 2}}}},
      {.shapes = {{3}, {2, 2}}}};
  table.must_add(std::move(tensordot));

  OpDef inner = equation_op("inner", "Sum of products over the last dim of both.", of_inner);
  inner.args = {in("self"), in("other")};
  inner.finite = {0, 1};
  inner.saved_inputs = {0, 1};
  inner.samples = {{.shapes = {{8, 6}, {7, 6}}}, {.shapes = {{5, 3}, {2, 1, 3}}}};
  table.must_add(std::move(inner));
  add_kron(table);
}

}  // namespace tessera
