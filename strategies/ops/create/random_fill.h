// strategies/ops/create/random_fill.h: random numbers in a rank's part of a tensor: those that the
// whole tensor has there, whatever its placement.
#pragma once

#include "kernels/random.h"
#include "strategies/rules/op.h"

namespace tessera::ops {

/// Fills `out`, a part of the call's first result (or of its shape), from attributes `seed` and
/// `stream`.
void fill_random(KernelCall& call, kernels::RandomSpec spec, const Array& out);
/// The attributes that all random ops have, after `attrs`.
std::vector<AttrDef> with_seed(std::vector<AttrDef> attrs);

}  // namespace tessera::ops
