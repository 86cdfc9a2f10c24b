// checkpoint/hf_names.h: the names that Hugging Face's DeepSeek-V3 has for this model's tensors.
// There every expert is a tensor of its own; here an MoE layer's experts are stacked along dim 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/region.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// One tensor there, and the region of the tensor here that it is.
struct HfPart {
  std::string name;
  Region region;
  Shape shape;  ///< there: the region's, without the dim of experts
};

/// What tensor `name` of this shape is there; empty for a tensor that has no place there (the state
/// of an optimizer). RoPE needs no change: the rotated dims of q_proj, q_b_proj and
/// kv_a_proj_with_mqa lie in adjacent pairs in these files as they do here.
std::vector<HfPart> hf_parts(std::string_view name, ShapeView shape);

}  // namespace tessera
