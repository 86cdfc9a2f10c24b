#include "parallel/adamw.h"

#include <cmath>

#include "dtensor/foreach.h"

namespace tessera {

void AdamW::step(double lr, double grad_scale) {
  ++num_steps_;
  if (state_.empty()) {
    for (Parameter& parameter : parameters_.all()) {
      const DTensor like = parameter.stored().detach();
      state_.push_back({zeros_like(like), zeros_like(like)});
    }
  }
  const Attrs attrs = {{"lr", lr},
                       {"beta1", config_.beta1},
                       {"beta2", config_.beta2},
                       {"eps", config_.eps},
                       {"weight_decay", config_.weight_decay},
                       {"step", num_steps_},
                       {"grad_scale", grad_scale}};
  std::vector<DTensor> params, grads, first, second;
  std::size_t i = 0;
  for (Parameter& parameter : parameters_.all()) {
    const State& state = state_[i++];
    const DTensor& stored = parameter.stored();
    const DTensor grad = stored.grad();
    params.push_back(stored);
    grads.push_back(grad.defined() ? grad : zeros_like(state.first));
    first.push_back(state.first);
    second.push_back(state.second);
  }
  adamw_step({params, grads}, {first, second}, attrs);
}

double LearningRate::at(std::int64_t step) const {
  if (step < warmup) return base * static_cast<double>(step + 1) / static_cast<double>(warmup);
  const auto wanted =
      static_cast<std::int64_t>(std::llround(decay_ratio * static_cast<double>(steps)));
  const std::int64_t decay = warmup + wanted > steps ? steps - warmup : wanted;
  const std::int64_t flat = steps + 1 - warmup - decay;
  if (step < warmup + flat) return base;
  const double done = static_cast<double>(step + 1 - warmup - flat) / static_cast<double>(decay);
  return base * (1.0 - done);
}

}  // namespace tessera
