// moe/layer/open_experts.h: routed experts as ops of the table alone (LayerForm::kOps).
#pragma once

#include "moe/layer/router.h"

namespace tessera {

/// As they are used; shapes (E, F, D), (E, D, F), (E, F, D).
struct ExpertWeights {
  DTensor w1_EFD, w2_EDF, w3_EFD;
};
/// Each token through every expert, and the sum by its weights, which are 0 for those that it was
/// not sent to. Shapes: x (B, L, D) → (B, L, D). Cost: E / top_k times the products that routed
/// rows need. Source: GShard's dense form, 2020, without a capacity.
DTensor open_experts(const DTensor& x_BLD, const Routing& routing, const ExpertWeights& weights);

}  // namespace tessera
