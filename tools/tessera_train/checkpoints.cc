#include "tools/tessera_train/checkpoints.h"

#include <filesystem>

#include "checkpoint/agree.h"
#include "checkpoint/manifest.h"

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

namespace {

bool save_holds_checkpoint(const TrainFlags& flags) {
  return flags.resume && std::filesystem::exists(flags.save + "/" + std::string(kManifestName));
}
void go_on_from_save(TrainFlags& flags) {
  flags.load = flags.save;
  flags.init.clear();
  flags.generation.reset();
}

}  // namespace

void resume_from_save(TrainFlags& flags) {
  if (save_holds_checkpoint(flags)) go_on_from_save(flags);
}

void resume_from_save(World& world, TrainFlags& flags) {
  if (!flags.resume) return;
  const Array resumes = Array::empty({1}, DType::kI64, world.host_allocator());
  const bool holds = world.rank() == 0 && save_holds_checkpoint(flags);
  *resumes.data<std::int64_t>() = holds ? 1 : 0;
  everyone(world).all_reduce(resumes, resumes, ReduceOp::kMax,
                             {.tensor = "resumes", .log = CallLog::kNo});
  if (*resumes.data<std::int64_t>() != 0) go_on_from_save(flags);
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
