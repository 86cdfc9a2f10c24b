// checkpoint/generation.h: one new generation of a checkpoint from its folder to its manifest, as
// steps that every rank takes.
#pragma once

#include <optional>
#include <span>

#include "checkpoint/save.h"
#include "checkpoint/shard_writer.h"

namespace tessera {

/// The parts of `tensors` that this rank owns. Errors: InvalidArgument naming the tensor.
StatusOr<std::vector<OwnedPart>> owned_parts(std::int64_t rank,
                                             std::span<const StateTensor> tensors);

/// A generation being written. Destroyed before commit() is through, it removes what this rank
/// made.
class NewGeneration {
 public:
  /// Takes the folder's lock, clears away what crashes left, and makes the generation's folder.
  /// Throws Error on all ranks alike. Collective: yes.
  NewGeneration(World& world, FileSystem& files, const SaveOptions& options);
  NewGeneration(const NewGeneration&) = delete;
  NewGeneration& operator=(const NewGeneration&) = delete;
  ~NewGeneration();

  /// Makes this rank's shard with one byte in it, and removes it.
  Status try_shard();
  /// Writes this rank's shard. Any thread, one at a time.
  StatusOr<WrittenShard> write(std::span<const OwnedPart> parts);
  /// Puts the manifest in place. Throws Error on all ranks alike. Collective: yes.
  void commit(const StatusOr<WrittenShard>& written, const Json& values);

 private:
  Status prepare();
  /// A manifest of this rank's file and parts alone.
  Manifest report_of(const WrittenShard& written) const;
  Status read_back(const WrittenShard& written);
  Status put_in_place(std::span<const std::string> reports, const Json& values);
  Status replace_manifest(const std::string& text);
  void remove_older();

  World& world_;
  FileSystem& files_;
  SaveOptions options_;
  int lock_ = -1;  ///< rank 0's
  std::int64_t generation_ = 0;
  std::int64_t previous_ = 0;      ///< the checkpoint so far, 0 for none; rank 0's
  std::string previous_manifest_;  ///< its text
  /// What the destructor finds to remove.
  enum class Leaves : std::uint8_t { kNothing, kFiles };
  Leaves leaves_ = Leaves::kNothing;
};

/// A manifest as it lies in its file.
struct ManifestText {
  std::string name;
  std::string text;
};
/// The manifest of the folder, or of a generation that it keeps; nullopt where it has none at all.
/// Errors: io_error, also for a generation that is not kept; those of parse_manifest.
StatusOr<std::optional<ManifestText>> read_manifest_text(
    FileSystem& files, std::optional<std::int64_t> generation = {});
/// Removes a generation's shards and its folder, as far as they can be removed; other files stay.
void remove_generation(FileSystem& files, std::int64_t generation);

}  // namespace tessera
