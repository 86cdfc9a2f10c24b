// moe/train/optimizer_config.h: what a model's config says about how parameters are updated.
#pragma once

#include "moe/train/config.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// The config's settings as the optimizer and the schedule take them.
OptimizerConfig optimizer_config_of(const ModelConfig& config);
LearningRate learning_rate_of(const ModelConfig& config);

}  // namespace tessera
