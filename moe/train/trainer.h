// moe/train/trainer.h: the training loop of one rank: forward, backward, clip, balance, update, and
// what each step reports.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "moe/train/data.h"
#include "moe/train/model.h"
#include "moe/train/routing_report.h"
#include "moe/train/step_inputs.h"
#include "parallel/learning_rate.h"
#include "parallel/optimizer.h"
#include "placement/api.h"
#include "runtime/world_capture.h"

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

/// What a log counts beyond these totals of it.
std::vector<EventLog::Total> moved_since(const std::vector<EventLog::Total>& before,
                                         const EventLog& log);

enum class StepMode : std::uint8_t {
  kEach,     ///< each step is made of calls by the host
  kCaptured  ///< the second is captured, and done again for all that follow
};

/// A step reads nothing on the host but exact sizes of dispatch (one read a forward pass), until it
/// is over: loss, norm and counts come by one read. A step that must not count updates nothing.
class Trainer {
 public:
  /// `data` must outlive the Trainer. Throws Error(InvalidArgument) for data of another pad_id, and
  /// where a captured step would draw noise.
  Trainer(Model& model, const TokenData& data, StepMode mode = StepMode::kEach);
  /// Collective: yes, the same step on all ranks. Throws Error; FailedPrecondition naming the step
  /// for a loss or gradient norm that is not finite, or naming the layers whose rows_bound was too
  /// small, on all ranks alike and without any update. With kCaptured also those of WorldCapture.
  StepReport step(std::int64_t step);
  Optimizer& optimizer() noexcept { return optimizer_; }

 private:
  /// What a step came to, where it lies: plain tensors of the device.
  struct Outcome {
    bool takes_largest = false;  ///< the norm's type is infinity
    bool bounds_rows = false;
    DTensor sums = {};       ///< of all stages: loss, power of the norm, routing, tokens per expert
    DTensor largest = {};    ///< likewise: norm, rows needed; undefined for neither
    DTensor counts_LE = {};  ///< tokens per expert of this stage's layers
    DTensor norm = {};
  };
  /// The whole step, but for its inputs; returns norm, sums and largest values in one list.
  DTensor run(std::int64_t step);
  /// Returns this stage's part of the loss, F64 (1).
  DTensor accumulate_gradients(std::int64_t step);
  Outcome gather(const DTensor& loss);
  void update(Outcome& outcome);
  /// What run() returned, by one read. Throws what is wrong with it.
  void read(const DTensor& outcome, StepReport& report);

  Model& model_;
  StepMode mode_;
  StepInputs inputs_;
  Optimizer optimizer_;
  LearningRate rate_;
  PipelineRunner pipeline_;
  DTensor outcome_;
  bool has_run_ = false;
  std::vector<EventLog::Total> moved_;  ///< of the last step that the host made
  std::unique_ptr<WorldCapture> captured_;
};

}  // namespace tessera
