#include "moe/train/model.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "dtensor/factories.h"
#include "dtensor/recompute.h"
#include "moe/layer/routed_slots.h"
#include "runtime/gather_texts.h"

namespace tessera {
namespace {

DType parameter_dtype(DType compute) { return compute == DType::kF64 ? DType::kF64 : DType::kF32; }

/// With pipeline stages several micro-batches are between their passes, and share what is gathered.
FsdpPolicy fsdp_policy(const ParallelConfig& config) {
  FsdpPolicy policy = config.fsdp;
  if (policy.reshard == ReshardAfterForward::kDefault && config.pp > 1) {
    policy.reshard = ReshardAfterForward::kNever;
  }
  return policy;
}

}  // namespace

Block::Block(const ModelContext& context, std::int64_t layer)
    : name_("layers." + std::to_string(layer)),
      unit_(&context.parameters.begin_unit(name_)),
      attention_norm_(
          &context.declare(name_ + ".attention_norm.weight", {context.model.dim}, Replicate{}, {})),
      attention_(context, name_ + ".attention", layer),
      ffn_norm_(
          &context.declare(name_ + ".ffn_norm.weight", {context.model.dim}, Replicate{}, {})) {
  if (context.model.is_moe_layer(layer)) {
    moe_.emplace(context, name_ + ".moe", layer);
  } else {
    feed_forward_.emplace(context, name_ + ".feed_forward", context.model.dense_hidden_dim, layer);
  }
}

DTensor Block::operator()(const ModelContext& context, const DTensor& x_BLD,
                          const TokenPadding& padding) {
  const FsdpUse gathered(*unit_);
  const ModuleScope block_scope(context.runtime, name_);
  const double eps = context.model.norm_eps;
  DTensor x = x_BLD;
  {
    const ModuleScope scope(context.runtime, "attention");
    const DTensor normed = rms_norm(x, attention_norm_->use(context.compute), eps);
    x = add(x, redistribute(attention_(context, normed), context.tokens()));
  }
  const ModuleScope scope(context.runtime, moe_ ? "moe" : "feed_forward");
  const DTensor normed = rms_norm(x, ffn_norm_->use(context.compute), eps);
  if (moe_) return add(x, (*moe_)(context, normed, padding));
  const DTensor whole = redistribute(normed, context.whole_tokens());
  return add(x, redistribute((*feed_forward_)(context, whole), context.tokens()));
}

Model::Model(Runtime& runtime, const MeshViews& views, const ModelConfig& config, DType dtype,
             LayerForm form)
    : config_(config),
      views_(value_or_throw(views.at_stage(views.stage_of(runtime.rank())))),
      plan_(value_or_throw(plan_pipeline(config_, views.config()))),
      stage_group_(runtime.world(), views_),
      parameters_(runtime, parameter_dtype(dtype), fsdp_policy(views.config()), dtype),
      context_{{.runtime = runtime,
                .views = views_,
                .config = config_,
                .parameters = parameters_,
                .compute = dtype,
                .form = form},
               config_} {
  for (const ModelPart& part : plan_.parts) {
    if (plan_.shape.rank_of(part.stage) == stage_group_.rank()) make_part(part);
  }
}

void Model::make_part(const ModelPart& part) {
  if (part.has_embedding) {
    embedding_unit_ = &parameters_.begin_unit("tok_embeddings");
    embedding_ = &context_.declare("tok_embeddings.weight", {config_.vocab, config_.dim}, Shard{0},
                                   normal_init(1.0));
  }
  for (std::int64_t layer = part.first_layer; layer < part.end_layer; ++layer) {
    blocks_.try_emplace(layer, context_, layer);
  }
  if (!part.has_head) return;
  head_unit_ = &parameters_.begin_unit("lm_head");
  norm_ = &context_.declare("norm.weight", {config_.dim}, Replicate{}, {});
  const double head_std = 1.0 / std::sqrt(static_cast<double>(config_.dim));
  lm_head_ = &context_.declare("lm_head.weight", {config_.vocab, config_.dim}, Shard{0},
                               truncated_init(head_std, 3.0 * head_std));
}

DTensor Model::run_block(Block& block, const DTensor& x_BLD, const TokenPadding& padding) {
  const auto piece = [this, &block,
                      padding](std::span<const DTensor> inputs) -> std::vector<DTensor> {
    return {block(context_, inputs[0], padding)};
  };
  return recompute(context_.runtime, views_.config().recompute, {&x_BLD, 1}, piece)[0];
}

DTensor Model::logits(const DTensor& ids_BL) {
  if (!is_whole()) {
    throw Error(failed_precondition(
        absl::StrFormat("logits: this rank holds some of %d pipeline stages; run_part() runs one",
                        plan_.parts.size())));
  }
  return run_part(plan_.parts[0], ids_BL);
}

DTensor Model::run_part(const ModelPart& part, const DTensor& in, const TokenPadding& given) {
  DTensor x = in;
  TokenPadding padding = given;
  if (padding.mask_BL.defined()) {
    padding.mask_BL = redistribute(padding.mask_BL, context_.routed_tokens());
  }
  if (part.has_embedding) {
    const FsdpUse gathered(*embedding_unit_);
    const ModuleScope scope(context_.runtime, "tok_embeddings");
    x = redistribute(embedding(embedding_->use(context_.compute), in), context_.tokens());
  }
  for (std::int64_t layer = part.first_layer; layer < part.end_layer; ++layer) {
    x = run_block(blocks_.at(layer), x, padding);
  }
  if (!part.has_head) return x;
  const FsdpUse gathered(*head_unit_);
  const ModuleScope scope(context_.runtime, "lm_head");
  const DTensor normed = rms_norm(x, norm_->use(context_.compute), config_.norm_eps);
  return project(context_, redistribute(normed, context_.whole_tokens()), *lm_head_);
}

DTensor Model::loss(const DTensor& ids_BL, const DTensor& targets_BL, std::int64_t num_tokens) {
  const double share = num_tokens == 0 ? 0.0 : 1.0 / static_cast<double>(num_tokens);
  return loss_of(logits(ids_BL),
                 {.ids_BL = targets_BL,
                  .step_share = scalar_tensor(context_.runtime, share, {.dtype = DType::kF64})});
}

DTensor Model::loss_of(const DTensor& logits_BLV, const Targets& targets) {
  const ModuleScope scope(context_.runtime, "loss");
  const DType dtype = context_.score_dtype();
  const DTensor scores = logits_BLV.dtype() == dtype ? logits_BLV : cast(logits_BLV, dtype);
  DTensor losses_BL = cross_entropy(scores, targets.ids_BL);
  if (targets.ignored_BL.defined()) losses_BL = masked_fill(losses_BL, targets.ignored_BL, 0.0);
  return mul(sum(losses_BL), cast(targets.step_share, dtype));
}

std::vector<std::int64_t> Model::layers() const {
  std::vector<std::int64_t> numbers;
  for (const auto& [layer, block] : blocks_) numbers.push_back(layer);
  return numbers;
}

std::vector<std::string> Model::names_elsewhere() {
  if (is_whole()) return {};
  std::string own;
  for (const Parameter& parameter : parameters_.all()) {
    if (parameter.stored().requires_grad()) own += parameter.name() + "\n";
  }
  std::set<std::string> names;
  for (const std::string& text : gather_texts(context_.runtime.world(), own)) {
    for (const absl::string_view name : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
      names.emplace(name);
    }
  }
  for (const Parameter& parameter : parameters_.all()) names.erase(parameter.name());
  return {names.begin(), names.end()};
}

std::vector<MoeLayer*> Model::moe_layers() {
  std::vector<MoeLayer*> layers;
  for (auto& [layer, block] : blocks_) {
    if (block.moe() != nullptr) layers.push_back(block.moe());
  }
  return layers;
}

DTensor Model::take_expert_counts() {
  const ModuleScope scope(context_.runtime, "load_balance");
  const NoGrad no_grad(context_.runtime);
  std::vector<DTensor> counts;
  for (MoeLayer* layer : moe_layers()) {
    counts.push_back(layer->balancer().counts_E());
    layer->balancer().forget_counts();
  }
  if (counts.empty()) return {};
  const auto layers = static_cast<std::int64_t>(counts.size());
  return reshape(plain(context_.runtime, full_tensor(cat(counts, 0))),
                 {layers, config_.num_experts});
}

void Model::update_expert_bias(const DTensor& counts_LE, const DTensor& steering) {
  const NoGrad no_grad(context_.runtime);
  std::int64_t row = 0;
  for (MoeLayer* layer : moe_layers()) {
    const DTensor counts_E = reshape(slice(counts_LE, 0, row, row + 1), {config_.num_experts});
    layer->balancer().update(counts_E, steering);
    ++row;
  }
}

DTensor Model::among_all_layers(const DTensor& own, std::int64_t width) {
  Runtime& runtime = context_.runtime;
  const auto none = [&](std::int64_t rows) {
    return zeros(runtime, {rows, width}, {.dtype = DType::kF64});
  };
  std::vector<DTensor> parts;
  std::int64_t next = config_.n_dense_layers, row = 0;
  for (auto& [layer, block] : blocks_) {
    if (block.moe() == nullptr) continue;
    if (layer > next) parts.push_back(none(layer - next));
    parts.push_back(slice(own, 0, row, row + 1));
    ++row;
    next = layer + 1;
  }
  if (next < config_.n_layers) parts.push_back(none(config_.n_layers - next));
  return parts.empty() ? none(0) : cat(parts, 0);
}

bool Model::bounds_rows() const {
  return views_.config().dispatch.rows_bound > 0 && views_.ep() * views_.etp() > 1;
}

DTensor Model::take_rows_needed() {
  const ModuleScope scope(context_.runtime, "row_bounds");
  const NoGrad no_grad(context_.runtime);
  std::vector<DTensor> needed;
  for (MoeLayer* layer : moe_layers()) {
    const DTensor rows = layer->experts().take_rows_needed();
    needed.push_back(rows.defined() ? rows : zeros(context_.runtime, {1}, {.dtype = DType::kI64}));
  }
  if (needed.empty()) return {};
  const Placements largest(static_cast<std::size_t>(views_.dense().ndim()),
                           Partial{ReduceOp::kMax});
  const DTensor on_ranks = from_local(cat(needed, 0), views_.dense(), largest,
                                      {static_cast<std::int64_t>(needed.size())});
  return cast(plain(context_.runtime, full_tensor(on_ranks)), DType::kF64);
}

Status Model::check_row_bounds(std::span<const double> rows_needed) const {
  const std::int64_t bound = views_.config().dispatch.rows_bound;
  std::string text;
  for (std::size_t i = 0; i < rows_needed.size(); ++i) {
    if (rows_needed[i] <= static_cast<double>(bound)) continue;
    text += absl::StrFormat("%slayers.%d.moe.routed_experts: rows_bound %d, but %.0f are needed",
                            text.empty() ? "" : "; ",
                            static_cast<std::int64_t>(i) + config_.n_dense_layers, bound,
                            rows_needed[i]);
  }
  if (text.empty()) return absl::OkStatus();
  return failed_precondition(text +
                             ". Rows beyond the bound were left out; nothing may be "
                             "made of this pass. Raise rows_bound, or leave it out");
}

}  // namespace tessera
