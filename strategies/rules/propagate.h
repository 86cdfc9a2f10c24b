// strategies/rules/propagate.h: from an op and its operands' specs to how it runs: which operands
// move first, what comes out, and why the runner-up lost. Pure: reads specs only, so all ranks take
// the same branch.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "placement/api.h"
#include "strategies/rules/op.h"

namespace tessera TSR_API {

/// One admissible combination on one mesh axis.
struct Row {
  std::vector<RowEntry> inputs;
  std::vector<RowEntry> outputs;
  std::string why;         ///< "m", "k:sum", "lin A*B", "all R", "lowering r"
  int lowering = -1;       ///< index in OpDef::lowerings
  int masked_factor = -1;  ///< the `#` factor cut by this row: index operands are made local
};

/// The rows of `op` for these operand shapes and attributes on an axis of `axis_size`, in the order
/// of the rule; rows that in-place operands forbid are left out. Errors: those of infer().
StatusOr<std::vector<Row>> rows_of(const Op& op, std::span<const TensorMeta> inputs,
                                   const Attrs& attrs, std::int64_t axis_size);
/// "S(0), R -> S(0)"
std::string to_string(const Row& row);

/// A factor (`#`) whose positions the values of an operand give.
struct IndexedFactor {
  int factor = -1;             ///< in the call's binding, as Row::masked_factor has it
  std::int64_t size = 0;       ///< values lie in [0, size)
  int index_operand = -1;      ///< whose values they are
  int addressed_operand = -1;  ///< that has the factor: the first; results count after operands
  int addressed_dim = -1;
};

/// The answer for one call.
struct Resolution {
  std::vector<Spec> inputs;  ///< what each operand must be redistributed to (equal: stays)
  std::vector<Spec> outputs;
  std::vector<Row> rows;                  ///< chosen, one per mesh axis; empty for a C++ strategy
  std::vector<std::int64_t> moved_bytes;  ///< per operand, see estimate_moved_bytes()
  std::string why;
  std::vector<IndexedFactor> indexed;  ///< of the op's rule
  std::string runner_up;  ///< what came second, and why it lost; empty if nothing else fits
  int lowering = -1;
  std::vector<int> lowering_axes;  ///< mesh axes that cut the lowered factor
};

/// A row that a caller wants, whatever it moves.
struct ForcedRow {
  std::string row;   ///< as Row::why has it, "k:sum", or in full, "S(1), S(0) -> P(sum)"
  std::string axis;  ///< of the mesh; empty: every axis on which an operand is not R
  std::string by;    ///< who asks: for texts
};

/// Of `forced`, a later one counts where two name an axis; on meshes without the axis it says
/// nothing. Errors: InvalidArgument (shapes, dtypes, attrs), FailedPrecondition where no row keeps
/// an in-place operand's placement, where the call has no row that is forced, or meshes differ (the
/// text names the reinterpretation to ask for).
StatusOr<Resolution> propagate(const Op& op, std::span<const Spec* const> inputs,
                               const Attrs& attrs, std::span<const ForcedRow> forced = {});
/// Bytes that all ranks together receive for src → dst, in closed form: those of the plan, but
/// where axes change places among dims (docs/redistribution.md). What would turn from Shard into
/// Partial counts as if it became whole, for it costs that much to come back. Cost: O(axes).
std::int64_t estimate_moved_bytes(const Spec& src, const Spec& dst);

}  // namespace tessera
