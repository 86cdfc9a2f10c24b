// moe/train/attention.h: multi-head latent attention (MLA): keys and values through a low-rank
// projection, RoPE on a part.
#pragma once

#include <string>

#include "moe/train/model_context.h"
#include "moe/train/rope_table.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Heads are cut over tp. Source: DeepSeek-V2, 2024, 2.1.
class LatentAttention {
 public:
  LatentAttention(const ModelContext& context, const std::string& name, std::int64_t layer);
  /// Shapes: x_BLD, normalised, placed tokens() → (B, L, D), P(sum) on tp. Collective: all-gather
  /// of L under sequence parallelism.
  DTensor operator()(const ModelContext& context, const DTensor& x_BLD) const;

 private:
  DTensor queries(const ModelContext& context, const DTensor& h_BLD) const;

  Parameter* wq_ = nullptr;    ///< q_lora_rank 0
  Parameter* wq_a_ = nullptr;  ///< else these three
  Parameter* q_norm_ = nullptr;
  Parameter* wq_b_ = nullptr;
  Parameter* wkv_a_;
  Parameter* kv_norm_;
  Parameter* wkv_b_;
  Parameter* wo_;
  DTensor cos_, sin_;
};

}  // namespace tessera
