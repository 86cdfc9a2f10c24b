// dtensor/known_op.h: built-in ops by number, so that a warm call of a typed function finds its op
// by an index.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "dtensor/front/names.h"

namespace tessera {

/// A place in kKnownOpNames.
enum class KnownOp : std::uint16_t {};
inline constexpr std::size_t kNumKnownOps = std::size(kKnownOpNames);

/// Does not compile for a name that no built-in op has.
consteval KnownOp known_op(std::string_view name) {
  const auto* found = std::lower_bound(std::begin(kKnownOpNames), std::end(kKnownOpNames), name);
  if (found == std::end(kKnownOpNames) || *found != name) throw "no built-in op has this name";
  return static_cast<KnownOp>(found - std::begin(kKnownOpNames));
}

constexpr std::string_view name_of(KnownOp op) noexcept {
  return kKnownOpNames[static_cast<std::size_t>(op)];
}

}  // namespace tessera
