// moe/train/model_context.h: what every module of the whole model is built from.
#pragma once

#include "moe/layer/layer_context.h"
#include "moe/train/config.h"
#include "placement/api.h"

namespace tessera TSR_API {

struct ModelContext : LayerContext {
  const ModelConfig& model;  ///< whose part is `config`
};

}  // namespace tessera
