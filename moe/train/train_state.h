// moe/train/train_state.h: what a training run must remember to go on as if it had never stopped:
// parameters, optimizer state, expert biases, and how far it was.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "moe/train/trainer.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// How far a run was.
struct TrainProgress {
  std::int64_t step = 0;   ///< steps done: the next one's index, and the position in the data
  std::uint64_t seed = 0;  ///< of the first weights
  /// Keys of the recipe that are not as when it was saved: "lr is 0.001, was 0.002".
  std::vector<std::string> changes = {};
};

/// Parameters and expert biases, by name.
std::vector<StateTensor> weight_tensors(Model& model);
/// The same and the optimizer's state (made, as zeros, where the first step has not).
std::vector<StateTensor> train_tensors(Model& model, Trainer& trainer);
/// step, optimizer_steps, data_position, seed, and the config by its keys: `model`, what the model
/// computes, and `training`, the rest.
Json train_values(Model& model, Trainer& trainer, const TrainProgress& progress);

/// Where a run begins, from a checkpoint of a run on any mesh (the last of the folder, or one that
/// it keeps); counts of experts' tokens, which no checkpoint holds, start again. Errors: as
/// load_checkpoint(); InvalidArgument naming the first key that differs of those that say what the
/// model computes or what the optimizer's state means. Collective: yes, over the world.
TrainProgress load_train_state(FileSystem& files, Model& model, Trainer& trainer,
                               std::optional<std::int64_t> generation = {});
/// Parameters and expert biases only, as a new run's first weights, whatever its optimizer. Errors
/// and collective: the same.
void load_initial_weights(FileSystem& files, Model& model);

}  // namespace tessera
