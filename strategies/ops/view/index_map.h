// strategies/ops/view/index_map.h: index maps: along some dims, each position of the result is
// taken from one of the operand's. Any cut of the other dims passes; where such a dim is cut, each
// rank fetches what its share of the result is taken from.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "strategies/rules/op.h"

namespace tessera::ops {

/// Positions along a dim; −1 for none.
using Places = std::vector<std::int64_t>;

/// How one dim's positions are taken.
struct DimMap {
  enum class Kind : std::uint8_t {
    kConstant,   ///< none outside the operand
    kReflect,    ///< outside it its mirror image, without the border itself
    kReplicate,  ///< outside it its border
    kCircular,   ///< outside it the operand again
    kNearest,    ///< the nearest one before, of a dim in another size
    kBackwards   ///< the last one first
  };
  Kind kind = Kind::kConstant;
  std::int64_t before = 0;  ///< where the operand begins in the result
  std::int64_t size = 0;
  std::int64_t out_size = 0;

  /// The position that result position `o` is taken from, or −1.
  std::int64_t source(std::int64_t o) const {
    const std::int64_t i = o - before;
    switch (kind) {
      case Kind::kConstant:
        return i >= 0 && i < size ? i : -1;
      case Kind::kReflect:
        return i < 0 ? -i : i >= size ? 2 * (size - 1) - i : i;
      case Kind::kReplicate:
        return std::clamp<std::int64_t>(i, 0, size - 1);
      case Kind::kCircular:
        return i % size < 0 ? i % size + size : i % size;
      case Kind::kBackwards:
        return size - 1 - o;
      case Kind::kNearest:
        break;
    }
    return o * size / out_size;
  }
  /// Those of all positions `outs`, one after another.
  void sources(Interval outs, std::span<std::int64_t> places) const;
  Places sources(Interval outs) const;
};

struct MappedDim {
  int dim = 0;  ///< from the front
  DimMap map;
};
using MappedDims = absl::InlinedVector<MappedDim, 4>;
/// `x` with its dims mapped, one after another. Requires sources for all positions.
Array mapped(KernelCall& call, const Array& x, const MappedDims& dims);

/// The dims that a call on an operand of `shape` maps, each once. Dims of the operand are the last
/// ones of the result.
using IndexMap = StatusOr<MappedDims> (*)(const Attrs& attrs, const Shape& shape);
/// Sets kernel, strategies, localize and lowerings, those of the first six dims. Requires dims that
/// are kCircular or kBackwards.
void use_index_map(OpDef& def, IndexMap map);

/// One strategy for each of the first six `dims` that is cut, with lowering i for the i-th: it
/// stays cut by its axes, the others are whole. The last one has all of them whole.
StatusOr<std::vector<Strategy>> mapped_strategies(std::span<const Spec* const> inputs,
                                                  std::span<const TensorMeta> outputs,
                                                  const std::vector<int>& dims);

/// Of an operand that stands at `start` of the result along `dim`, what falls into a rank's share.
WindowFn window_of_part(int dim, std::int64_t start);

}  // namespace tessera::ops
