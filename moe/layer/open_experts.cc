#include "moe/layer/open_experts.h"

#include "dtensor/ops.h"

namespace tessera {
namespace {

/// (E, n, k) for products with x (1, B, L, k): (E, 1, k, n).
DTensor as_factor(const DTensor& weight_ENK) { return unsqueeze(transpose(weight_ENK, 1, 2), 1); }

/// Each token's weight of each expert.
DTensor combine_weights(const Routing& routing) {
  DTensor none_BLE;
  {
    const NoGrad no_grad(routing.scores_BLE.runtime());
    none_BLE = full_like(routing.scores_BLE.detach(), 0.0, routing.weights_BLK.dtype());
  }
  return scatter(none_BLE, -1, routing.ids_BLK, routing.weights_BLK);
}

}  // namespace

DTensor open_experts(const DTensor& x_BLD, const Routing& routing, const ExpertWeights& weights) {
  const DTensor x_1BLD = unsqueeze(x_BLD, 0);
  const DTensor gate_EBLF = matmul(x_1BLD, as_factor(weights.w1_EFD));
  const DTensor up_EBLF = matmul(x_1BLD, as_factor(weights.w3_EFD));
  const DTensor y_EBLD = matmul(swiglu(gate_EBLF, up_EBLF), as_factor(weights.w2_EDF));
  const DTensor weights_EBL1 = unsqueeze(permute(combine_weights(routing), {2, 0, 1}), -1);
  return sum(mul(y_EBLD, cast(weights_EBL1, x_BLD.dtype())), {0});
}

}  // namespace tessera
