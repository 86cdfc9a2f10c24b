// dtensor/resolve_call.h: from an op, its operands' specs and attributes to everything about the
// call that does not depend on data. For this layer's sources only.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "dtensor/resolved_call.h"

namespace tessera {

/// Interned specs. Null: an optional operand that is absent.
struct CallSpecs {
  std::span<const Spec* const> operands;
  std::span<const Spec* const> results = {};  ///< where they have to lie; empty: anywhere
};

/// By the rows that move least, or those forced. Throws what propagate(), and with results
/// propagate_into(), return; InvalidArgument for a plain operand with dims beside others on a mesh.
std::shared_ptr<const ResolvedCall> resolve_call(Runtime& runtime, const Op& op,
                                                 const CallSpecs& given, const Attrs& attrs,
                                                 std::span<const ForcedRow> forced);
/// Without any move, by the row so called (strategies/rules/stated_call.h). Throws what
/// propagate_stated() returns, and as above.
std::shared_ptr<const ResolvedCall> resolve_stated(Runtime& runtime, const Op& op,
                                                   const CallSpecs& given, const Attrs& attrs,
                                                   std::string_view row);

/// Placements, or the layout where none say it.
std::string placed(const Spec& spec);

}  // namespace tessera
