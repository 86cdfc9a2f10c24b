// parallel/grad_norm.h: one gradient norm over parameters on several meshes.
#pragma once

#include <span>

#include "dtensor/foreach.h"
#include "parallel/parameter.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// The p-norm of the gradients of these parameters (with pp: of this rank's stages, see
/// StageGroup::norm), each element counted once wherever it is sharded or replicated. p = infinity
/// is the largest magnitude. Missing gradients count as zero. Collective: yes, one all-reduce of a
/// scalar per mesh. Cost: one host read.
double grad_norm(ParameterSet& parameters, double p = 2.0, const Site& site = Site::current());
/// Its p-th power (for infinity the norm itself), a plain F64 (1) that nobody waits for.
DTensor grad_norm_power(ParameterSet& parameters, Runtime& runtime, double p = 2.0,
                        const Site& site = Site::current());

}  // namespace tessera
