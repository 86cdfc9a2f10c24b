// moe/experts.h: routed experts: dispatch, grouped products and combine in one region of local
// tensors.
#pragma once

#include <string>

#include "moe/model_context.h"
#include "moe/router.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// w1, w3 (E, F, D) and w2 (E, D, F). With expert parallelism they live on the sparse mesh, experts
/// cut over ep; else on the dense mesh, F cut over tp.
class RoutedExperts {
 public:
  RoutedExperts(const ModelContext& context, const std::string& name, std::int64_t layer);
  /// Shapes: x_BLD and routing placed routed_tokens() → (B, L, D): routed_tokens() under expert
  /// parallelism, else P(sum) on tp. Collective: all-to-all along ep. Errors: FailedPrecondition
  /// where a placement is not the declared one.
  DTensor operator()(const ModelContext& context, const DTensor& x_BLD,
                     const Routing& routing) const;

 private:
  std::string name_;
  Parameter* w1_;
  Parameter* w2_;
  Parameter* w3_;
};

}  // namespace tessera
