// tools/tessera_train/flags.h: the command line, in the one source that CLI11 is compiled for.
#pragma once

#include <string>

#include "tools/tessera_train/options.h"

namespace tessera {

/// Fills `flags`. What comes back is printed instead of a run, the help or the version, unless it
/// is empty. Errors: InvalidArgument, which is a usage error; of a number out of its range it says
/// what is allowed.
StatusOr<std::string> parse_flags(int argc, const char* const* argv, TrainFlags& flags);

}  // namespace tessera
