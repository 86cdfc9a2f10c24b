// strategies/rules/rows.h: the rows of one call before they are given texts: what propagation
// searches over. A row is one admissible combination on one mesh axis. Internal to strategies/.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "placement/api.h"
#include "strategies/rules/binding.h"
#include "strategies/rules/propagate.h"

namespace tessera TSR_API {

struct CompactRow {
  /// What the row follows from.
  enum class Origin : std::uint8_t { kFactor, kLinearity, kLowering, kAdded, kReplicate };
  Origin origin = Origin::kReplicate;
  ReduceOp reduce = ReduceOp::kSum;  ///< kLinearity, kAdded: the kind of its Partial operands
  std::int16_t factor = -1;          ///< the factor that the row cuts
  std::int16_t linearity = -1;       ///< index in Rule::linearity
  std::int16_t lowering = -1;
  std::int16_t added = -1;  ///< index in OpDef::added_rows
  bool masked = false;      ///< the cut factor is marked `#`
  absl::InlinedVector<RowEntry, 4> inputs;
  absl::InlinedVector<RowEntry, 2> outputs;

  bool has_partial_input() const noexcept;
  /// Operands that are Partial pass as they are; no cut makes the result one.
  bool passes_partials() const noexcept {
    return origin == Origin::kLinearity || (origin == Origin::kAdded && has_partial_input());
  }
};

/// The rows for these shapes, in the order of the rule, the all-R row last. `in_place` rows that
/// change the placement of an operand that the op writes are left out.
std::vector<CompactRow> compact_rows(const Op& op, const Binding& binding,
                                     std::span<const TensorMeta> inputs,
                                     std::span<const TensorMeta> outputs, const Attrs& attrs);
/// The row reads as `pattern` says; operands that are absent read as anything.
bool matches(const RowPattern& pattern, std::span<const TensorMeta> operands,
             std::span<const RowEntry> inputs, std::span<const RowEntry> outputs) noexcept;
bool any_matches(std::span<const RowPattern> patterns, std::span<const TensorMeta> operands,
                 std::span<const RowEntry> inputs, std::span<const RowEntry> outputs) noexcept;
/// With texts.
Row expand(const Op& op, const Binding& binding, const CompactRow& row);
/// "m", "k:sum", "lin A*B", "lowering r", "added P(max), R -> P(max)", "all R".
std::string why_of(const Op& op, const Binding& binding, const CompactRow& row);

}  // namespace tessera
