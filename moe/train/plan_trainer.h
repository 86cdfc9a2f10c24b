// moe/train/plan_trainer.h: the training loop by a placed program (open_step.h): each step is one
// run of it, with parameters, states and data where it says.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/weight_files.h"
#include "execute/program_run.h"
#include "moe/train/data.h"
#include "moe/train/trainer.h"
#include "placement/api.h"
#include "program/program.h"

namespace tessera TSR_API {

/// Whether a program is one step of this model: it begins with the values of its open_step(), of
/// their roles, shapes and dtypes. Errors: InvalidArgument naming the first value that differs;
/// those of open_step().
Status check_plan(const Program& plan, const ModelConfig& config, DType dtype);

class PlanTrainer {
 public:
  /// `data` must outlive it. Throws Error: those of check_plan() and of ProgramRun::make(), on all
  /// ranks alike and before any collective.
  PlanTrainer(Runtime& runtime, Program plan, const ModelConfig& config, const TokenData& data,
              DType dtype);
  ~PlanTrainer();
  PlanTrainer(const PlanTrainer&) = delete;
  PlanTrainer& operator=(const PlanTrainer&) = delete;

  /// Parameters as Model's; states are zeros. No communication.
  void initialize(std::uint64_t seed);
  /// Parameters and expert biases of files, each rank what the plan gives it. Throws Error. No
  /// communication.
  void load(const WeightFiles& files);

  /// As Trainer::step(). Collective: yes, the same step on all ranks. Throws Error:
  /// FailedPrecondition for a loss or norm that is not finite, after which nothing has changed.
  StepReport step(std::int64_t step);
  /// Parameters, optimizer states and expert biases, by name.
  const ProgramTensors& state() const noexcept { return state_; }
  const ProgramRun& run() const noexcept { return *run_; }

 private:
  ProgramTensors inputs(std::int64_t step, double lr, StepReport& report);
  DTensor placed(const std::string& name, const Array& whole) const;

  Runtime& runtime_;
  ModelConfig config_;
  const TokenData& data_;
  DType dtype_;
  std::unique_ptr<ProgramRun> run_;
  LearningRate rate_;
  ProgramTensors state_;
  std::int64_t num_updates_ = 0;
};

}  // namespace tessera
