// moe/train/open_step.h: one optimizer step of the reference model as a program of table ops alone,
// on one rank: what a solver places on any mesh, and a PlanTrainer then runs.
#pragma once

#include <string>
#include <vector>

#include "moe/train/config.h"
#include "parallel/parameter.h"
#include "placement/api.h"
#include "program/program.h"

namespace tessera TSR_API {

/// Names of values of an open step. Of micro-batch i: "ids.i", "targets.i", and with a pad_id
/// "padding.i" and "ignored.i". 0-d, F64: "lr", "update" (1 for the first), "target_share" and
/// "input_share" (one over the step's tokens that count, and that are no padding).
namespace open_names {
std::string of_micro(const char* what, std::int64_t micro);
inline constexpr const char* kIds = "ids";
inline constexpr const char* kTargets = "targets";
inline constexpr const char* kPadding = "padding";
inline constexpr const char* kIgnored = "ignored";
inline constexpr const char* kLr = "lr";
inline constexpr const char* kUpdate = "update";
inline constexpr const char* kTargetShare = "target_share";
inline constexpr const char* kInputShare = "input_share";
// What it leaves: 0-d in F64, and I64 (MoE layers, E).
inline constexpr const char* kLoss = "loss";
inline constexpr const char* kGradNorm = "grad_norm";
inline constexpr const char* kExpertCounts = "tokens_per_expert";
}  // namespace open_names

/// A parameter's first values, by its name.
struct NamedInit {
  std::string name;
  Init init;
};
struct OpenStep {
  Program program;
  std::vector<NamedInit> parameters;
};

/// Forward and backward passes of all micro-batches, the clip by the norm, the update of parameters
/// and expert biases, which is not made where loss or norm is not finite: as the Trainer's step on
/// one rank, but that every expert meets every token (LayerForm::kOps). Runs on shapes alone.
/// Errors: Unimplemented for what has no form of ops: a capacity, noise, losses of routing that
/// reports are made of, a norm that is not the second, SGD.
StatusOr<OpenStep> open_step(const ModelConfig& config, DType dtype);

}  // namespace tessera
