// strategies/rules/row_pattern.h: rows in words, "P(max), R -> P(max)": what an op declines, what
// an author adds to it or leaves out of it, and what a caller asks for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "placement/api.h"
#include "placement/placement.h"
#include "placement/spec.h"
#include "placement/status.h"

namespace tessera TSR_API {

/// How one operand or result stands on one mesh axis in a row.
struct RowEntry {
  enum class Kind : std::uint8_t { kReplicate, kShard, kPartial };
  Kind kind = Kind::kReplicate;
  int dim = -1;
  ReduceOp op = ReduceOp::kSum;
  bool operator==(const RowEntry&) const = default;
};
/// "R", "S(0)", "P(sum)"
std::string to_string(const RowEntry& entry);
/// Of a tensor on `axis` of its mesh.
RowEntry entry_of(const Spec& spec, int axis);
/// `layout` with another entry on one axis, whose level comes last.
Layout with_entry(Layout layout, int axis, const RowEntry& entry);

/// "P(max), _ -> S": one entry per argument of the op (a list is one), then one per result (one for
/// all where they are as many as inferred); without "->" any results.
struct RowPattern {
  struct Entry {
    bool any = false;                                  ///< `_`
    RowEntry::Kind kind = RowEntry::Kind::kReplicate;  ///< `R`, `S`, `P`
    std::optional<int> dim;                            ///< `S(1)`
    std::optional<ReduceOp> op;                        ///< `P(max)`
    bool matches(const RowEntry& entry) const noexcept;
    /// One placement and no other: R, S(1), P(max).
    bool exact() const noexcept;
  };
  std::string text;
  std::vector<Entry> inputs;
  std::optional<std::vector<Entry>> outputs;
};
/// Errors: InvalidArgument with what was seen and what is allowed, for `num_arguments` arguments.
StatusOr<RowPattern> parse_row(std::string_view text, std::size_t num_arguments);

/// One text of OpDef::declined or OpDef::left_out: "ROW; ROW: reason".
struct Declined {
  std::string text;
  std::string reason;
  bool lowering = false;  ///< "lowering r: why": not about a row that local execution could find
  std::string factor;     ///< the letter after "lowering"
  std::vector<RowPattern> rows;
};

/// Errors: InvalidArgument with what was seen and what is allowed, for `num_arguments` arguments.
StatusOr<Declined> parse_declined(std::string_view text, std::size_t num_arguments);

}  // namespace tessera
