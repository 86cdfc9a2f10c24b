// parallel/flat_group.h: parameters laid end to end in one flat buffer that ranks share raggedly,
// so that gathering the buffer needs no copy: every parameter lies in it, whole, in one stretch.
// Source: veScale-FSDP's and torch's ragged shards (pytorch#169320).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "placement/api.h"
#include "placement/ragged.h"

namespace tessera TSR_API {

/// A parameter in the buffer.
struct FlatPart {
  std::int64_t offset = 0;
  std::int64_t size = 0;
  RaggedSizes sizes;  ///< what each rank holds of the parameter itself, flat: S(0;…)
};
struct FlatGroup {
  std::int64_t size = 0;  ///< of the buffer
  RaggedSizes sizes;      ///< its placement S(0;…)
  std::vector<FlatPart> parts;
};

/// Shares parameters of these sizes among `ranks`. A cut falls between two parameters, or on a
/// multiple of a parameter's block within it, as near to an even share as that allows: blocks of 1
/// share evenly, a block as large as its parameter keeps it whole, and blocks of a quantised
/// parameter are never split. Errors: InvalidArgument for lists of different lengths, a negative
/// size, a block or number of ranks below 1; OutOfRange beyond 2^62 elements.
/// Cost: O(parameters · ranks).
StatusOr<FlatGroup> flat_group(std::span<const std::int64_t> sizes,
                               std::span<const std::int64_t> blocks, std::int64_t ranks);

}  // namespace tessera
