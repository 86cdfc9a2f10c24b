// tools/tessera_train/placements.h: --placements: how each parameter would lie, at any number of
// ranks.
#pragma once

#include "tools/tessera_train/options.h"

namespace tessera {

/// Prints to standard output. Throws Error: InvalidArgument or io_error naming the flag or file.
void print_placements(const TrainFlags& flags);

}  // namespace tessera
