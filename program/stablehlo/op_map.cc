#include "program/stablehlo/op_map.h"

#include "absl/container/flat_hash_map.h"

namespace tessera::stablehlo {
namespace {

constexpr OpRow kRows[] = {
    {"chlo.acos", "acos"},
    {"chlo.acosh", "acosh"},
    {"chlo.asin", "asin"},
    {"chlo.asinh", "asinh"},
    {"chlo.atan", "atan"},
    {"chlo.atanh", "atanh"},
    {"chlo.cosh", "cosh"},
    {"chlo.digamma", "digamma"},
    {"chlo.erf", "erf"},
    {"chlo.erf_inv", "erfinv"},
    {"chlo.erfc", "erfc"},
    {"chlo.is_inf", "isinf"},
    {"chlo.is_neg_inf", "isneginf"},
    {"chlo.is_pos_inf", "isposinf"},
    {"chlo.lgamma", "lgamma"},
    {"chlo.next_after", "nextafter"},
    {"chlo.sinh", "sinh"},
    {"chlo.square", "square"},
    {"chlo.tan", "tan"},
    {"chlo.top_k", "topk", Form::kTopK},
    {"mhlo.copy", "", Form::kPass},
    {"mhlo.erf", "erf"},
    {"mhlo.topk", "topk", Form::kTopK},
    {"sdy.all_gather", "", Form::kReshard},
    {"sdy.all_reduce", "", Form::kReshard},
    {"sdy.all_slice", "", Form::kReshard},
    {"sdy.all_to_all", "", Form::kReshard},
    {"sdy.collective_permute", "", Form::kReshard},
    {"sdy.constant", "", Form::kConstant},
    {"sdy.propagation_barrier", "", Form::kPass},
    {"sdy.reduce_scatter", "", Form::kReshard},
    {"sdy.replicated_to_unreduced", "", Form::kReshard},
    {"sdy.reshard", "", Form::kReshard},
    {"sdy.sharded_to_unreduced", "", Form::kReshard},
    {"sdy.sharding_constraint", "", Form::kConstraint},
    {"sdy.sharding_group", "", Form::kPass},
    {"stablehlo.abs", "abs"},
    {"stablehlo.add", "add", Form::kPair, "add_scalar", "value", "add_scalar", "value"},
    {"stablehlo.and", "logical_and, bitwise_and", Form::kLogical},
    {"stablehlo.atan2", "atan2"},
    {"stablehlo.broadcast_in_dim", "view, expand", Form::kBroadcast},
    {"stablehlo.ceil", "ceil"},
    {"stablehlo.clamp", "clamp, clamp_tensor", Form::kClamp},
    {"stablehlo.compare", "eq, ne, ge, gt, le, lt, eq_scalar, ne_scalar, …", Form::kCompare},
    {"stablehlo.concatenate", "cat", Form::kConcatenate},
    {"stablehlo.constant", "", Form::kConstant},
    {"stablehlo.convert", "to", Form::kConvert},
    {"stablehlo.cosine", "cos"},
    {"stablehlo.divide", "div", Form::kPair, "div_scalar", "value", "", ""},
    {"stablehlo.dot", "mm, mv, dot, matmul", Form::kDot},
    {"stablehlo.dot_general", "mm, bmm, matmul, linear, einsum", Form::kDot},
    {"stablehlo.dynamic_slice", "slice, index_select", Form::kDynamicSlice},
    {"stablehlo.dynamic_update_slice", "slice_scatter, index_copy", Form::kDynamicUpdateSlice},
    {"stablehlo.exponential", "exp"},
    {"stablehlo.exponential_minus_one", "expm1"},
    {"stablehlo.floor", "floor"},
    {"stablehlo.gather", "embedding, gather", Form::kGather},
    {"stablehlo.iota", "", Form::kIota},
    {"stablehlo.is_finite", "isfinite"},
    {"stablehlo.log", "log"},
    {"stablehlo.log_plus_one", "log1p"},
    {"stablehlo.logistic", "sigmoid"},
    {"stablehlo.maximum", "maximum", Form::kPair, "clamp_min", "min", "clamp_min", "min"},
    {"stablehlo.minimum", "minimum", Form::kPair, "clamp_max", "max", "clamp_max", "max"},
    {"stablehlo.multiply", "mul", Form::kPair, "mul_scalar", "value", "mul_scalar", "value"},
    {"stablehlo.negate", "neg"},
    {"stablehlo.not", "logical_not, bitwise_not", Form::kLogical},
    {"stablehlo.optimization_barrier", "", Form::kPass},
    {"stablehlo.or", "logical_or, bitwise_or", Form::kLogical},
    {"stablehlo.pad", "constant_pad_nd", Form::kPad},
    {"stablehlo.power", "pow_tensor", Form::kPair, "pow", "exponent", "scalar_pow", "self"},
    {"stablehlo.reduce", "sum, amax, amin, prod, all, any", Form::kReduce},
    {"stablehlo.reduce_window", "cumsum, cumsum_grad", Form::kReduceWindow},
    {"stablehlo.remainder", "fmod", Form::kPair, "fmod_scalar", "value", "", ""},
    {"stablehlo.reshape", "view", Form::kReshape},
    {"stablehlo.reverse", "flip", Form::kReverse},
    {"stablehlo.round_nearest_even", "round"},
    {"stablehlo.rsqrt", "rsqrt"},
    {"stablehlo.scatter", "index_add, scatter_add", Form::kScatter},
    {"stablehlo.select", "where, where_scalar, masked_fill", Form::kSelect},
    {"stablehlo.shift_left", "bitwise_left_shift"},
    {"stablehlo.shift_right_arithmetic", "bitwise_right_shift"},
    {"stablehlo.sign", "sign"},
    {"stablehlo.sine", "sin"},
    {"stablehlo.slice", "slice", Form::kSlice},
    {"stablehlo.sqrt", "sqrt"},
    {"stablehlo.subtract", "sub", Form::kPair, "sub_scalar", "value", "rsub_scalar", "value"},
    {"stablehlo.tan", "tan"},
    {"stablehlo.tanh", "tanh"},
    {"stablehlo.transpose", "permute", Form::kTranspose},
    {"stablehlo.xor", "logical_xor, bitwise_xor", Form::kLogical},
};

}  // namespace

std::span<const OpRow> op_rows() { return kRows; }

const OpRow* find_op_row(std::string_view name) {
  static const auto* const rows = [] {
    auto* made = new absl::flat_hash_map<std::string_view, const OpRow*>;
    for (const OpRow& row : kRows) made->emplace(row.name, &row);
    return made;
  }();
  const auto found = rows->find(name);
  return found == rows->end() ? nullptr : found->second;
}

bool takes_any_type(Form form) {
  switch (form) {
    case Form::kSelect:
    case Form::kBroadcast:
    case Form::kReshape:
    case Form::kTranspose:
    case Form::kReverse:
    case Form::kConcatenate:
    case Form::kSlice:
    case Form::kDynamicSlice:
    case Form::kGather:
    case Form::kConstant:
    case Form::kIota:
    case Form::kPass:
    case Form::kConstraint:
    case Form::kReshard:
      return true;
    default:
      return false;
  }
}

}  // namespace tessera::stablehlo
