// moe/layer/aux_loss.h: losses on a router's decisions: even load of the experts and small logits.
// They are attached to the routing weights; the model's loss does not change.
#pragma once

#include <array>

#include "moe/layer/balance.h"
#include "moe/layer/layer_context.h"
#include "moe/layer/router.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Σ over the rows of counts_XE and score_sums_XE, of E · Σ_e (share of all assignments that went
/// to e) · (mean score of e); 1 for each row of even load. A 0-d tensor. `counts` (I64, of the
/// tokens whose scores were summed) and `load` (those whose share counts; often the same) carry no
/// gradient. Communication: none where all three are placed alike without summands.
struct LoadSums {
  DTensor load_XE;
  DTensor counts_XE;
  DTensor score_sums_XE;
};
DTensor load_loss(const LoadSums& sums, std::int64_t top_k);

/// The losses of one MoE layer, and what they added up to since the last report.
class AuxLosses {
 public:
  enum class Kind : std::uint8_t { kSequence, kBatch, kGlobal, kZ };
  static constexpr std::size_t kNumKinds = 4;

  /// routing.weights_BLK with the configured losses attached. Counts must have been given to
  /// `balancer` before. Nothing is computed or counted while gradients are off. Collective: for the
  /// sequence loss an all-reduce over the axes that cut L, for the others over all that cut tokens;
  /// the z-loss moves nothing.
  DTensor attach(const LayerContext& context, const Routing& routing, const LoadBalancer& balancer);
  /// The sum of one kind since the last call, 0-d; undefined where there was none.
  DTensor take(Kind kind);

 private:
  std::array<DTensor, kNumKinds> sums_;
};

}  // namespace tessera
