// moe/train/weights.h: parameters and expert biases from safetensors files, by name.
#pragma once

#include <string>

#include "checkpoint/weight_files.h"
#include "moe/train/model.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Checks that the files name every parameter and expert bias of the model with its shape and a
/// floating dtype, and nothing else. Reads no data. Errors: InvalidArgument naming the path and the
/// tensor, what was seen and what is allowed.
Status check_weights(const WeightFiles& files, Model& model);
/// Reads them, each rank only the bytes of its own shards, after check_weights(). Throws Error. No
/// communication.
void load_weights(const WeightFiles& files, Model& model);

}  // namespace tessera
