#include "checkpoint/hf_names.h"

#include <array>

namespace tessera {
namespace {

struct Renamed {
  std::string_view here, there;  ///< N stands for a layer's number, E for an expert's
};

constexpr std::array kTable = std::to_array<Renamed>({
    {"tok_embeddings.weight", "model.embed_tokens.weight"},
    {"norm.weight", "model.norm.weight"},
    {"lm_head.weight", "lm_head.weight"},
    {"layers.N.attention_norm.weight", "model.layers.N.input_layernorm.weight"},
    {"layers.N.ffn_norm.weight", "model.layers.N.post_attention_layernorm.weight"},
    {"layers.N.attention.wq.weight", "model.layers.N.self_attn.q_proj.weight"},
    {"layers.N.attention.wq_a.weight", "model.layers.N.self_attn.q_a_proj.weight"},
    {"layers.N.attention.q_norm.weight", "model.layers.N.self_attn.q_a_layernorm.weight"},
    {"layers.N.attention.wq_b.weight", "model.layers.N.self_attn.q_b_proj.weight"},
    {"layers.N.attention.wkv_a.weight", "model.layers.N.self_attn.kv_a_proj_with_mqa.weight"},
    {"layers.N.attention.kv_norm.weight", "model.layers.N.self_attn.kv_a_layernorm.weight"},
    {"layers.N.attention.wkv_b.weight", "model.layers.N.self_attn.kv_b_proj.weight"},
    {"layers.N.attention.wo.weight", "model.layers.N.self_attn.o_proj.weight"},
    {"layers.N.feed_forward.w1.weight", "model.layers.N.mlp.gate_proj.weight"},
    {"layers.N.feed_forward.w2.weight", "model.layers.N.mlp.down_proj.weight"},
    {"layers.N.feed_forward.w3.weight", "model.layers.N.mlp.up_proj.weight"},
    {"layers.N.moe.router.gate.weight", "model.layers.N.mlp.gate.weight"},
    {"layers.N.moe.expert_bias_E", "model.layers.N.mlp.gate.e_score_correction_bias"},
    {"layers.N.moe.shared_experts.w1.weight", "model.layers.N.mlp.shared_experts.gate_proj.weight"},
    {"layers.N.moe.shared_experts.w2.weight", "model.layers.N.mlp.shared_experts.down_proj.weight"},
    {"layers.N.moe.shared_experts.w3.weight", "model.layers.N.mlp.shared_experts.up_proj.weight"},
    {"layers.N.moe.routed_experts.inner_experts.w1_EFD",
     "model.layers.N.mlp.experts.E.gate_proj.weight"},
    {"layers.N.moe.routed_experts.inner_experts.w2_EDF",
     "model.layers.N.mlp.experts.E.down_proj.weight"},
    {"layers.N.moe.routed_experts.inner_experts.w3_EFD",
     "model.layers.N.mlp.experts.E.up_proj.weight"},
});

constexpr std::string_view kLayers = "layers.";
constexpr std::string_view kLayerMark = ".N.";
constexpr std::string_view kExpertMark = ".E.";

/// The number between "layers." and the next point, as text; empty where there is none.
std::string_view layer_of(std::string_view name) {
  if (!name.starts_with(kLayers)) return {};
  name.remove_prefix(kLayers.size());
  const std::string_view digits = name.substr(0, name.find('.'));
  const bool is_number = digits.find_first_not_of("0123456789") == std::string_view::npos;
  return is_number ? digits : std::string_view();
}

std::string with(std::string_view pattern, std::string_view mark, std::string_view number) {
  const std::size_t at = pattern.find(mark);
  std::string out(pattern);
  return at == std::string_view::npos ? out : out.replace(at + 1, 1, number);
}

}  // namespace

std::vector<HfPart> hf_parts(std::string_view name, ShapeView shape) {
  const std::string_view layer = layer_of(name);
  for (const Renamed& entry : kTable) {
    if (with(entry.here, kLayerMark, layer) != name) continue;
    const std::string there = with(entry.there, kLayerMark, layer);
    const Region whole = whole_region(shape);
    if (there.find(kExpertMark) == std::string::npos) return {{there, whole, whole.size}};
    std::vector<HfPart> parts;
    for (std::int64_t expert = 0; expert < shape[0]; ++expert) {
      Region region = whole;
      region.offset[0] = expert;
      region.size[0] = 1;
      parts.push_back(
          {with(there, kExpertMark, std::to_string(expert)), region, to_shape(shape.subspan(1))});
    }
    return parts;
  }
  return {};
}

}  // namespace tessera
