// moe/optimizer_config.h: the keys of a model's config that say how parameters are updated.
#pragma once

#include "io/json.h"
#include "moe/config.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Reads the optional keys optimizer ("adamw", "adam", "sgd"), momentum, nesterov, state_dtype
/// ("BF16", "F32", "F64"), param_groups, norm_type (a number above 0, or "inf"), decay ("linear",
/// "sqrt", "cosine") and min_lr_factor. Errors: InvalidArgument naming the key.
Status read_optimizer_keys(const JsonView& object, ModelConfig& config);

/// The config's settings as the optimizer and the schedule take them.
OptimizerConfig optimizer_config_of(const ModelConfig& config);
LearningRate learning_rate_of(const ModelConfig& config);

}  // namespace tessera
