#include "program/product_flops.h"

#include <algorithm>
#include <string>

namespace tessera {
namespace {

/// Product of the sizes of all letters of an equation; 0 where dims are not all named.
double letters_of(const std::string& equation, std::span<const Shape> operands) {
  double product = 1;
  std::string seen;
  std::size_t operand = 0, dim = 0;
  for (const char c : equation.substr(0, equation.find("->"))) {
    if (c == ' ') continue;
    if (c == '.') return 0;
    if (c == ',') {
      ++operand;
      dim = 0;
      continue;
    }
    if (operand >= operands.size() || dim >= operands[operand].size()) return 0;
    const std::int64_t size = operands[operand][dim++];
    if (seen.find(c) != std::string::npos) continue;
    seen += c;
    product *= static_cast<double>(size);
  }
  return product;
}

}  // namespace

double product_flops(std::string_view op, std::span<const Shape> operands, const Shape& result,
                     const Attrs& attrs) {
  if (operands.size() < 2) return 0;
  if (op == "einsum" && attrs.has("equation")) {
    return 2 * letters_of(attrs.get_string("equation"), operands);
  }
  const Shape &a = operands[0], &b = operands[1];
  if (a.empty() || b.empty()) return 0;
  static constexpr std::string_view kProducts[] = {"mm",         "matmul", "bmm", "linear",
                                                   "grouped_mm", "dot",    "mv"};
  if (std::find(std::begin(kProducts), std::end(kProducts), op) != std::end(kProducts)) {
    return 2 * static_cast<double>(num_elements(result)) * static_cast<double>(a.back());
  }
  const bool attends =
      op.starts_with("attention") || op.starts_with("scaled_dot_product_attention");
  if (attends && b.size() >= 2) {
    const bool forward =
        op.find("backward") == std::string_view::npos && op.find("grad") == std::string_view::npos;
    const double products = forward ? 1 : 2.5;  // five in place of two
    return products * 4 * static_cast<double>(num_elements(a)) *
           static_cast<double>(b[b.size() - 2]);
  }
  return 0;
}

}  // namespace tessera
