// strategies/ops/index/index_local.h: what ops addressed by index operands share: checks, indices
// as positions in this rank's part, and rules that an attribute chooses.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strategies/rules/op.h"

namespace tessera::ops {

/// Errors: InvalidArgument unless I64 or I32.
Status check_integer(const TensorMeta& index, std::string_view name);
/// Errors: InvalidArgument unless floating.
Status check_cotangent(const TensorMeta& grad);
/// An index of gather and scatter: as many dims as self, no larger but along `dim`.
Status check_index(const TensorMeta& self, const TensorMeta& index, int dim);
/// A source of scatter: self's dtype, at least as large as the index.
Status check_source(const TensorMeta& self, const TensorMeta& index, const TensorMeta& src);

/// The position that attributes `dim` and `index` name in `shape`, both from the end where
/// negative.
struct SelectedIndex {
  int dim = 0;
  std::int64_t index = 0;
};
/// Errors: InvalidArgument for a dim or an index that `shape` has not.
StatusOr<SelectedIndex> selected_index(const Shape& shape, const Attrs& attrs);

/// The dim of an operand that an index addresses, as a rank sees it.
struct AddressedDim {
  std::string_view op;
  std::int64_t global_size = 0;
  int dim = 0;
  OperandView view = {};  ///< without a spec in plain calls
  /// Whether negative positions count from the end.
  enum class Negative : std::uint8_t { kFromEnd, kRefused };
  Negative negative = Negative::kFromEnd;
};
/// Dim `dim` of input `operand` of a call.
AddressedDim addressed_dim(const KernelCall& call, std::string_view op, int operand, int dim);
/// Global positions as this rank's, a dense I64 array; −1 where another rank holds the element.
/// Errors: throws OutOfRange naming position and value.
Array local_positions(KernelCall& call, const AddressedDim& addressed, const Array& index);
/// kSkip where positions may be −1.
kernels::Absent absent_of(const AddressedDim& addressed);

/// Global indices of a rank's elements along each dim of an operand of local shape `shape`.
std::vector<std::vector<std::int64_t>> global_indices(const OperandView& view, const Shape& shape);
/// The view of result 0, without a spec in plain calls.
OperandView result_view(const KernelCall& call);
OperandView input_view(const KernelCall& call, int operand);

/// Attribute `dim` counted from the front, for lowerings, whose steps state dims.
Attrs localize_dim(const Attrs& attrs, std::span<const Spec> inputs, std::span<const Spec> outputs,
                   const Coord& coord);

/// Gives `def` the rule that `choose` picks for a call's attributes: strategies are those of an op
/// with that rule. The kernel makes indices local by itself (local_positions).
void use_rule_cases(OpDef& def, const std::vector<std::string>& rules,
                    std::function<std::size_t(const Attrs&)> choose);

}  // namespace tessera::ops
