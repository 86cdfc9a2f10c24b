// moe/model.h: the DeepSeek-V3-style transformer: embedding, blocks with MLA and dense or MoE
// feed-forward, head.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "moe/attention.h"
#include "moe/experts.h"
#include "moe/feed_forward.h"
#include "moe/router.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Routed experts, shared experts and what balances them.
class MoeLayer {
 public:
  MoeLayer(const ModelContext& context, const std::string& name, std::int64_t layer);
  /// Shapes: x_BLD placed tokens() → the same.
  DTensor operator()(const ModelContext& context, const DTensor& x_BLD);
  LoadBalancer& balancer() noexcept { return balancer_; }

 private:
  Router router_;
  RoutedExperts experts_;
  std::optional<FeedForward> shared_;
  LoadBalancer balancer_;
};

/// One layer: x += attention(norm(x)); x += feed_forward(norm(x)).
class Block {
 public:
  Block(const ModelContext& context, std::int64_t layer);
  DTensor operator()(const ModelContext& context, const DTensor& x_BLD);
  MoeLayer* moe() noexcept { return moe_ ? &*moe_ : nullptr; }
  const std::string& name() const noexcept { return name_; }

 private:
  std::string name_;
  Parameter* attention_norm_;
  LatentAttention attention_;
  Parameter* ffn_norm_;
  std::optional<FeedForward> feed_forward_;
  std::optional<MoeLayer> moe_;
};

/// The model on this rank. Every rank of the mesh makes it with equal arguments; making it moves
/// nothing.
class Model {
 public:
  /// `dtype` is the type of computation; parameters are F64 for F64, else F32. Throws Error for
  /// sizes that the meshes do not allow (heads over tp), before any parameter is made.
  Model(Runtime& runtime, const MeshViews& views, const ModelConfig& config, DType dtype);

  /// Shapes: ids (B, L) I32 or I64, placed whole_tokens() → (B, L, V), V cut over tp.
  DTensor logits(const DTensor& ids_BL);
  /// Sum of cross-entropies over `num_tokens`: 0-d, P(sum) on the data axis.
  DTensor loss(const DTensor& ids_BL, const DTensor& targets_BL, std::int64_t num_tokens);

  /// Tokens per expert of every MoE layer since the last call, and the bias update from them.
  /// Collective: one all-reduce for all layers.
  std::vector<std::vector<std::int64_t>> balance_experts();

  ParameterSet& parameters() noexcept { return parameters_; }
  const ModelContext& context() const noexcept { return context_; }
  std::vector<MoeLayer*> moe_layers();

 private:
  ModelConfig config_;
  MeshViews views_;
  ParameterSet parameters_;
  ModelContext context_;
  Parameter* embedding_ = nullptr;
  std::deque<Block> blocks_;
  Parameter* norm_ = nullptr;
  Parameter* lm_head_ = nullptr;
};

}  // namespace tessera
