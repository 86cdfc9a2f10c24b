#include "moe/train/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera {

std::vector<double> rope_frequencies(const ModelConfig& config) {
  const auto dim = static_cast<double>(config.rope_dim);
  // The pair index at which a wave turns `turns` times within the original sequence.
  const auto pair_of_turns = [&](double turns) {
    return dim * std::log(config.yarn_original_seq / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(config.rope_theta));
  };
  const double low = std::clamp(std::floor(pair_of_turns(config.yarn_beta_fast)), 0.0, dim - 1.0);
  double high = std::clamp(std::ceil(pair_of_turns(config.yarn_beta_slow)), 0.0, dim - 1.0);
  if (low == high) high += 0.001;
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < config.rope_dim / 2; ++i) {
    const double plain = std::pow(config.rope_theta, -2.0 * static_cast<double>(i) / dim);
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies.push_back(plain / config.yarn_factor * ramp + plain * (1.0 - ramp));
  }
  return frequencies;
}

RopeTable make_rope_table(const ModelConfig& config, std::span<const std::int64_t> positions,
                          DType dtype) {
  const std::vector<double> frequencies = rope_frequencies(config);
  std::vector<double> cos;
  std::vector<double> sin;
  for (const std::int64_t position : positions) {
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(position) * frequency;
      cos.push_back(std::cos(angle));
      sin.push_back(std::sin(angle));
    }
  }
  const Shape shape = {static_cast<std::int64_t>(positions.size()), config.rope_dim / 2};
  return {Array::from_values(shape, dtype, cos), Array::from_values(shape, dtype, sin)};
}

double attention_scale(const ModelConfig& config) {
  const double m = 0.1 * config.mscale * std::log(config.yarn_factor) + 1.0;
  return m * m / std::sqrt(static_cast<double>(config.qk_head_dim()));
}

}  // namespace tessera
