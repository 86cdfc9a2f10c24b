// Shapes and dtypes of an op's results, from its own function or from its rule.

#include <algorithm>

#include "strategies/rules/binding.h"
#include "strategies/rules/check_call.h"
#include "strategies/rules/op.h"

namespace tessera {
namespace {

/// Inputs whose values only address another operand: they do not take part in promotion.
std::vector<bool> index_operands(const Op& op, std::span<const TensorMeta> inputs) {
  std::vector<bool> addresses(inputs.size(), false);
  for (const RuleMark& mark : op.rule.marks) {
    if (!mark.indexed) continue;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto& dims =
          op.rule.inputs[static_cast<std::size_t>(rule_operand_of(op.rule, int(i)))].dims;
      const bool carries = std::any_of(
          dims.begin(), dims.end(), [&](const RuleDim& dim) { return dim.letter == mark.letter; });
      if (!inputs[i].absent && is_index(inputs[i].dtype) && !carries) {
        addresses[i] = true;
        break;
      }
    }
  }
  return addresses;
}

int kind_of(DType dtype) { return is_floating(dtype) ? 2 : is_integer(dtype) ? 1 : 0; }

/// Tensors of dims decide; a 0-d operand counts only where it is of a higher kind (as torch has
/// it).
DType promoted(const Op& op, std::span<const TensorMeta> inputs) {
  const std::vector<bool> skip = index_operands(op, inputs);
  std::optional<DType> dims, scalars;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].absent || skip[i]) continue;
    std::optional<DType>& into = inputs[i].shape.empty() ? scalars : dims;
    into = into ? promote(*into, inputs[i].dtype) : inputs[i].dtype;
  }
  if (!dims) return scalars.value_or(DType::kF32);
  if (scalars && kind_of(*scalars) > kind_of(*dims)) return *scalars;
  return *dims;
}

/// An op's own refusal with its name and operands.
Status named(const Op& op, std::span<const TensorMeta> inputs, const Status& status) {
  const std::string text(message_of(status));
  if (text.starts_with(op.def.name + ":")) return status;
  return Status(status.code(),
                to_absl(op.def.name + ": " + text + ". [" + describe_operands(op, inputs) + "]"));
}

StatusOr<std::vector<TensorMeta>> infer_from_rule(const Op& op, std::span<const TensorMeta> inputs,
                                                  const Attrs& attrs) {
  TSR_ASSIGN_OR_RETURN(const std::vector<Shape> shapes, shapes_from_rule(op, inputs, attrs));
  const DType dtype = promoted(op, inputs);
  std::vector<TensorMeta> outputs;
  for (std::size_t o = 0; o < shapes.size(); ++o) {
    const RuleOperand& operand = op.rule.outputs[o];
    TensorMeta meta{.shape = shapes[o], .dtype = operand.integer ? DType::kI64 : dtype};
    if (operand.alias >= 0) {
      const DType held = inputs[static_cast<std::size_t>(operand.alias)].dtype;
      if (kind_of(dtype) > kind_of(held)) {
        return invalid_argument(op.def.name + ": a result of " + std::string(name_of(dtype)) +
                                " cannot be written to " + operand_name(op, operand.alias) +
                                ", which is " + std::string(name_of(held)) + ". [" +
                                describe_operands(op, inputs) + "]");
      }
      meta.dtype = held;
    }
    outputs.push_back(std::move(meta));
  }
  return outputs;
}

/// By the op's own function. A rule's dims come before it, as it reads sizes; a rule's letters
/// after it, whose words are its own.
StatusOr<std::vector<TensorMeta>> infer_by_op(const Op& op, std::span<const TensorMeta> inputs,
                                              const Attrs& attrs) {
  const bool ruled = !op.def.rule.empty();
  if (ruled) TSR_RETURN_IF_ERROR(check_dims(op, inputs, attrs));
  StatusOr<std::vector<TensorMeta>> own = op.def.infer(inputs, attrs);
  if (!own.ok()) return named(op, inputs, own.status());
  if (ruled) TSR_RETURN_IF_ERROR(check_letters(op, inputs, attrs));
  return own;
}

}  // namespace

StatusOr<std::vector<TensorMeta>> infer(const Op& op, std::span<const TensorMeta> inputs,
                                        const Attrs& attrs) {
  TSR_RETURN_IF_ERROR(check_operands(op, inputs));
  TSR_RETURN_IF_ERROR(check_ranges(op, attrs));
  TSR_ASSIGN_OR_RETURN(std::vector<TensorMeta> results, op.def.infer != nullptr
                                                            ? infer_by_op(op, inputs, attrs)
                                                            : infer_from_rule(op, inputs, attrs));
  TSR_RETURN_IF_ERROR(check_results(op, inputs, attrs, results));
  return results;
}

}  // namespace tessera
