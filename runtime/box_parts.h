// runtime/box_parts.h: boxes of several ranks landing in one array: copied, or folded in order.
// Both backends with data do it here, so their bits agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/backend_api.h"
#include "runtime/box.h"
#include "runtime/communicator.h"

namespace tessera TSR_BACKEND_API {

/// A box that lands, and its place among the ranks folded.
struct LandingBox {
  Box box;
  std::int64_t contributor = 0;
};

/// The boxes that land in one array, prepared once for many calls. Thread-safety: const functions
/// may be called by several threads.
class Landing {
 public:
  /// `boxes`: ascending by contributor. Where a fold is given each contributor's boxes cover the
  /// same elements of the target, once; else no two boxes overlap.
  Landing(std::vector<LandingBox> boxes, std::optional<Fold> fold);

  /// sources[i]: the array that box i is cut from. `out` is contiguous. On up to `threads` threads
  /// where it is large.
  void land(std::span<const std::byte* const> sources, const Array& out, int threads = 1) const;

 private:
  /// Boxes with the same pieces, by index, in order: one fold per piece.
  struct Stack {
    std::vector<std::size_t> boxes;
  };
  using Sources = std::span<const std::byte* const>;
  /// One of several threads that share the boxes.
  struct Share {
    int part = 0;
    int of = 1;
  };
  void land_share(Sources sources, const Array& out, const Share& share) const;
  void copy_share(Sources sources, const Array& out, const Share& share) const;
  void fold_share(const Stack& stack, Sources sources, const Array& out, const Share& share) const;
  void fold_in_accumulators(Sources sources, const Array& out) const;

  std::vector<LandingBox> boxes_;
  std::optional<Fold> fold_;
  std::vector<Stack> stacks_;  ///< empty where contributors cut the target differently
};

/// What `boxes.into` does to an array of shape `out`, read straight from the peers' arrays.
Landing landing_of(const ExchangeBoxes& boxes, ShapeView out);
/// nullopt where boxes only land.
std::optional<Fold> fold_of(const ExchangeBoxes& boxes);

/// The same box, cut from an array that holds nothing else, in the same order.
Transfer packed_box(const Transfer& box);
/// The shape of that array.
Shape box_shape(const Transfer& box);
/// Where a box of an array of shape `from` goes when it is packed.
Box packing_of(const Transfer& box, ShapeView from);

}  // namespace tessera
