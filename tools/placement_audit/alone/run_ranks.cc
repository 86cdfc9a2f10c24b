// In a build that plans only there are no ranks, and no command that asks for them.
#include "tools/placement_audit/launched/run_ranks.h"

namespace tessera::audit {

Status run_ranks_of(const AuditRanks& ranks, const std::function<void(World&)>& body) {
  (void)ranks;
  (void)body;
  return invalid_argument("this build plans only, and has no ranks (TESSERA_RULES_ONLY)");
}

}  // namespace tessera::audit
