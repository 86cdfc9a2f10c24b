#include "moe/train/optimizer_config.h"

namespace tessera {

OptimizerConfig optimizer_config_of(const ModelConfig& config) {
  return {.kind = config.optimizer,
          .beta1 = config.beta1,
          .beta2 = config.beta2,
          .eps = config.eps,
          .weight_decay = config.weight_decay,
          .momentum = config.momentum,
          .momentum_form = config.momentum_form,
          .state_dtype = config.state_dtype,
          .groups = config.param_groups};
}

LearningRate learning_rate_of(const ModelConfig& config) {
  return {.base = config.lr,
          .steps = config.steps,
          .warmup = config.warmup,
          .decay_ratio = config.decay_ratio,
          .shape = config.decay,
          .min_factor = config.min_lr_factor};
}

}  // namespace tessera
