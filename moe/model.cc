#include "moe/model.h"

#include <cmath>
#include <utility>

namespace tessera {
namespace {

DType parameter_dtype(DType compute) { return compute == DType::kF64 ? DType::kF64 : DType::kF32; }

}  // namespace

MoeLayer::MoeLayer(const ModelContext& context, const std::string& name, std::int64_t layer)
    : router_(context, name + ".router", layer),
      experts_(context, name + ".routed_experts", layer),
      balancer_(context, name) {
  const ModelConfig& c = context.config;
  if (c.num_shared_experts > 0) {
    shared_.emplace(context, name + ".shared_experts", c.moe_hidden_dim * c.num_shared_experts,
                    layer);
  }
}

DTensor MoeLayer::operator()(const ModelContext& context, const DTensor& x_BLD) {
  Runtime& runtime = context.runtime;
  const DTensor routed_x = redistribute(x_BLD, context.routed_tokens());
  Routing routing;
  {
    const ModuleScope scope(runtime, "router");
    routing = router_(context, routed_x, balancer_.expert_bias_E());
  }
  balancer_.count(routing.counts_E);
  DTensor out;
  {
    const ModuleScope scope(runtime, "routed_experts");
    out = experts_(context, routed_x, routing);
  }
  if (shared_) {
    const ModuleScope scope(runtime, "shared_experts");
    DTensor shared = (*shared_)(context, redistribute(x_BLD, context.whole_tokens()));
    // Under expert parallelism routed tokens are shards of L: the shared summands are reduced to
    // the same shards.
    if (context.views.uses_expert_parallel()) {
      shared = redistribute(shared, context.routed_tokens());
    }
    out = add(out, shared);
  }
  return redistribute(out, context.tokens());
}

Block::Block(const ModelContext& context, std::int64_t layer)
    : name_("layers." + std::to_string(layer)),
      attention_norm_(&context.declare(name_ + ".attention_norm.weight", {context.config.dim},
                                       Replicate{}, {})),
      attention_(context, name_ + ".attention", layer),
      ffn_norm_(
          &context.declare(name_ + ".ffn_norm.weight", {context.config.dim}, Replicate{}, {})) {
  if (context.config.is_moe_layer(layer)) {
    moe_.emplace(context, name_ + ".moe", layer);
  } else {
    feed_forward_.emplace(context, name_ + ".feed_forward", context.config.dense_hidden_dim, layer);
  }
}

DTensor Block::operator()(const ModelContext& context, const DTensor& x_BLD) {
  const ModuleScope block_scope(context.runtime, name_);
  const double eps = context.config.norm_eps;
  DTensor x = x_BLD;
  {
    const ModuleScope scope(context.runtime, "attention");
    const DTensor normed = rms_norm(x, attention_norm_->use(context.compute), eps);
    x = add(x, redistribute(attention_(context, normed), context.tokens()));
  }
  const ModuleScope scope(context.runtime, moe_ ? "moe" : "feed_forward");
  const DTensor normed = rms_norm(x, ffn_norm_->use(context.compute), eps);
  if (moe_) return add(x, (*moe_)(context, normed));
  const DTensor whole = redistribute(normed, context.whole_tokens());
  return add(x, redistribute((*feed_forward_)(context, whole), context.tokens()));
}

Model::Model(Runtime& runtime, const MeshViews& views, const ModelConfig& config, DType dtype)
    : config_(config),
      views_(views),
      parameters_(runtime, parameter_dtype(dtype)),
      context_{.runtime = runtime,
               .views = views_,
               .config = config_,
               .parameters = parameters_,
               .compute = dtype} {
  embedding_ = &context_.declare("tok_embeddings.weight", {config_.vocab, config_.dim}, Shard{0},
                                 normal_init(1.0));
  for (std::int64_t layer = 0; layer < config_.n_layers; ++layer) {
    blocks_.emplace_back(context_, layer);
  }
  norm_ = &context_.declare("norm.weight", {config_.dim}, Replicate{}, {});
  const double head_std = 1.0 / std::sqrt(static_cast<double>(config_.dim));
  lm_head_ = &context_.declare("lm_head.weight", {config_.vocab, config_.dim}, Shard{0},
                               truncated_init(head_std, 3.0 * head_std));
}

DTensor Model::logits(const DTensor& ids_BL) {
  DTensor x;
  {
    const ModuleScope scope(context_.runtime, "tok_embeddings");
    x = redistribute(embedding(embedding_->use(context_.compute), ids_BL), context_.tokens());
  }
  for (Block& block : blocks_) x = block(context_, x);
  const ModuleScope scope(context_.runtime, "lm_head");
  const DTensor normed = rms_norm(x, norm_->use(context_.compute), config_.norm_eps);
  return project(context_, redistribute(normed, context_.whole_tokens()), *lm_head_);
}

DTensor Model::loss(const DTensor& ids_BL, const DTensor& targets_BL, std::int64_t num_tokens) {
  const DTensor out = logits(ids_BL);
  const ModuleScope scope(context_.runtime, "loss");
  const DType dtype = context_.score_dtype();
  const DTensor scores = out.dtype() == dtype ? out : cast(out, dtype);
  return mul(sum(cross_entropy(scores, targets_BL)), 1.0 / static_cast<double>(num_tokens));
}

std::vector<MoeLayer*> Model::moe_layers() {
  std::vector<MoeLayer*> layers;
  for (Block& block : blocks_) {
    if (block.moe() != nullptr) layers.push_back(block.moe());
  }
  return layers;
}

std::vector<std::vector<std::int64_t>> Model::balance_experts() {
  const ModuleScope scope(context_.runtime, "load_balance");
  const NoGrad no_grad(context_.runtime);
  const std::vector<MoeLayer*> layers = moe_layers();
  std::vector<DTensor> counts;
  for (MoeLayer* layer : layers) counts.push_back(layer->balancer().counts_E());
  if (counts.empty()) return {};
  const std::vector<double> values = full_tensor(cat(counts, 0)).to_vector();
  std::vector<std::vector<std::int64_t>> by_layer;
  auto next = values.begin();
  for (MoeLayer* layer : layers) {
    by_layer.emplace_back(next, next + config_.num_experts);
    next += config_.num_experts;
    layer->balancer().update(by_layer.back());
  }
  return by_layer;
}

}  // namespace tessera
