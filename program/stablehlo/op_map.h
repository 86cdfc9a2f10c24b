// program/stablehlo/op_map.h: which ops of ours say what an operation of StableHLO, CHLO, MHLO or
// Shardy says. Internal to program/stablehlo/.
#pragma once

#include <span>
#include <string_view>

namespace tessera::stablehlo {

/// How operands and attributes become ours.
enum class Form {
  kElementwise,  ///< the same operands, no attributes
  kPair,         ///< two operands, of which one may be a number everywhere
  kLogical,      ///< by the type: truth or bits
  kCompare,      ///< by its direction
  kSelect,
  kClamp,
  kConvert,
  kBroadcast,
  kReshape,
  kTranspose,
  kReverse,
  kConcatenate,
  kSlice,
  kPad,
  kDynamicSlice,
  kDynamicUpdateSlice,
  kDot,  ///< dot_general, dot
  kReduce,
  kReduceWindow,
  kGather,
  kScatter,
  kTopK,
  kConstant,
  kIota,
  kPass,        ///< results are the operands
  kConstraint,  ///< sharding_constraint: written by the author
  kReshard      ///< what propagation or a partitioner put there: one redistribution
};

struct OpRow {
  std::string_view name;  ///< "stablehlo.add"
  std::string_view ops;   ///< of ours that may say it, for docs/stablehlo.md; the first for kPair
  Form form = Form::kElementwise;
  /// kPair, x with a number c: the op for (x, c) with its attribute, and that for (c, x).
  std::string_view right = {}, right_attr = {}, left = {}, left_attr = {};
};

std::span<const OpRow> op_rows();
/// Null: none of ours says it.
const OpRow* find_op_row(std::string_view name);
/// Whether it only moves elements, so that their type does not matter.
bool takes_any_type(Form form);

}  // namespace tessera::stablehlo
