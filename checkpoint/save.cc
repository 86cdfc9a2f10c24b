#include "checkpoint/save.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "checkpoint/agree.h"
#include "checkpoint/generation.h"
#include "runtime/environment.h"

namespace tessera {
namespace {

/// A rank's parts, or why it has none: agreed on before anything is written.
std::vector<OwnedPart> agreed_parts(World& world, std::span<const StateTensor> tensors) {
  StatusOr<std::vector<OwnedPart>> parts = owned_parts(world.rank(), tensors);
  agree(world, parts.status());
  return *std::move(parts);
}

Array copy_of(const Array& array) {
  Array copy = Array::empty(array.shape(), array.dtype());
  if (array.num_bytes() > 0) {
    std::memcpy(copy.data<std::byte>(), array.data<std::byte>(),
                static_cast<std::size_t>(array.num_bytes()));
  }
  return copy;
}

}  // namespace

void save_checkpoint(World& world, FileSystem& files, std::span<const StateTensor> tensors,
                     const Json& values, const SaveOptions& options) {
  const std::vector<OwnedPart> parts = agreed_parts(world, tensors);
  NewGeneration generation(world, files, options);
  generation.commit(generation.write(parts), values);
}

void try_save(World& world, FileSystem& files) {
  NewGeneration generation(world, files, {});
  agree(world, generation.try_shard());
}

struct AsyncSave::State {
  State(World& world_, FileSystem& files, Json values_, const SaveOptions& options)
      : world(world_), values(std::move(values_)), generation(world_, files, options) {}

  World& world;
  Json values;
  NewGeneration generation;
  std::vector<OwnedPart> parts;
  StatusOr<WrittenShard> written;
  std::atomic<bool> is_written{false};
  Thread writer;

  void commit() {
    writer.join();
    parts.clear();
    generation.commit(written, values);
  }
};

AsyncSave::AsyncSave(World& world, FileSystem& files, std::span<const StateTensor> tensors,
                     const Json& values, const SaveOptions& options) {
  std::vector<OwnedPart> parts = agreed_parts(world, tensors);
  state_ = std::make_unique<State>(world, files, values, options);
  for (OwnedPart& part : parts) part.local = copy_of(part.local);
  state_->parts = std::move(parts);
  state_->writer = Thread([state = state_.get()] {
    state->written = state->generation.write(state->parts);
    state->is_written.store(true, std::memory_order_release);
  });
}

AsyncSave::~AsyncSave() {
  if (state_ && state_->writer.joinable()) state_->writer.join();
}

bool AsyncSave::poll() {
  if (!state_) return true;
  const bool own = state_->is_written.load(std::memory_order_acquire);
  const std::vector<std::string> all = agree(state_->world, absl::OkStatus(), own ? "y" : "n");
  if (std::find(all.begin(), all.end(), "n") != all.end()) return false;
  finish();
  return true;
}

void AsyncSave::finish() {
  if (!state_) return;
  const std::unique_ptr<State> state = std::move(state_);
  state->commit();
}

}  // namespace tessera
