// execute/regions.h: what runs a program's regions, which are work that no op of the table is: by
// the name that they have in the program.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "dtensor/dtensor.h"
#include "placement/api.h"
#include "program/program.h"

namespace tessera TSR_API {

/// A region to be run: its arguments in the order of its names, lists flattened, and where its
/// results have to lie.
struct RegionWork {
  Runtime& runtime;
  const RegionStep& step;
  std::span<const DTensor> args;
  std::span<const Spec> results;
};
/// Returns as many tensors as the region has results, of their specs. Throws Error.
using RegionFunction = std::function<std::vector<DTensor>(const RegionWork&)>;
using RegionTable = std::map<std::string, RegionFunction, std::less<>>;

/// Those that captures write of the engine's own work: "alias" (the same elements under another
/// spec, where every rank's part has the same shape), "copy", and buckets of redistributions,
/// "redistribute_all", "fsdp_all_gather" and "fsdp_reduce_scatter".
const RegionTable& own_regions();

}  // namespace tessera
