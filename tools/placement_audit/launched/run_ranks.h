// tools/placement_audit/launched/run_ranks.h: ranks of placement-audit's commands on every backend
// of this build.
#pragma once

#include <functional>

#include "tools/placement_audit/audit_main.h"

namespace tessera::audit {

/// See AuditProgram::run_ranks. A failure between processes is told on stderr by rank 0, and ends
/// them all.
Status run_ranks_of(const AuditRanks& ranks, const std::function<void(World&)>& body);

}  // namespace tessera::audit
