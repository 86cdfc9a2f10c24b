// dtensor/op_call.h: how the tensor API's thin wrappers reach dispatch.
// For this layer's sources only.
#pragma once

#include <initializer_list>
#include <utility>

#include "dtensor/dispatch.h"

namespace tessera {

inline Results call_all(KnownOp op, std::initializer_list<const DTensor*> operands,
                        const Attrs& attrs, const Site& site) {
  Runtime& runtime = (*operands.begin())->runtime();
  return dispatch(runtime, find_op(runtime, op), {operands.begin(), operands.size()}, attrs, site);
}
/// The first result.
inline DTensor call_op(KnownOp op, std::initializer_list<const DTensor*> operands,
                       const Attrs& attrs, const Site& site) {
  return std::move(call_all(op, operands, attrs, site)[0]);
}

}  // namespace tessera
