// strategies/rows.h: the rows of one call before they are given texts: what propagation searches
// over. A row is one admissible combination on one mesh axis. Internal to strategies/.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "placement/api.h"
#include "strategies/binding.h"
#include "strategies/propagate.h"

namespace tessera TSR_API {

struct CompactRow {
  /// What the row follows from.
  enum class Origin : std::uint8_t { kFactor, kLinearity, kLowering, kReplicate };
  Origin origin = Origin::kReplicate;
  ReduceOp reduce = ReduceOp::kSum;  ///< kLinearity: the kind of its Partials
  std::int16_t factor = -1;          ///< the factor that the row cuts
  std::int16_t linearity = -1;       ///< index in Rule::linearity
  std::int16_t lowering = -1;
  bool masked = false;  ///< the cut factor is marked `#`
  absl::InlinedVector<RowEntry, 4> inputs;
  absl::InlinedVector<RowEntry, 2> outputs;

  bool has_partial_input() const noexcept;
};

/// The rows for these shapes, in the order of the rule, the all-R row last. `in_place` rows that
/// change the placement of an operand that the op writes are left out.
std::vector<CompactRow> compact_rows(const Op& op, const Binding& binding,
                                     std::span<const TensorMeta> inputs,
                                     std::span<const TensorMeta> outputs, const Attrs& attrs);
/// With texts.
Row expand(const Op& op, const Binding& binding, const CompactRow& row);
/// "m", "k:sum", "lin A*B", "lowering r", "all R".
std::string why_of(const Op& op, const Binding& binding, const CompactRow& row);

}  // namespace tessera
