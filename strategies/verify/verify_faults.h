// strategies/verify/verify_faults.h: would the prover notice if an op ran wrong? Faults are planted
// in what an op runs, as mutants are in what its rule says: each cause of a wrong answer that once
// passed unseen.
#pragma once

#include "placement/api.h"
#include "strategies/verify/verify_mutants.h"

namespace tessera TSR_API {

/// Refuted where a check of verify() fails; equivalent where no sample runs into the fault.
/// `survivors` name the fault and the op's rule. `table` is what gradients call.
MutantReport judge_faults(const OpTable& table, const Op& op, const VerifyOptions& options = {});

}  // namespace tessera
