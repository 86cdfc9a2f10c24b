// checkpoint/agree.h: all ranks of a world take the same end of a step that each took by itself.
#pragma once

#include <string>
#include <vector>

#include "placement/api.h"
#include "runtime/world.h"

namespace tessera TSR_API {

/// Every rank's text where every rank's `own` is fine; else throws, on every rank alike, the Error
/// of the first rank that failed: "rank 2: …" in a world of several. Collective: yes, over the
/// world.
std::vector<std::string> agree(World& world, const Status& own, const std::string& text = {});

}  // namespace tessera
