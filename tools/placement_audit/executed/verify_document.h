// tools/placement_audit/executed/verify_document.h: what a failed check of the prover looks like as
// a document that `placement-audit run` executes.
#pragma once

#include "io/json.h"
#include "strategies/verify/verify.h"

namespace tessera::audit {

/// {"mesh","inputs" with every rank's values,"program" of one call,"expect"}: `run` executes it and
/// exits with 1 while the failure lasts.
Json run_document(const VerifyFailure& failure);

}  // namespace tessera::audit
