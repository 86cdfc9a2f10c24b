// Operands of a call in words, for errors.
#include <string>

#include "strategies/rules/binding.h"

namespace tessera {

std::string operand_name(const Op& op, int index) {
  const auto& args = op.def.args;
  const auto i = static_cast<std::size_t>(index);
  if (!args.empty() && args.back().kind == ArgDef::Kind::kList && i + 1 >= args.size()) {
    return args.back().name + "[" + std::to_string(i + 1 - args.size()) + "]";
  }
  if (i < args.size()) return args[i].name;
  return "result " + std::to_string(i - args.size());
}

std::string describe_operands(const Op& op, std::span<const TensorMeta> inputs) {
  std::string text;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].absent) continue;
    if (!text.empty()) text += ", ";
    text += operand_name(op, static_cast<int>(i)) + " " + std::string(name_of(inputs[i].dtype)) +
            to_string(inputs[i].shape);
  }
  return text;
}

}  // namespace tessera
