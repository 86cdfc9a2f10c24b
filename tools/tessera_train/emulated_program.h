// tools/tessera_train/emulated_program.h: emulated devices are in a program of their own,
// tessera-train-emulated, so that who trains on a processor or on cards need not build them.
#pragma once

#include "placement/status.h"

namespace tessera {

/// The process becomes tessera-train-emulated, which lies beside this program, with the same
/// arguments. Returns only where that fails. Errors: Unavailable.
Status become_emulated_program(char** argv);

}  // namespace tessera
