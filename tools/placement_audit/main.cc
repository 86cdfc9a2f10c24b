// placement-audit: what a sharding plan does, before anything runs.
#include "tools/placement_audit/audit_main.h"
#include "tools/placement_audit/launched/run_ranks.h"

int main(int argc, char** argv) {
  return tessera::audit_main(
      argc, argv, {.name = "placement-audit", .run_ranks = tessera::audit::run_ranks_of});
}
