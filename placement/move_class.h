// placement/move_class.h: which moves cost the same, so that one of them is priced. Where a dim
// divides by the number of ranks, every cut of it by axes is even; then what moves depends on which
// axes cut which dims and on the number of elements, but not on how many each such dim has.
// Internal to the planner.
#pragma once

#include <cstdint>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "placement/spec.h"

namespace tessera {

/// Of a move, all that its price depends on. Equal keys: equal prices by every topology.
class MoveClass {
 public:
  /// Requires equal shapes and dtypes. Cost: a fraction of a microsecond.
  MoveClass(const Spec& src, const Spec& dst);

  bool operator==(const MoveClass&) const = default;
  template <class H>
  friend H AbslHashValue(H hash, const MoveClass& of) {
    return H::combine(std::move(hash), of.key_);
  }

 private:
  void add(const Mesh& mesh);
  void add_partials(const Spec& spec);
  void add_dims(const Spec& src, const Spec& dst);

  absl::InlinedVector<std::int64_t, 32> key_;
};

}  // namespace tessera
