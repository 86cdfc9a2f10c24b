// moe/train/rope_table.h: RoPE frequencies with YaRN, and the cos and sin tables of a sequence.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/array.h"
#include "moe/train/config.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// The last parts of the names of the tables that a layer's attention holds.
inline constexpr const char* kRopeCos = "rope_cos";
inline constexpr const char* kRopeSin = "rope_sin";

/// rope_dim/2 angular frequencies. YaRN always applies, whatever the sequence length. Source: Peng
/// et al., 2023.
std::vector<double> rope_frequencies(const ModelConfig& config);

struct RopeTable {
  Array cos, sin;  ///< (number of positions, rope_dim/2)
};
/// Row p is of positions[p]. Angles in double precision, rounded once to `dtype` (F32 or F64).
RopeTable make_rope_table(const ModelConfig& config, std::span<const std::int64_t> positions,
                          DType dtype);

/// The scale of attention scores: (nope + rope)^−½ · m², m = 0.1 · mscale · ln(yarn_factor) + 1.
double attention_scale(const ModelConfig& config);

}  // namespace tessera
