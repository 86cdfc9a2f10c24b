// kernels/route.h: what a router makes of its logits: scores, the K experts of each row, and their
// weights. Source: DeepSeek-V3's router (2024), whose bias balances the load.
#pragma once

#include <cstdint>

#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {
namespace kernels {

enum class RouteScore : std::uint8_t {
  kSoftmax,
  kSigmoid,
  kSqrtSoftplus  ///< √(log(1 + eˣ))
};
enum class RouteWeights : std::uint8_t {
  kScores,
  kShares  ///< of the sum of the row's chosen scores, kShareGuard added to it
};
/// A row whose chosen scores are all 0 has weights of 0.
inline constexpr double kShareGuard = 1e-20;

struct RouteOptions {
  RouteScore score = RouteScore::kSoftmax;
  RouteWeights weights = RouteWeights::kScores;
  double scale = 1.0;  ///< of the weights
};
struct RouteOperands {
  Array logits;       ///< (…, E)
  Array bias_E = {};  ///< added to the scores for the choice alone; null: none
  Array ids = {};     ///< (…, K), I64: chosen before, so that no choice is made; null: none were
};
struct RouteResults {
  Array scores;   ///< (…, E)
  Array ids;      ///< (…, K), I64: as topk() chooses the largest, or those given
  Array weights;  ///< (…, K)
};

/// Floating arrays are of one dtype, and each step rounds to it: results have the bits of the
/// kernels that take one step each, but for sums on a device. Errors: InvalidArgument; OutOfRange
/// naming the position of a given id outside [0, E).
/// Cost: on a device one launch, which reads logits and writes results once, for up to 1024 experts
/// and 32 chosen; beyond, the other kernels one after the other.
void route_topk(KernelContext& ctx, const RouteOptions& options, const RouteOperands& from,
                const RouteResults& to);

}  // namespace kernels
}  // namespace tessera
