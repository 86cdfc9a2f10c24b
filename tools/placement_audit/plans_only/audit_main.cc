// placement-audit of a build of rules alone (TESSERA_RULES_ONLY).
#include "tools/placement_audit/audit_main.h"

#include "tools/placement_audit/audit_program.h"

namespace tessera {

int audit_main(int argc, char** argv, const AuditProgram& program) {
  return audit::run_audit(argc, argv, program,
                          [](audit::CommandName) { return std::optional<audit::Command>(); });
}

}  // namespace tessera
