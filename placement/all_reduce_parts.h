// placement/all_reduce_parts.h: how the ranks of a group share an all-reduce, so that a plan prices
// what a backend does. Small ones exchange whole tensors in one round; beyond, each rank folds its
// part and hands it out.
#pragma once

#include <algorithm>
#include <cstdint>

#include "placement/api.h"

namespace tessera TSR_API {

/// Up to here every rank folds the whole: one round of messages instead of two.
inline constexpr std::int64_t kFoldWholeBytes = 4 * 1024;

struct AllReducePlace {
  std::int64_t rank = 0;  ///< in the group
  std::int64_t size = 1;
};
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool operator==(const ElementRange&) const = default;
};

/// Elements [begin, end) of `n` that a rank folds; borders fall on multiples of 64.
constexpr ElementRange all_reduce_part(std::int64_t n, const AllReducePlace& place) noexcept {
  constexpr std::int64_t kGrain = 64;
  const std::int64_t each = n / place.size + (n % place.size != 0 ? 1 : 0);
  const std::int64_t chunk = (each + kGrain - 1) / kGrain * kGrain;
  const std::int64_t begin = std::min(n, chunk * place.rank);
  return {begin, std::min(n, begin + chunk)};
}
static_assert(all_reduce_part(200, {1, 2}) == ElementRange{128, 200});

/// Elements that a rank receives from others.
constexpr std::int64_t all_reduce_received(std::int64_t elements, std::int64_t element_bytes,
                                           const AllReducePlace& place) noexcept {
  if (elements * element_bytes <= kFoldWholeBytes) return (place.size - 1) * elements;
  const ElementRange own = all_reduce_part(elements, place);
  return (place.size - 1) * (own.end - own.begin) + elements - (own.end - own.begin);
}
/// Messages that a rank receives.
constexpr std::int64_t all_reduce_messages(std::int64_t bytes, std::int64_t group_size) noexcept {
  return (bytes <= kFoldWholeBytes ? 1 : 2) * (group_size - 1);
}

}  // namespace tessera
