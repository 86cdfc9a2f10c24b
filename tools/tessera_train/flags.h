// tools/tessera_train/flags.h: the command line.
#pragma once

#include "tools/tessera_train/options.h"

namespace CLI {
class App;
}

namespace tessera {

/// Parsing `app` then fills `flags`. A number out of its range is a usage error that says what is
/// allowed.
void add_flags(CLI::App& app, TrainFlags& flags);

}  // namespace tessera
