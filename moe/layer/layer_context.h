// moe/layer/layer_context.h: what every module is built from: runtime, meshes, config, parameters.
// Tokens are (B, L, …): B is cut over the data axes, L over cp, and over tp where sequence
// parallelism is on.
#pragma once

#include <string>

#include "moe/layer/moe_config.h"
#include "parallel/parameter.h"
#include "parallel/token_order.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// What a layer computes with. kRegions: local regions with declared placements, in which rows
/// travel to their experts. kOps: ops of the table alone, so that placements can be found for all
/// of it: every expert meets every token, and a weight of 0 leaves it out.
enum class LayerForm : std::uint8_t { kRegions, kOps };

struct LayerContext {
  Runtime& runtime;
  const MeshViews& views;
  const MoeConfig& config;
  ParameterSet& parameters;
  DType compute = DType::kF32;
  LayerForm form = LayerForm::kRegions;

  /// Router scores and weights: F32, or F64 in a double-precision run.
  DType score_dtype() const { return compute == DType::kF64 ? DType::kF64 : DType::kF32; }

  /// Placements on the dense mesh of a tensor (B, L, …): B cut over the data axes, L over cp.
  Placements with_tp(Placement tp) const {
    return views.on_dense(
        {.dp_replicate = Shard{0}, .dp_shard = Shard{0}, .cp = Shard{1}, .tp = tp});
  }
  /// Between blocks: L cut over tp too under sequence parallelism, else replicated there.
  Placements tokens() const {
    return with_tp(views.uses_sequence_parallel() ? Placement(Shard{1}) : Placement(Replicate{}));
  }
  /// Inside attention and feed-forward: every token of the cp rank on each tp rank.
  Placements whole_tokens() const { return with_tp(Replicate{}); }
  /// Where tokens are routed: each tp rank its own shard of L under expert parallelism, else all.
  Placements routed_tokens() const {
    return with_tp(views.uses_expert_parallel() ? Placement(Shard{1}) : Placement(Replicate{}));
  }
  /// Which position each place of L holds.
  TokenOrder token_order() const;
  /// This rank's part of tokens (B, L) that every rank holds, placed whole_tokens(), in
  /// token_order(). No communication.
  DTensor place_tokens(const Array& tokens_BL) const;
  /// What a sum over tokens placed `with_tp` is: a summand on every axis that cuts them.
  Placements summed(Placement tp) const {
    return views.on_dense(
        {.dp_replicate = Partial{}, .dp_shard = Partial{}, .cp = Partial{}, .tp = tp});
  }

  /// A dense parameter, `tp` its placement on that axis; FSDP (dp_shard, cp) cuts dim 0. It is used
  /// in `used_dtype`, by default that of the computation.
  Parameter& declare(const std::string& name, Shape shape, Placement tp, Init init,
                     std::optional<DType> used_dtype = {}) const {
    return parameters.add({.name = name,
                           .shape = std::move(shape),
                           .mesh = views.dense(),
                           .used = views.on_dense({.tp = tp}),
                           .fsdp_axes = views.fsdp_axes(),
                           .fsdp_dim = 0,
                           .init = init,
                           .used_dtype = used_dtype});
  }
};

inline Init normal_init(double std) { return {.kind = Init::Kind::kNormal, .std = std}; }
/// Bounds are absolute.
inline Init truncated_init(double std, double bound = 2.0) {
  return {.kind = Init::Kind::kTruncatedNormal, .std = std, .bound = bound};
}
inline constexpr double kLinearStd = 0.02;  ///< of weights at first
/// Of projections back into the residual stream: smaller with depth.
double depth_std(std::int64_t layer);

/// out = x · w for (…, k), w (n, k).
inline DTensor project(const LayerContext& context, const DTensor& x, const Parameter& weight) {
  return linear(x, weight.use(context.compute));
}

}  // namespace tessera
