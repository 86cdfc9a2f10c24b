// checkpoint/save.h: writes a checkpoint: every rank its own shard, each part of a tensor once. A
// folder holds one whole checkpoint at any time: its manifest is put in place last, in one step.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"
#include "checkpoint/manifest.h"
#include "dtensor/dtensor.h"
#include "placement/api.h"
#include "runtime/world.h"

namespace tessera TSR_API {

/// A tensor of the state, by the name that it is stored under. Every rank of its mesh has it.
struct StateTensor {
  std::string name;
  DTensor tensor;
};

/// Whether a save reads its files again from the disk and compares their hashes before it takes the
/// place of the checkpoint before. Costs a read of what was written.
enum class ReadBack : std::uint8_t { kOff, kOn };

struct SaveOptions {
  std::int64_t chunk_bytes = kDefaultChunkBytes;  ///< that each hash is of
  /// Generations that stay, the new one among them. Requires 1 or more.
  std::int64_t keep = 1;
  ReadBack read_back = ReadBack::kOff;
};

/// Writes `tensors` and `values` (an object, equal on all ranks) as the checkpoint of the folder,
/// in place of the one before; the options.keep − 1 before it stay, too. Errors, thrown on all
/// ranks alike: io_error for whatever the disk refuses or gives back otherwise, and while another
/// save has the folder's lock; InvalidArgument for a Partial tensor, or tensors that do not fit
/// together between ranks. The checkpoint before is then intact, and nothing of the new one is left
/// (but where even removing it fails; the next save does that). Collective: yes, over the world.
/// Cost: memory of one chunk a rank.
void save_checkpoint(World& world, FileSystem& files, std::span<const StateTensor> tensors,
                     const Json& values, const SaveOptions& options = {});

/// What save_checkpoint() would find in the folder, hours before it is called: takes the lock,
/// reads the manifest, makes the next generation's folder and a file in it a rank, and removes them
/// again. Throws as save_checkpoint(). Collective: yes, over the world.
void try_save(World& world, FileSystem& files);

/// The same as save_checkpoint() beside training: the constructor copies what this rank owns and
/// returns; a thread writes it; the save is complete once every rank's part is written and poll()
/// or finish() has put the manifest in place. `world` and `files` must outlive it.
class AsyncSave {
 public:
  /// Collective: yes. Throws as save_checkpoint(), for what shows before anything is written.
  AsyncSave(World& world, FileSystem& files, std::span<const StateTensor> tensors,
            const Json& values, const SaveOptions& options = {});
  AsyncSave(const AsyncSave&) = delete;
  AsyncSave& operator=(const AsyncSave&) = delete;
  /// Waits for the thread. A save that was not finished leaves no trace.
  ~AsyncSave();

  /// Completes the save where every rank has written its part; whether it is complete. Throws as
  /// save_checkpoint(). Collective: yes.
  bool poll();
  /// Waits, and completes it. Throws as save_checkpoint(). Collective: yes.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera
