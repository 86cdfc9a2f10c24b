// runtime/control/host_identity.h: what ranks share, as the kernel tells it. A host's name proves
// nothing: two containers of one machine may have the same one, two machines too, and one machine
// several.
#pragma once

#include <string>

#include "runtime/backend_api.h"

namespace tessera TSR_BACKEND_API {

/// Of the running kernel: processes with the same one can share memory, if they see one another.
/// Empty where it is unknown.
std::string boot_id();

/// Of the running kernel and this thread's part of the network: ranks with the same one reach
/// one another over the loopback. Without blanks at its ends, never empty.
std::string network_id();

/// Of the running kernel and the processors that this process may run on.
std::string processors_id();
/// How many those are; 1 at least.
int num_processors();

/// "localhost" where it has none.
std::string host_name();

}  // namespace tessera
