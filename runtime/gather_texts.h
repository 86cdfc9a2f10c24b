// runtime/gather_texts.h: small reports of all ranks brought together: what moved, traces, results.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "placement/api.h"
#include "runtime/world.h"

namespace tessera TSR_API {

/// Every rank's text, by rank, on every rank. Collective: yes, over the world. Cost: two
/// all-gathers; they leave no event. Throws Error.
std::vector<std::string> gather_texts(World& world, const std::string& own);

/// Gives every rank's text to `take` on rank 0, one at a time, in order of rank: for texts that are
/// too long to lie on every rank together. Collective: yes, over the world. Cost: two messages a
/// rank; they leave no event. Throws Error, and what `take` throws.
void collect_texts(World& world, const std::string& own,
                   const std::function<void(std::string_view)>& take);

}  // namespace tessera
