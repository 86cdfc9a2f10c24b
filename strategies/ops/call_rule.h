// strategies/ops/call_rule.h: rules that are written for one call, where shapes or an attribute say
// which operands carry a factor: einsum's equation, a bias or a mask that broadcasts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strategies/rules/op.h"

namespace tessera::ops {

struct CallRule {
  std::string op;    ///< for texts
  std::string text;  ///< operands that are absent are marked `?`
  std::vector<Lowering> lowerings{};
};

/// What propagation finds for `rule`, as the one strategy of a call. Errors: those of propagate().
StatusOr<std::vector<Strategy>> strategies_of_rule(const CallRule& rule,
                                                   std::span<const Spec* const> inputs,
                                                   std::span<const TensorMeta> outputs,
                                                   const Attrs& attrs);

/// The dims of an operand that broadcasts to `out`, whose dims are `letters`: a letter where both
/// have one size, 'K' where the operand repeats.
std::string broadcast_letters(const Shape& operand, const Shape& out, std::string_view letters);

}  // namespace tessera::ops
