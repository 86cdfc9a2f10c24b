// tools/placement_audit/trace_torch.h: trace --torch: this process becomes Python's, which traces a
// build function of PyTorch (python/tessera_trace) and has its exit codes.
#pragma once

#include <string>

#include "placement/status.h"
#include "tools/placement_audit/command.h"

namespace tessera::audit {

/// Does not return where there is a python3. Errors: Unavailable where there is none.
Status become_torch_tracer(const TraceRequest& trace, const std::string& output);

}  // namespace tessera::audit
