// placement/reduce_op.h: what rules, plans and gradients ask of a kind of reduction; a row for each
// kind answers. How two values combine, and what changes nothing, is in kernels/fold_functions.h.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "placement/dtype.h"
#include "placement/placement.h"

namespace tessera {

/// What is known of one kind. The order of the rows is that of the enumerators.
struct ReduceOpFacts {
  ReduceOp op;
  ReduceOp fold;  ///< what combines two values; where it is another kind, their number divides
  std::optional<ReduceOp> opposite;  ///< of an extreme: what a decreasing function makes of it
  bool has_fractions;                ///< of whole numbers, too: it is for floating types only
};
inline constexpr std::array kReduceOpFacts = {
    ReduceOpFacts{ReduceOp::kSum, ReduceOp::kSum, std::nullopt, false},
    ReduceOpFacts{ReduceOp::kAvg, ReduceOp::kSum, std::nullopt, true},
    ReduceOpFacts{ReduceOp::kMax, ReduceOp::kMax, ReduceOp::kMin, false},
    ReduceOpFacts{ReduceOp::kMin, ReduceOp::kMin, ReduceOp::kMax, false},
    ReduceOpFacts{ReduceOp::kProd, ReduceOp::kProd, std::nullopt, false},
};
constexpr const ReduceOpFacts& facts_of(ReduceOp op) noexcept {
  return kReduceOpFacts[static_cast<std::size_t>(op)];
}

/// All kinds.
inline constexpr auto kReduceOps = [] {
  std::array<ReduceOp, kReduceOpFacts.size()> ops{};
  for (std::size_t i = 0; i < ops.size(); ++i) ops[i] = static_cast<ReduceOp>(i);
  return ops;
}();
inline constexpr ReduceOp kLastReduceOp = kReduceOps.back();
static_assert(std::ranges::equal(kReduceOps, kReduceOpFacts, {}, {}, &ReduceOpFacts::op));

/// "sum|avg|…"
inline std::string names_of_reduce_ops(std::string_view separator) {
  std::string text;
  for (const ReduceOp op : kReduceOps) {
    if (!text.empty()) text += separator;
    text += name_of(op);
  }
  return text;
}

/// The kind that combines two values: an average is a sum with a divisor.
constexpr ReduceOp folded_by(ReduceOp op) noexcept { return facts_of(op).fold; }
/// The number of ranks divides what they fold to: each of them counts, so that none may hold what
/// changes nothing.
constexpr bool divides(ReduceOp op) noexcept { return folded_by(op) != op; }
constexpr bool is_linear(ReduceOp op) noexcept { return folded_by(op) == ReduceOp::kSum; }
/// True if the order in which two kinds reduce does not matter.
constexpr bool commute(ReduceOp a, ReduceOp b) noexcept { return folded_by(a) == folded_by(b); }

constexpr std::optional<ReduceOp> opposite_of(ReduceOp op) noexcept {
  return facts_of(op).opposite;
}
/// The result is one of the values.
constexpr bool is_extreme(ReduceOp op) noexcept { return opposite_of(op).has_value(); }
/// Of equal values it is that value: every rank may hold the whole.
constexpr bool is_idempotent(ReduceOp op) noexcept { return is_extreme(op) || divides(op); }

/// Whether a result of this type follows from its parts: one byte holds truth values, which have no
/// sum, or numbers that wrap, so that a wider result would not be that of the parts.
constexpr bool allows(ReduceOp op, DType dtype) noexcept {
  if (size_of(dtype) == 1) return is_extreme(op);
  return is_floating(dtype) || !facts_of(op).has_fractions;
}
/// Every part enters the result with factor one: its cotangent is that of the result.
constexpr bool passes_cotangent(ReduceOp op) noexcept { return is_linear(op) && !divides(op); }

static_assert(commute(ReduceOp::kSum, ReduceOp::kAvg) && !commute(ReduceOp::kMax, ReduceOp::kMin));
static_assert(opposite_of(ReduceOp::kMax) == ReduceOp::kMin && !is_extreme(ReduceOp::kProd));
static_assert(allows(ReduceOp::kMax, DType::kBool) && !allows(ReduceOp::kAvg, DType::kI64));

}  // namespace tessera
