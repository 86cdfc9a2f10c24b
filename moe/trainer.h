// moe/trainer.h: the training loop of one rank: forward, backward, clip, balance, update, and what
// each step reports.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "moe/data.h"
#include "moe/model.h"
#include "moe/routing_report.h"
#include "parallel/learning_rate.h"
#include "parallel/optimizer.h"
#include "placement/api.h"

namespace tessera TSR_API {

struct StepReport {
  std::int64_t step = 0;
  double loss = 0.0;       ///< mean over the step's tokens that count, before the update
  double grad_norm = 0.0;  ///< before clipping
  double lr = 0.0;
  double seconds = 0.0;
  std::int64_t num_tokens = 0;  ///< global
  /// Those of them whose targets count; absent without a pad_id and labels.
  std::optional<std::int64_t> valid_tokens;
  std::vector<std::vector<std::int64_t>> tokens_per_expert;  ///< one list per MoE layer
  RoutingReport routing;
  std::vector<EventLog::Total> moved;  ///< this rank's transfers in this step
};
/// One JSON line with the keys step, loss, grad_norm, lr, tokens_per_expert, tokens_per_second,
/// bytes; where the config asks for them also valid_tokens, aux_loss, z_loss and dropped.
std::string to_json_line(const StepReport& report);

class Trainer {
 public:
  /// `data` must outlive the Trainer. Throws Error(InvalidArgument) for data of another pad_id.
  Trainer(Model& model, const TokenData& data);
  /// Collective: yes, the same step on all ranks. Throws Error; FailedPrecondition naming the step
  /// for a loss or gradient norm that is not finite, on all ranks alike and before any update.
  StepReport step(std::int64_t step);
  Optimizer& optimizer() noexcept { return optimizer_; }

 private:
  /// Fills in loss and valid_tokens.
  void accumulate_gradients(StepReport& report);

  Model& model_;
  const TokenData& data_;
  Optimizer optimizer_;
  LearningRate rate_;
  PipelineRunner pipeline_;
};

}  // namespace tessera
