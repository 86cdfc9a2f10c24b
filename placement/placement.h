// placement/placement.h: how one mesh axis holds a tensor, and its text forms.
// A tensor has dims, a mesh has axes; a placement list has one Placement per mesh axis, left to
// right.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "placement/api.h"
#include "placement/ragged.h"
#include "placement/status.h"

namespace tessera TSR_API {

enum class ReduceOp : std::uint8_t { kSum, kAvg, kMax, kMin, kProd };

constexpr std::string_view name_of(ReduceOp op) noexcept {
  constexpr std::string_view kNames[] = {"sum", "avg", "max", "min", "prod"};
  return kNames[static_cast<int>(op)];
}
StatusOr<ReduceOp> parse_reduce_op(std::string_view name);

/// Every rank along the axis holds the whole tensor.
struct Replicate {
  bool operator==(const Replicate&) const = default;
};
/// Coordinate c along the axis holds chunk c of tensor dim `dim`; negative dims count from the end.
struct Shard {
  int dim = 0;
  bool operator==(const Shard&) const = default;
};
/// A shard of a dim that was first cut into `split_factor` pieces by axes to the right (or by a
/// view). Source: torch `_StridedShard(dim, split_factor)`.
struct StridedShard {
  int dim = 0;
  std::int64_t split_factor = 1;
  bool operator==(const StridedShard&) const = default;
};
/// Each rank holds a full-size summand; reducing over the axis gives the tensor.
struct Partial {
  ReduceOp op = ReduceOp::kSum;
  bool operator==(const Partial&) const = default;
};

/// Coordinate c along the axis holds the c-th part of tensor dim `dim`, cut as `sizes` say, zeros
/// allowed; they add up to the dim. Other axes may cut the parts further. A list with one size that
/// is not 0 gives the whole dim to one coordinate.
struct Ragged {
  int dim = 0;
  RaggedSizes sizes;
  bool operator==(const Ragged&) const = default;
};
/// One coordinate along the axis holds the whole tensor, the others nothing of it: the ragged cut
/// of dim 0 that gives all to `coord`.
struct Owned {
  std::int64_t coord = 0;
  bool operator==(const Owned&) const = default;
};

using Placement = std::variant<Replicate, Shard, StridedShard, Partial, Ragged, Owned>;
using Placements = std::vector<Placement>;

/// "R", "S(1)", "SS(0,2)", "P(sum)", "S(0;3,0,5)", "O(2)".
std::string to_string(const Placement& placement);
/// "(S(0), R)"
std::string to_string(std::span<const Placement> placements);
/// Reads one placement; takes torch's `_S(d, k)` and a bare `P` (sum) too. Errors: InvalidArgument
/// with the column, what was seen and the forms allowed.
StatusOr<Placement> parse_placement(std::string_view text);
/// Reads "S(0), R" with or without brackets.
StatusOr<Placements> parse_placements(std::string_view text);

}  // namespace tessera
