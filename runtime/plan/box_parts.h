// runtime/plan/box_parts.h: boxes of several ranks landing in one array: copied, or folded in
// order. Both backends with data do it here, so their bits agree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "kernels/box_moves.h"
#include "runtime/backend_api.h"
#include "runtime/call/communicator.h"
#include "runtime/plan/box.h"

namespace tessera TSR_BACKEND_API {

/// A box that lands, its place among the ranks folded, and whose array it is cut from.
struct LandingBox {
  Box box;
  std::int64_t contributor = 0;
  std::int64_t peer = 0;
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

  const std::optional<Fold>& fold() const noexcept { return fold_; }
  /// The same for a device's kernel, with one source a peer: sources[i] is what box first_boxes[i]
  /// is cut from.
  struct DeviceMoves {
    explicit DeviceMoves(std::int64_t element_bytes)
        : moves(element_bytes, kernels::BoxMoves::Stay::kYes) {}
    kernels::BoxMoves moves;
    std::vector<std::size_t> first_boxes;
  };
  /// Made at the first call. Requires one size of elements for all calls.
  const DeviceMoves& device_moves(std::int64_t element_bytes) const;

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
  void add_stack(const Stack& stack, std::span<const std::int64_t> sources,
                 kernels::BoxMoves& to) const;
  void add_uneven(std::span<const std::int64_t> sources, kernels::BoxMoves& to) const;
  std::unique_ptr<const DeviceMoves> make_device_moves(std::int64_t element_bytes) const;

  /// Landings move before they are shared; flags do not.
  struct Lazy {
    std::once_flag once;
    std::unique_ptr<const DeviceMoves> moves;
  };
  std::vector<LandingBox> boxes_;
  std::unique_ptr<Lazy> lazy_ = std::make_unique<Lazy>();
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
