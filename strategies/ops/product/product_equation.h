// strategies/ops/product/product_equation.h: einsum's equations: letters for the dims of operands
// and result.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strategies/rules/op.h"

namespace tessera::ops {

/// Letters a-z, A-Z for named dims, digits for those of an ellipsis, 0 the last of them.
struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

/// `text` for operands of these shapes: "ij,jk->ik", "ij,jk", "...ij,...jk". Sizes of a letter are
/// equal or 1. Errors: InvalidArgument naming the operand, and what is allowed.
StatusOr<Equation> parse_equation(std::string_view text, std::span<const Shape> shapes);
/// The size of each letter of the result.
Shape result_shape(const Equation& equation, std::span<const Shape> shapes);
/// As a rule, which is what an equation is: letters that the result lacks are summed.
StatusOr<std::string> rule_of(const Equation& equation, std::span<const Shape> shapes);
/// "ab,bc->ac" with letters only.
std::string text_of(const Equation& equation);

/// The equation's result, by permutations, products of matrices and sums; operands of one floating
/// dtype, which is the result's.
void run_equation(KernelContext& ctx, const Equation& equation, std::span<const Array> operands,
                  const Array& out);
/// The cotangent of operand `operand`, in its own letters, all of them at full size.
Var equation_gradient(GradContext& context, const Equation& equation, std::span<const Shape> shapes,
                      int operand);

}  // namespace tessera::ops
