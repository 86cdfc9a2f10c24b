#include "strategies/ops/call_rule.h"

#include "strategies/rules/propagate.h"

namespace tessera::ops {

StatusOr<std::vector<Strategy>> strategies_of_rule(const CallRule& rule,
                                                   std::span<const Spec* const> inputs,
                                                   std::span<const TensorMeta> outputs,
                                                   const Attrs& attrs) {
  Op op;
  op.def.name = rule.op;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::string name = "operand " + std::to_string(i);
    op.def.args.push_back(inputs[i] == nullptr ? in_optional(std::move(name))
                                               : in(std::move(name)));
  }
  for (const auto& [name, value] : attrs) {
    if (std::holds_alternative<double>(value)) {
      op.def.attrs.push_back({std::string(name), AttrDef::Type::kDouble, {}});
    }
  }
  op.def.num_outputs = static_cast<int>(outputs.size());
  op.def.lowerings = rule.lowerings;
  op.def.infer = [outputs](std::span<const TensorMeta>,
                           const Attrs&) -> StatusOr<std::vector<TensorMeta>> {
    return std::vector<TensorMeta>(outputs.begin(), outputs.end());
  };
  TSR_ASSIGN_OR_RETURN(op.rule, parse_rule(rule.text));
  op.in_place.assign(outputs.size(), -1);
  TSR_ASSIGN_OR_RETURN(Resolution found, propagate(op, inputs, attrs));
  std::vector<Strategy> strategies(1);
  strategies[0] = {.inputs = std::move(found.inputs),
                   .outputs = std::move(found.outputs),
                   .why = rule.text + ": " + found.why,
                   .lowering = found.lowering,
                   .lowering_axes = std::move(found.lowering_axes)};
  return strategies;
}

std::string broadcast_letters(const Shape& operand, const Shape& out, std::string_view letters) {
  std::string text;
  const std::size_t lead = out.size() - operand.size();
  for (std::size_t d = 0; d < operand.size(); ++d) {
    text += operand[d] == out[lead + d] ? letters[lead + d] : 'K';
  }
  return text;
}

}  // namespace tessera::ops
