// tools/tessera_train/placements.h: --placements and --simulate: how each parameter would lie, and
// what one rank would move, at any number of ranks, none of which is started.
#pragma once

#include "tools/tessera_train/options.h"

namespace tessera {

/// Prints to standard output. Throws Error: InvalidArgument or io_error naming the flag or file.
void print_placements(const TrainFlags& flags);
/// The same for what rank --simulate receives in a step under forced balance.
void print_simulation(const TrainFlags& flags);

}  // namespace tessera
