// strategies/propagate.h: from an op and its operands' specs to how it runs: which operands move
// first, what comes out, and why the runner-up lost. Pure: reads specs only, so all ranks take the
// same branch.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "placement/api.h"
#include "strategies/op.h"

namespace tessera TSR_API {

/// How one operand or result stands on one mesh axis in a row.
struct RowEntry {
  enum class Kind : std::uint8_t { kReplicate, kShard, kPartial };
  Kind kind = Kind::kReplicate;
  int dim = -1;
  ReduceOp op = ReduceOp::kSum;
  bool operator==(const RowEntry&) const = default;
};
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

/// The answer for one call.
struct Resolution {
  std::vector<Spec> inputs;  ///< what each operand must be redistributed to (equal: stays)
  std::vector<Spec> outputs;
  std::vector<Row> rows;                  ///< chosen, one per mesh axis; empty for a C++ strategy
  std::vector<std::int64_t> moved_bytes;  ///< estimate per operand, summed over ranks
  std::string why;
  std::string runner_up;  ///< what came second, and why it lost; empty if nothing else fits
  int lowering = -1;
  std::vector<int> lowering_axes;  ///< mesh axes that cut the lowered factor
};

/// Errors: InvalidArgument (shapes, dtypes, attrs), FailedPrecondition where no row keeps an
/// in-place operand's placement, or meshes differ (the text names the reinterpretation to ask for).
StatusOr<Resolution> propagate(const Op& op, std::span<const Spec* const> inputs,
                               const Attrs& attrs);
/// Closed-form estimate of bytes that all ranks together receive for src → dst. Cost: O(axes).
std::int64_t estimate_moved_bytes(const Spec& src, const Spec& dst);

}  // namespace tessera
