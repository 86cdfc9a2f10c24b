// dtensor/op_call.h: how the tensor API's thin wrappers reach dispatch.
// For this layer's sources only.
#pragma once

#include <array>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

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

/// In place: `self` is one of the operands.
inline DTensor& call_on(DTensor& self, KnownOp op, std::initializer_list<const DTensor*> operands,
                        const Attrs& attrs, const Site& site) {
  call_all(op, operands, attrs, site);
  return self;
}

/// The same with a list behind the operands. Errors: InvalidArgument where both are empty.
inline Results listed_call_all(KnownOp op, std::initializer_list<const DTensor*> operands,
                               std::span<const DTensor> list, const Attrs& attrs,
                               const Site& site) {
  absl::InlinedVector<const DTensor*, 4> all(operands);
  for (const DTensor& each : list) all.push_back(&each);
  if (all.empty()) {
    throw Error(
        invalid_argument(std::string(name_of(op)) + ": no tensors; at least one is needed"));
  }
  Runtime& runtime = all[0]->runtime();
  return dispatch(runtime, find_op(runtime, op), {all.data(), all.size()}, attrs, site);
}
inline DTensor listed_call_op(KnownOp op, std::initializer_list<const DTensor*> operands,
                              std::span<const DTensor> list, const Attrs& attrs, const Site& site) {
  return std::move(listed_call_all(op, operands, list, attrs, site)[0]);
}

inline DTensor& listed_call_on(DTensor& self, KnownOp op,
                               std::initializer_list<const DTensor*> operands,
                               std::span<const DTensor> list, const Attrs& attrs,
                               const Site& site) {
  listed_call_all(op, operands, list, attrs, site);
  return self;
}

/// Results as typed functions give them: a vector, or the first ones as a pair or an array.
template <class To>
To results_of(Results results) {
  if constexpr (std::is_same_v<To, std::vector<DTensor>>) {
    return To(std::make_move_iterator(results.begin()), std::make_move_iterator(results.end()));
  } else {
    return [&]<std::size_t... kPlaces>(std::index_sequence<kPlaces...>) {
      return To{std::move(results[kPlaces])...};
    }
    (std::make_index_sequence<std::tuple_size_v<To>>());
  }
}

}  // namespace tessera
