// moe/layer/balance.h: how many tokens chose each expert, and the bias that evens them out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "moe/layer/layer_context.h"
#include "moe/layer/router.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Counts of one MoE layer since the last update. Passes without gradients (evaluation, and the
/// first of two passes under recompute) are not counted. Source: DeepSeek-V3, 2024, 2.1.2.
class LoadBalancer {
 public:
  /// No bias where bias_coeff is absent; counts are kept all the same.
  LoadBalancer(const LayerContext& context, const std::string& name);
  const DTensor& expert_bias_E() const noexcept { return bias_E_; }
  /// Assignments that tokens chose; undefined where nothing was counted.
  const DTensor& counts_E() const noexcept { return counts_E_; }
  /// Those of them that were dispatched.
  const DTensor& dispatched_E() const noexcept { return dispatched_E_; }
  void count(const Routing& routing);
  /// Starts again without an update.
  void forget_counts();
  /// bias += coeff · sign(mean(C) − C), less its mean where the bias is centred, in place, where
  /// the steering (kernels::Steering) says to go on. Counts are global, plain I64.
  void update(const DTensor& counts_E, const DTensor& steering);
  /// The same by ops of the table alone. `go`: 0-d, 1, or 0 where nothing is to be updated.
  void update_openly(const DTensor& counts_E, const DTensor& go);

 private:
  Runtime* runtime_;
  std::optional<double> coefficient_;
  bool centred_;
  DTensor bias_E_;
  DTensor counts_E_;
  DTensor dispatched_E_;
};

}  // namespace tessera
