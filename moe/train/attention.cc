#include "moe/train/attention.h"

#include <array>
#include <cmath>

#include "parallel/context_attention.h"

namespace tessera {
namespace {

/// Causal attention; each cp rank has queries of its own and meets every key.
DTensor attend(const ModelContext& context, const DTensor& q_BHLE, const DTensor& k_BHLE,
               const DTensor& v_BHLV) {
  const AttentionArgs args = {.scale = attention_scale(context.model), .causal = true};
  const std::vector<int> cp = context.views.dense_axes({"cp"});
  if (cp.empty()) return attention(q_BHLE, k_BHLE, v_BHLV, args.scale, args.causal);
  return context_attention(q_BHLE, k_BHLE, v_BHLV,
                           {.cp_axis = cp[0],
                            .method = context.views.config().cp_method,
                            .order = context.token_order(),
                            .args = args});
}

}  // namespace

LatentAttention::LatentAttention(const ModelContext& context, const std::string& name,
                                 std::int64_t layer) {
  const ModelConfig& c = context.model;
  throw_if_error(context.views.check_heads(name, c.n_heads));
  const Init linear = truncated_init(kLinearStd);
  const std::int64_t q_rows = c.n_heads * c.qk_head_dim();
  const auto declare = [&](const char* part, Shape shape, Placement tp, Init init) {
    return &context.declare(name + "." + part + ".weight", std::move(shape), tp, init);
  };
  if (c.q_lora_rank == 0) {
    wq_ = declare("wq", {q_rows, c.dim}, Shard{0}, linear);
  } else {
    wq_a_ = declare("wq_a", {c.q_lora_rank, c.dim}, Replicate{}, linear);
    q_norm_ = declare("q_norm", {c.q_lora_rank}, Replicate{}, {});
    wq_b_ = declare("wq_b", {q_rows, c.q_lora_rank}, Shard{0}, linear);
  }
  wkv_a_ = declare("wkv_a", {c.kv_lora_rank + c.rope_dim, c.dim}, Replicate{}, linear);
  kv_norm_ = declare("kv_norm", {c.kv_lora_rank}, Replicate{}, {});
  wkv_b_ = declare("wkv_b", {c.n_heads * (c.qk_nope_head_dim + c.v_head_dim), c.kv_lora_rank},
                   Shard{0}, linear);
  wo_ =
      declare("wo", {c.dim, c.n_heads * c.v_head_dim}, Shard{1}, truncated_init(depth_std(layer)));
  const RopeTable table =
      make_rope_table(c, context.token_order().positions(), context.score_dtype());
  const Placements replicated = context.views.on_dense({});
  cos_ = distribute(context.runtime, table.cos, context.views.dense(), replicated);
  sin_ = distribute(context.runtime, table.sin, context.views.dense(), replicated);
  cos_.set_name(name + "." + kRopeCos);
  sin_.set_name(name + "." + kRopeSin);
}

DTensor LatentAttention::queries(const ModelContext& context, const DTensor& h_BLD) const {
  if (wq_ != nullptr) return project(context, h_BLD, *wq_);
  const DTensor low = rms_norm(project(context, h_BLD, *wq_a_), q_norm_->use(context.compute),
                               context.model.norm_eps);
  return project(context, low, *wq_b_);
}

DTensor LatentAttention::operator()(const ModelContext& context, const DTensor& x_BLD) const {
  const ModelConfig& c = context.model;
  const std::int64_t nope = c.qk_nope_head_dim;
  const DTensor h_BLD = redistribute(x_BLD, context.whole_tokens());

  const DTensor q_BLHE = unflatten(queries(context, h_BLD), 2, {c.n_heads, c.qk_head_dim()});
  const DTensor q_pe = rope(slice(q_BLHE, 3, nope, c.qk_head_dim()), cos_, sin_);
  const DTensor q = cat(std::array{slice(q_BLHE, 3, 0, nope), q_pe}, 3);

  const DTensor kv_a = project(context, h_BLD, *wkv_a_);
  const DTensor kv =
      rms_norm(slice(kv_a, 2, 0, c.kv_lora_rank), kv_norm_->use(context.compute), c.norm_eps);
  const DTensor k_pe_part = slice(kv_a, 2, c.kv_lora_rank, c.kv_lora_rank + c.rope_dim);
  const DTensor k_pe = rope(unsqueeze(k_pe_part, 2), cos_, sin_);
  const DTensor kv_b =
      unflatten(project(context, kv, *wkv_b_), 2, {c.n_heads, nope + c.v_head_dim});
  const DTensor shared_k_pe = expand(k_pe, {x_BLD.size(0), x_BLD.size(1), c.n_heads, c.rope_dim});
  const DTensor k = cat(std::array{slice(kv_b, 3, 0, nope), shared_k_pe}, 3);
  const DTensor v = slice(kv_b, 3, nope, nope + c.v_head_dim);
  const DTensor out_BHLV =
      attend(context, transpose(q, 1, 2), transpose(k, 1, 2), transpose(v, 1, 2));
  return project(context, flatten(transpose(out_BHLV, 1, 2), 2, 3), *wo_);
}

}  // namespace tessera
