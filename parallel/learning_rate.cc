#include "parallel/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_format.h"

namespace tessera {
namespace {

std::int64_t wanted_decay(const LearningRate& rate) {
  return std::llround(rate.decay_ratio * static_cast<double>(rate.steps));
}

double falling(DecayShape shape, double done) {
  switch (shape) {
    case DecayShape::kLinear:
      return 1.0 - done;
    case DecayShape::kSqrt:
      return 1.0 - std::sqrt(done);
    case DecayShape::kCosine:
      return 0.5 * (1.0 + std::cos(std::numbers::pi * done));
  }
  return 1.0;
}

}  // namespace

double LearningRate::at(std::int64_t step) const {
  const std::int64_t rising = std::min(warmup, steps);
  if (step < rising) return base * static_cast<double>(step + 1) / static_cast<double>(rising);
  const std::int64_t decay = std::min(wanted_decay(*this), steps - rising);
  const std::int64_t before_decay = steps + 1 - decay;
  if (step < before_decay) return base;
  const double done =
      std::min(1.0, static_cast<double>(step + 1 - before_decay) / static_cast<double>(decay));
  return base * (min_factor + (1.0 - min_factor) * falling(shape, done));
}

std::optional<std::string> LearningRate::warning() const {
  if (warmup > steps) {
    return absl::StrFormat("learning rate: warmup %d is more than the %d steps; it takes them all",
                           warmup, steps);
  }
  const std::int64_t decay = wanted_decay(*this);
  if (warmup + decay <= steps) return std::nullopt;
  return absl::StrFormat(
      "learning rate: warmup %d and decay %d are more than the %d steps; the decay takes %d",
      warmup, decay, steps, steps - warmup);
}

}  // namespace tessera
