// tools/placement_audit/call.h: one op call as JSON gives it: mesh, op, operands, attributes.
// Operands stand in the op's order; a list operand's items follow one another.
#pragma once

#include <optional>
#include <vector>

#include "io/json.h"
#include "strategies/rules/propagate.h"

namespace tessera::audit {

/// Of a list operand: each takes a spec.
inline constexpr JsonBound kListOperands = {4096, "operands"};

struct Call {
  const Op* op = nullptr;
  std::vector<std::optional<Spec>> operands;  ///< none: an optional operand that is absent
  Attrs attrs;                                ///< complete
  std::vector<ForcedRow> forced;
};

/// Reads {mesh, op, args: [{tensor, placements} | number | null | list], attrs, force}. A number is
/// a 0-d operand on every rank, see number_dtype(); `force` as read_forced() takes it. Errors:
/// those of the values; NotFound for an unknown op.
StatusOr<Call> read_call(const JsonView& root, const OpTable& table);

/// The op that a view names. Errors: NotFound naming the nearest.
StatusOr<const Op*> read_op(const JsonView& view, const OpTable& table);
/// Fits where each operand that is not optional is given, and no more than the op takes.
Status check_arity(const JsonView& args_view, std::size_t given, const OpDef& def);
/// The complete attributes of a call; `view` is absent where none are given, `call` is the call
/// itself. Null means not given. Errors: InvalidArgument.
StatusOr<Attrs> read_attrs(const std::optional<JsonView>& view, const JsonView& call, const Op& op);
/// Rows asked for, [{row, axis}], the axis optional; none where `call` has no "force".
StatusOr<std::vector<ForcedRow>> read_forced(const JsonView& call, const Mesh& mesh);
/// The dtype of a number among operands: the first tensor's (F32 without one); a number with a
/// point beside integers is F32, and an integer beside BOOL is I64. Source: torch.
DType number_dtype(const JsonView& number, std::optional<DType> first_tensor);
inline bool is_number(const JsonView& view) {
  return view.kind() == Json::Kind::kInteger || view.kind() == Json::Kind::kNumber;
}

}  // namespace tessera::audit
