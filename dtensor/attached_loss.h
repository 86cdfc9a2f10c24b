// dtensor/attached_loss.h: losses that ride along with a tensor of the forward pass: their
// gradients flow where that tensor's do, and no caller has to return or add them.
#pragma once

#include <span>

#include "dtensor/dtensor.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// The values of `x`; a backward pass that reaches the result also gives each of `losses` (0-d, of
/// any placement) a cotangent of one, whatever cotangent x gets. Recomputing the forward pass makes
/// the attachment again and runs it once. `x` itself where gradients are off. Errors:
/// InvalidArgument for a loss that is not 0-d.
/// Source: torchtitan AuxLoss, Megatron MoEAuxLossAutoScaler.
DTensor attach_losses(const DTensor& x, std::span<const DTensor> losses,
                      const Site& site = Site::current());

}  // namespace tessera
