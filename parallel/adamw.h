// parallel/adamw.h: AdamW whose state is placed like its parameters, and the learning-rate
// schedule.
#pragma once

#include <vector>

#include "parallel/parameter.h"
#include "placement/api.h"

namespace tessera TSR_API {

struct AdamWConfig {
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.1;
};

/// Decoupled weight decay on every parameter; moments are made at the first step, on the
/// parameter's own spec. No communication. Source: Loshchilov and Hutter, 2019.
class AdamW {
 public:
  AdamW(ParameterSet& parameters, const AdamWConfig& config)
      : parameters_(parameters), config_(config) {}
  /// `grad_scale` multiplies every gradient on the way in (clipping).
  void step(double lr, double grad_scale);

  struct State {
    DTensor first, second;
  };
  const std::vector<State>& state() const noexcept { return state_; }

 private:
  ParameterSet& parameters_;
  AdamWConfig config_;
  std::vector<State> state_;
  std::int64_t num_steps_ = 0;
};

/// Warm-up, stable, linear decay to zero (WSD). Source: torchtitan LRSchedulersContainer.
struct LearningRate {
  double base = 0.0;
  std::int64_t steps = 1;
  std::int64_t warmup = 0;
  double decay_ratio = 0.0;
  /// The rate used in step `step` (from 0).
  double at(std::int64_t step) const;
};

}  // namespace tessera
