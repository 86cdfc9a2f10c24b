// moe/train/model.h: the DeepSeek-V3-style transformer: embedding, blocks with MLA and dense or MoE
// feed-forward, head.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "moe/layer/feed_forward.h"
#include "moe/layer/moe_layer.h"
#include "moe/train/attention.h"
#include "moe/train/stages.h"
#include "parallel/fsdp.h"
#include "parallel/pipeline.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// One layer: x += attention(norm(x)); x += feed_forward(norm(x)).
class Block {
 public:
  Block(const ModelContext& context, std::int64_t layer);
  /// As MoeLayer.
  DTensor operator()(const ModelContext& context, const DTensor& x_BLD,
                     const TokenPadding& padding = {});
  MoeLayer* moe() noexcept { return moe_ ? &*moe_ : nullptr; }
  const std::string& name() const noexcept { return name_; }

 private:
  std::string name_;
  FsdpUnit* unit_;
  Parameter* attention_norm_;
  LatentAttention attention_;
  Parameter* ffn_norm_;
  std::optional<FeedForward> feed_forward_;
  std::optional<MoeLayer> moe_;
};

/// What a micro-batch should have predicted.
struct Targets {
  DTensor ids_BL;           ///< I32 or I64, placed whole_tokens()
  DTensor ignored_BL = {};  ///< BOOL, placed alike: true where none counts; undefined: all do
  DTensor step_share = {};  ///< 1 / those of the optimizer step that count (0 for none): 0-d, plain
};

/// The model on this rank: with pp, the layers of this rank's stages only. Parameters have global
/// names. Every rank of the world makes it with equal arguments; making it moves nothing.
class Model {
 public:
  /// `views` of any stage. `dtype` is the type of computation; parameters are F64 for F64, else
  /// F32. Throws Error for sizes that the meshes do not allow (heads over tp, stages over layers),
  /// before any parameter is made.
  Model(Runtime& runtime, const MeshViews& views, const ModelConfig& config, DType dtype,
        LayerForm form = LayerForm::kRegions);

  /// One stage of this rank. Shapes: ids (B, L) I32 or I64, placed whole_tokens(), into the first
  /// stage, else tokens (B, L, D) placed tokens() → tokens, from the last stage logits (B, L, V),
  /// V cut over tp. The padding's mask is placed whole_tokens(); padding tokens pass attention and
  /// dense layers like others, but are not routed.
  DTensor run_part(const ModelPart& part, const DTensor& x, const TokenPadding& padding = {});
  /// All stages. Throws Error(FailedPrecondition) where this rank does not hold them.
  DTensor logits(const DTensor& ids_BL);
  /// Sum of the cross-entropies that count, times targets.step_share: 0-d, P(sum) on the data axes.
  DTensor loss_of(const DTensor& logits_BLV, const Targets& targets);
  DTensor loss(const DTensor& ids_BL, const DTensor& targets_BL, std::int64_t num_tokens);

  std::int64_t num_moe_layers() const noexcept { return config_.n_layers - config_.n_dense_layers; }
  /// Tokens per expert of this rank's MoE layers since the last call, plain I64 (their number, E);
  /// undefined where it has none. Collective: one all-reduce for all layers of a stage.
  DTensor take_expert_counts();
  /// Moves the expert biases by such counts, where the steering (kernels::Steering) says to go on.
  void update_expert_bias(const DTensor& counts_LE, const DTensor& steering);
  /// Rows of a plain F64 (num_moe_layers(), width), zeros but for this rank's layers: those of
  /// `own`, plain F64 (their number, width), in turn.
  DTensor among_all_layers(const DTensor& own, std::int64_t width);

  const PipelinePlan& plan() const noexcept { return plan_; }
  const StageGroup& stage_group() const noexcept { return stage_group_; }
  /// True where all layers are on this rank's own mesh (pp 1).
  bool is_whole() const noexcept { return plan_.parts.size() == 1; }
  /// Whether dispatch bounds rows: those beyond are left out, so that nothing may be made of the
  /// pass.
  bool bounds_rows() const;
  /// The largest rows_bound that the passes of this rank's MoE layers needed since the last call:
  /// plain F64 (their number); undefined where it has none. Collective: one all-reduce for all
  /// layers of a stage.
  DTensor take_rows_needed();
  /// What is wrong with rows_needed, by MoE layer: FailedPrecondition naming each layer, its bound
  /// and its need.
  Status check_row_bounds(std::span<const double> rows_needed) const;

  ParameterSet& parameters() noexcept { return parameters_; }
  const ModelContext& context() const noexcept { return context_; }
  /// Numbers of this rank's layers, ascending.
  std::vector<std::int64_t> layers() const;
  /// Names of other stages' trainable parameters. Collective: yes, over the world, with pp.
  std::vector<std::string> names_elsewhere();
  /// Those of this rank's stages.
  std::vector<MoeLayer*> moe_layers();

 private:
  void make_part(const ModelPart& part);
  /// One layer, recomputed in backward where the plan says so.
  DTensor run_block(Block& block, const DTensor& x_BLD, const TokenPadding& padding);

  ModelConfig config_;
  MeshViews views_;
  PipelinePlan plan_;
  StageGroup stage_group_;
  ParameterSet parameters_;
  ModelContext context_;
  FsdpUnit* embedding_unit_ = nullptr;
  Parameter* embedding_ = nullptr;
  std::map<std::int64_t, Block> blocks_;  ///< by layer
  FsdpUnit* head_unit_ = nullptr;
  Parameter* norm_ = nullptr;
  Parameter* lm_head_ = nullptr;
};

}  // namespace tessera
