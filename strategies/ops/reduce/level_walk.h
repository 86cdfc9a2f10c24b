// strategies/ops/reduce/level_walk.h: how the cuts of a tensor's dims pass through ops that only
// regroup dims. A walk maps an input layout to the result's; where a cut does not fit, it offers
// the redistributions that would do.
#pragma once

#include <functional>
#include <vector>

#include "strategies/rules/op.h"

namespace tessera::ops {

/// Levels of the result's dims for levels of the operand's. Errors: FailedPrecondition where a cut
/// does not fit.
using LevelWalk = std::function<StatusOr<std::vector<Levels>>(const std::vector<Levels>&)>;

/// The axes that cut a tensor's dims, as bits.
std::uint32_t cutting_axes(const Layout& layout);
/// The axes that cut a dim, ascending.
std::vector<int> axes_of(const Levels& levels);
/// `layout` without the cuts by these axes; a dim that no axis cuts any more is whole.
Layout without_axes(const Layout& layout, std::uint32_t axes);
/// `layout`, Partial only where all `tensors` are, of that kind.
Layout with_common_partial(Layout layout, std::span<const Spec* const> tensors);
/// All operands under the layout `in`, all results under `out`.
StatusOr<Strategy> laid_out(std::span<const Spec* const> inputs, const Layout& in,
                            std::span<const TensorMeta> outputs, const Layout& out,
                            std::string why);

/// The walk of a tensor of shape `from` seen as `to` (equal numbers of elements, row-major).
LevelWalk reshape_walk(const Mesh& mesh, Shape from, Shape to);
/// One strategy without movement where the walk takes the operand as it is. Else one for each
/// smallest set of axes that must leave their dims: gathered, or moved to where the inverse walk
/// takes a cut of the result, nearest first.
StatusOr<std::vector<Strategy>> walk_strategies(const Spec& input, const TensorMeta& output,
                                                const LevelWalk& forward, const LevelWalk& inverse);
/// Result dim i is dim `sources[i]` of the operand, or new where −1; operand dims that are not
/// named, or whose size changes, must be whole.
StatusOr<std::vector<Strategy>> dim_map_strategies(const Spec& input, const TensorMeta& output,
                                                   const std::vector<int>& sources);

}  // namespace tessera::ops
