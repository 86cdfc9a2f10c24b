// parallel/grad_norm.h: one gradient norm over parameters on several meshes.
#pragma once

#include <span>

#include "dtensor/foreach.h"
#include "parallel/parameter.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// The 2-norm of all gradients, each element counted once wherever it is sharded or replicated.
/// Missing gradients count as zero. Collective: yes, one all-reduce of a scalar per mesh. Cost: one
/// host read.
double grad_norm(ParameterSet& parameters, const Site& site = Site::current());

}  // namespace tessera
