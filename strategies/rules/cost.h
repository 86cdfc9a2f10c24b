// strategies/rules/cost.h: what a change of placement moves, in closed form and on a form that is
// cheap to build: the bytes of its plan, but where axes change places among dims. Internal to
// strategies/.
#pragma once

#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "placement/api.h"
#include "strategies/rules/propagate.h"

namespace tessera TSR_API {

using LevelList = absl::InlinedVector<Level, 2>;
using AxisMask = std::uint32_t;

/// How a tensor stands on the axes that matter (renumbered from 0): an entry per axis, levels per
/// dim.
struct TensorCut {
  absl::InlinedVector<RowEntry, 4> entries;
  absl::InlinedVector<LevelList, 4> levels;
  absl::InlinedVector<AxisMask, 4> axes;  ///< per dim: those among its levels
  bool ragged = false;                    ///< some level states its sizes
};
/// `axis_of[a]` is the new number of mesh axis a, or −1 where its size is 1.
TensorCut cut_of(const Spec& spec, std::span<const int> axis_of, std::size_t num_axes);

/// The target of a move; levels are borrowed from whoever chose them.
struct TargetCut {
  std::span<const RowEntry> entries;
  std::span<const LevelList* const> levels;
};
/// Elements that all ranks together receive; infinite where no plan exists (one kind of Partial to
/// another).
double moved_elements(std::span<const std::int64_t> axis_sizes, double num_elements,
                      const TensorCut& src, const TargetCut& dst);
/// True if the local data serves as it is.
bool stays(const TensorCut& src, const TargetCut& dst) noexcept;

}  // namespace tessera
