// strategies/rules/binding.h: a rule on concrete shapes: which factors stand at which dim of which
// operand. A factor has one global size in all operands that carry it, or it may not be cut.
// Internal to strategies/.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "placement/api.h"
#include "strategies/rules/propagate.h"

namespace tessera TSR_API {

/// One dim of one operand; outputs are numbered after the inputs.
struct DimRef {
  int operand = -1;
  int dim = -1;
};

/// A letter, a position of `*` or `...`, or one of the dims that an attribute lists.
struct Factor {
  char letter = 0;   ///< a–z, '*', or '.' for an ellipsis
  int position = 0;  ///< '*', '.': from the right; listed dims: place in the list
  std::int64_t size = -1;
  const RuleMark* mark = nullptr;  ///< null: plain
  bool cuttable = true;            ///< false where the sizes of its carriers differ
  DimRef first;                    ///< the carrier that gave the size
  DimRef unequal;                  ///< the carrier with another size
  std::int64_t unequal_size = -1;

  bool plain() const noexcept { return mark == nullptr; }
};

/// The factors of one dim, major first; none for an attribute's size and for a broadcast dim.
struct BoundDim {
  std::int8_t count = 0;
  std::array<std::int8_t, 4> factors{};
};
using BoundOperand = absl::InlinedVector<BoundDim, 4>;

struct Binding {
  absl::InlinedVector<Factor, 6> factors;
  absl::InlinedVector<BoundOperand, 4> inputs;
  absl::InlinedVector<BoundOperand, 2> outputs;

  /// The dim of an operand that carries `factor`, or −1.
  static int dim_of(const BoundOperand& operand, int factor) noexcept;
  const BoundOperand& operand(int index) const noexcept {
    const auto i = static_cast<std::size_t>(index);
    return i < inputs.size() ? inputs[i] : outputs[i - inputs.size()];
  }
};

/// "m", "*[-1]", "r[0]" of several listed dims.
std::string name_of(const Rule& rule, const Factor& factor);
/// The operand of the rule that input `index` stands for (the last may be a list).
int rule_operand_of(const Rule& rule, int index) noexcept;
/// The input whose values address `factor` (marked `#`): the first integer one without it; −1 if
/// there is none.
int index_operand_of(const Binding& binding, int factor,
                     std::span<const TensorMeta> inputs) noexcept;

/// The indexed factors that some operand gives values for.
std::vector<IndexedFactor> indexed_factors(const Binding& binding,
                                           std::span<const TensorMeta> inputs);

/// Errors: InvalidArgument for a number of dims that the rule does not take, or a dim attribute out
/// of range.
StatusOr<Binding> bind_rule(const Op& op, std::span<const TensorMeta> inputs,
                            std::span<const TensorMeta> outputs, const Attrs& attrs);
/// Inputs only. Errors: those of bind_rule().
Status check_dims(const Op& op, std::span<const TensorMeta> inputs, const Attrs& attrs);
/// Errors: InvalidArgument where a letter has two sizes that the rule takes for one; those of
/// windows, and those that an index operand has, may differ. Requires check_dims().
Status check_letters(const Op& op, std::span<const TensorMeta> inputs, const Attrs& attrs);
/// Inputs only, with the shapes of the results that follow: what infer() does by default.
StatusOr<std::vector<Shape>> shapes_from_rule(const Op& op, std::span<const TensorMeta> inputs,
                                              const Attrs& attrs);
/// "[a F64[4, 6], b F64[3]]": the tail of an error text.
std::string describe_operands(const Op& op, std::span<const TensorMeta> inputs);
/// The schema name of input `index`: "a", or "tensors[2]" in a list.
std::string operand_name(const Op& op, int index);

}  // namespace tessera
