// tools/tessera_train/checkpoints.h: --load, --save and --resume of one rank's training.
#pragma once

#include <memory>
#include <string>

#include "moe/train/train_state.h"
#include "tools/tessera_train/options.h"

namespace tessera {

/// The folder of a flag, opened by every rank. Throws Error on all ranks alike, naming the flag.
/// Collective: yes.
std::unique_ptr<FileSystem> open_checkpoints(World& world, const std::string& flag,
                                             const std::string& path, MissingFolder missing);

/// Where --resume is given and the folder of --save holds a checkpoint: the run goes on from that,
/// whatever --load and --init say.
void resume_from_save(TrainFlags& flags);
/// The same on all ranks alike, as rank 0 sees the folder. Collective: yes.
void resume_from_save(World& world, TrainFlags& flags);

/// Saves every so many steps beside training, and after the last step.
class Saver {
 public:
  /// Opens the folder of --save, where it is given. Collective: yes.
  Saver(World& world, const TrainFlags& flags);
  /// After each step. Collective: yes. Throws Error, also where an earlier save has failed since.
  void after_step(Model& model, Trainer& trainer, const TrainProgress& done);
  /// Saves the last state, unless that was just done, and waits for it. Collective: yes.
  void finish(Model& model, Trainer& trainer, const TrainProgress& done);

 private:
  void start(Model& model, Trainer& trainer, const TrainProgress& done);

  World& world_;
  std::int64_t every_ = 0;
  SaveOptions options_;
  std::unique_ptr<FileSystem> files_;
  std::unique_ptr<AsyncSave> pending_;
  std::int64_t started_at_ = -1;  ///< step of the latest save
};

}  // namespace tessera
