// strategies/verify_declined.h: OpDef::declined read by machine: which rows an op leaves out, and
// why. Internal to strategies/.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "placement/status.h"
#include "strategies/propagate.h"

namespace tessera {

/// "P(max), _ -> S": one entry per argument of the op (a list is one), then one per result (one for
/// all where they are as many as inferred); without "->" any results.
struct DeclinedRow {
  struct Entry {
    bool any = false;                                  ///< `_`
    RowEntry::Kind kind = RowEntry::Kind::kReplicate;  ///< `R`, `S`, `P`
    std::optional<int> dim;                            ///< `S(1)`
    std::optional<ReduceOp> op;                        ///< `P(max)`
    bool matches(const RowEntry& entry) const noexcept;
  };
  std::vector<Entry> inputs;
  std::optional<std::vector<Entry>> outputs;
};
/// One text of OpDef::declined.
struct Declined {
  std::string text;
  std::string reason;
  bool lowering = false;  ///< "lowering r: why": not about a row that local execution could find
  std::vector<DeclinedRow> rows;
};

/// Errors: InvalidArgument with what was seen and what is allowed, for `num_arguments` arguments.
StatusOr<Declined> parse_declined(std::string_view text, std::size_t num_arguments);

}  // namespace tessera
