// runtime/gather_texts.h: small reports of all ranks brought together: what moved, traces, results.
#pragma once

#include <string>
#include <vector>

#include "placement/api.h"
#include "runtime/world.h"

namespace tessera TSR_API {

/// Every rank's text, by rank, on every rank. Collective: yes, over the world. Cost: two
/// all-gathers; they leave no event. Throws Error.
std::vector<std::string> gather_texts(World& world, const std::string& own);

}  // namespace tessera
