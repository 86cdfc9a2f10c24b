// strategies/ops/index/index_tuple_cuts.h: how cuts pass through reads and writes addressed by
// several indices at once. Dims that no index addresses keep their cuts; on a cut addressed dim
// each rank serves what it holds; on other axes the indices may keep theirs.
#pragma once

#include <span>
#include <vector>

#include "strategies/rules/op.h"

namespace tessera::ops {

/// The dims that attribute `dims` lists, by default the first `count`; ascending. Errors:
/// InvalidArgument.
StatusOr<std::vector<int>> addressed_dims(const Attrs& attrs, std::size_t ndim, std::size_t count);

/// Operands self, indices….
StatusOr<std::vector<Strategy>> index_strategies(std::span<const Spec* const> inputs,
                                                 std::span<const TensorMeta> outputs,
                                                 const Attrs& attrs);
enum class TupleSelf : std::uint8_t { kStays, kMayMove };
/// Operands self, values, indices….
StatusOr<std::vector<Strategy>> put_strategies(std::span<const Spec* const> inputs,
                                               std::span<const TensorMeta> outputs,
                                               const Attrs& attrs, TupleSelf may);

}  // namespace tessera::ops
