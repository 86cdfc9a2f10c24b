// What is found in a binding, and how its factors are called.
#include "strategies/rules/binding.h"

namespace tessera {

int Binding::dim_of(const BoundOperand& operand, int factor) noexcept {
  for (std::size_t d = 0; d < operand.size(); ++d) {
    for (int i = 0; i < operand[d].count; ++i) {
      if (operand[d].factors[static_cast<std::size_t>(i)] == factor) return static_cast<int>(d);
    }
  }
  return -1;
}

std::string name_of(const Rule&, const Factor& factor) {
  if (factor.letter == '*') return "*[-" + std::to_string(factor.position + 1) + "]";
  if (factor.letter == '.') return "...[-" + std::to_string(factor.position + 1) + "]";
  std::string name(1, factor.letter);
  if (factor.position > 0) name += "[" + std::to_string(factor.position) + "]";
  return name;
}

int rule_operand_of(const Rule& rule, int index) noexcept {
  const int last = static_cast<int>(rule.inputs.size()) - 1;
  return last >= 0 && index > last && rule.inputs.back().list ? last : index;
}

int index_operand_of(const Binding& binding, int factor,
                     std::span<const TensorMeta> inputs) noexcept {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].absent && is_index(inputs[i].dtype) &&
        Binding::dim_of(binding.inputs[i], factor) < 0) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

std::vector<IndexedFactor> indexed_factors(const Binding& binding,
                                           std::span<const TensorMeta> inputs) {
  std::vector<IndexedFactor> indexed;
  for (std::size_t f = 0; f < binding.factors.size(); ++f) {
    const Factor& factor = binding.factors[f];
    if (factor.mark == nullptr || !factor.mark->indexed) continue;
    IndexedFactor found{.factor = static_cast<int>(f), .size = factor.size};
    found.index_operand = index_operand_of(binding, found.factor, inputs);
    if (found.index_operand < 0) continue;
    const auto count = static_cast<int>(binding.inputs.size() + binding.outputs.size());
    for (int i = 0; i < count && found.addressed_operand < 0; ++i) {
      found.addressed_dim = Binding::dim_of(binding.operand(i), found.factor);
      if (found.addressed_dim >= 0) found.addressed_operand = i;
    }
    indexed.push_back(found);
  }
  return indexed;
}

}  // namespace tessera
