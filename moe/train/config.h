// moe/train/config.h: the model and its run, by the keys of a config file (the same as in the
// parity data).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "moe/layer/moe_config.h"
#include "parallel/learning_rate.h"
#include "parallel/mesh_views.h"
#include "parallel/optimizer.h"
#include "placement/api.h"
#include "placement/status.h"

namespace tessera TSR_API {

/// DeepSeek-V3-style model and training recipe; letters as in the suffixes of tensor names.
struct ModelConfig : MoeConfig {
  std::int64_t n_layers = 0;
  std::int64_t n_dense_layers = 0;  ///< the first layers have a dense feed-forward
  std::int64_t n_heads = 0;         ///< H
  std::int64_t q_lora_rank = 0;     ///< 0: one projection for q
  std::int64_t kv_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t rope_dim = 0;
  std::int64_t v_head_dim = 0;
  double mscale = 1.0;
  std::int64_t dense_hidden_dim = 0;
  std::int64_t vocab = 0;              ///< V
  std::optional<std::int64_t> pad_id;  ///< tokens of this id are padding
  std::int64_t steps = 0;
  double lr = 0.0;
  std::int64_t warmup = 0;
  double max_norm = 1.0;
  double rope_theta = 10000.0;
  double yarn_factor = 1.0;
  double yarn_beta_fast = 32.0;
  double yarn_beta_slow = 1.0;
  double yarn_original_seq = 4096.0;
  double norm_eps = 1e-5;
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8, weight_decay = 0.0;
  double decay_ratio = 0.0;
  DecayShape decay = DecayShape::kLinear;
  double min_lr_factor = 0.0;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  double momentum = 0.0;
  Momentum momentum_form = Momentum::kPlain;
  std::optional<DType> state_dtype;
  std::vector<ParamGroup> param_groups;
  double norm_type = 2.0;  ///< p of the gradient norm; infinity: the largest magnitude

  std::int64_t qk_head_dim() const { return qk_nope_head_dim + rope_dim; }
  bool is_moe_layer(std::int64_t layer) const { return layer >= n_dense_layers; }
};

/// Errors: InvalidArgument naming file and key, what was seen and what is allowed: an unknown or
/// missing key, a wrong type, a size < 1, groups that do not divide num_experts or leave fewer than
/// 2 each or lack `limited`, an odd rope_dim, …
StatusOr<ModelConfig> parse_model_config(std::string_view text, std::string_view source);
StatusOr<ModelConfig> read_model_config(const std::string& path);

/// The tokens of all steps can be numbered. Errors: InvalidArgument with the four sizes.
Status check_run_size(const ModelConfig& config);

/// What a key of a config is to a checkpoint of its run.
enum class ConfigRole : std::uint8_t {
  kModel,  ///< decides what the model computes: shapes, and what the same parameters mean
  kState,  ///< decides what the optimizer's state means
  kRecipe  ///< how the model is trained: may change from one run to the next
};
/// The keys of that role with their values, as parse_model_config() reads them. Every key has one
/// role; optional keys without a value are left out.
Json config_json(const ModelConfig& config, ConfigRole role);

/// Degrees by name, all optional: dp_replicate, dp_shard, cp, tp, ep, etp, pp, sequence_parallel,
/// strict_even; pp_schedule ("1f1b", "interleaved_1f1b"), pp_microbatches, pp_stages_per_rank,
/// pp_layers (a list);
/// recompute ("none", "full", "selective"); reshard_after_forward ("default", "always", "never"),
/// gradient_reduction ("each_micro_batch", "last_micro_batch"), fsdp_prefetch (true, false).
/// dispatcher (moe/layer/dispatcher_table.h), ranks_per_node, rows_bound, expert_alignment,
/// dispatch_chunks. Errors: InvalidArgument as above; whether the degrees fit the ranks is for
/// MeshViews::make to say.
StatusOr<ParallelConfig> parse_parallel_config(std::string_view text, std::string_view source);

}  // namespace tessera
