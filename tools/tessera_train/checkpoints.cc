#include "tools/tessera_train/checkpoints.h"

#include "checkpoint/agree.h"

namespace tessera {

std::unique_ptr<FileSystem> open_checkpoints(World& world, const std::string& flag,
                                             const std::string& path, MissingFolder missing) {
  StatusOr<std::unique_ptr<FileSystem>> files = open_folder(path, missing);
  const Status& status = files.status();
  agree(world, status.ok()
                   ? status
                   : Status(status.code(), to_absl(flag + " " + std::string(message_of(status)))));
  return *std::move(files);
}

Saver::Saver(World& world, const TrainFlags& flags)
    : world_(world),
      every_(flags.save_every),
      options_{.keep = flags.keep, .read_back = flags.verify ? ReadBack::kOn : ReadBack::kOff} {
  if (flags.save.empty()) return;
  files_ = open_checkpoints(world, "--save", flags.save, MissingFolder::kMake);
  try_save(world, *files_);  // not after hours of training
}

void Saver::start(Model& model, Trainer& trainer, const TrainProgress& done) {
  if (pending_) pending_->finish();
  pending_.reset();
  started_at_ = done.step;
  pending_ = std::make_unique<AsyncSave>(world_, *files_, train_tensors(model, trainer),
                                         train_values(model, trainer, done), options_);
}

void Saver::after_step(Model& model, Trainer& trainer, const TrainProgress& done) {
  if (!files_) return;
  if (pending_ && pending_->poll()) pending_.reset();
  if (every_ > 0 && done.step % every_ == 0) start(model, trainer, done);
}

void Saver::finish(Model& model, Trainer& trainer, const TrainProgress& done) {
  if (!files_) return;
  if (started_at_ != done.step) start(model, trainer, done);
  if (pending_) pending_->finish();
  pending_.reset();
}

}  // namespace tessera
