// moe/layer/experts.h: routed experts: dispatch, grouped products and combine in one region of
// local tensors.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "moe/layer/dispatcher.h"
#include "moe/layer/layer_context.h"
#include "moe/layer/router.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// w1, w3 (E, F, D) and w2 (E, D, F). With expert parallelism they live on the sparse mesh, experts
/// cut over ep, F over etp; else on the dense mesh, F cut over tp.
class RoutedExperts {
 public:
  RoutedExperts(const LayerContext& context, const std::string& name, std::int64_t layer);
  /// Shapes: x_BLD and routing placed routed_tokens() → (B, L, D): routed_tokens() under expert
  /// parallelism, else P(sum) on tp. `meanwhile` (may be empty) runs while the first rows are on
  /// their way. Collective: those of the dispatcher. Errors: FailedPrecondition where a placement
  /// is not the declared one, or a rank's counts_E are not those of its ids_BLK.
  DTensor operator()(const LayerContext& context, const DTensor& x_BLD, const Routing& routing,
                     const std::function<void()>& meanwhile = {});

  const std::string& name() const noexcept { return name_; }
  const Dispatcher& dispatcher() const noexcept { return *dispatcher_; }
  /// I64 (1): the least rows_bound that this rank's passes since the last call needed. Undefined
  /// where sizes are exact.
  DTensor take_rows_needed() { return std::exchange(rows_needed_, {}); }

 private:
  /// `tokens` without its ids, which come from the region.
  std::vector<DTensor> compute(RoutedTokens tokens, const LocalInputs& local,
                               const std::function<void()>& meanwhile);

  std::string name_;
  std::unique_ptr<Dispatcher> dispatcher_;
  DTensor rows_needed_;
  Parameter* w1_;
  Parameter* w2_;
  Parameter* w3_;
};

}  // namespace tessera
