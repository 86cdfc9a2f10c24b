#include "strategies/verify/sample_calls.h"
#include "tools/placement_audit/command.h"
#include "tools/placement_audit/executed/verify_document.h"
#include "tools/placement_audit/find_ops.h"

namespace tessera::audit {

StatusOr<Answer> samples(const Request& request) {
  TSR_ASSIGN_OR_RETURN(const OpTable table, op_table(request));
  TSR_ASSIGN_OR_RETURN(const std::vector<const Op*> chosen, find_ops(table, request.names));
  std::string text;
  for (const Op* op : chosen) {
    for (VerifyRepro& call : sample_calls(*op, /*seed=*/1)) {
      VerifyFailure as_failure{.op = op->def.name, .repro = std::move(call)};
      text += run_document(as_failure).to_string() + '\n';
    }
  }
  return Answer{.text = std::move(text)};
}

}  // namespace tessera::audit
