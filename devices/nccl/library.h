// devices/nccl/library.h: NCCL's library, opened when it is first asked for: programs start on
// machines without it. Each of its calls that the engine makes has an entry of the same name, which
// goes on to the library's.
#pragma once

#include "placement/status.h"

namespace tessera {

/// Whether there is an NCCL that the engine can use. Thread-safety: any thread. Errors:
/// Unavailable, with what the loader said, or with the version seen and the least that is needed.
Status nccl_library_status();

}  // namespace tessera
