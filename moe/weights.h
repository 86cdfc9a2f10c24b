// moe/weights.h: parameters and expert biases from a safetensors file, by name.
#pragma once

#include <string>

#include "io/safetensors.h"
#include "moe/model.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Checks that a file names every parameter and expert bias of the model with its shape and a
/// floating dtype, and nothing else. Reads the header only. Errors: InvalidArgument naming the file
/// and the tensor, what was seen and what is allowed.
Status check_weights(const SafetensorsFile& file, Model& model);
/// Reads them, each rank its own shards. Throws Error. No communication.
void load_weights(const SafetensorsFile& file, Model& model);

}  // namespace tessera
