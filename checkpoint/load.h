// checkpoint/load.h: reads a checkpoint into tensors on any mesh. Each rank reads the chunks that
// its own parts lie in; nothing is changed before all ranks have checked all that they need.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/file_system.h"
#include "checkpoint/manifest.h"
#include "checkpoint/save.h"
#include "placement/api.h"
#include "runtime/world.h"

namespace tessera TSR_API {

/// Generations that can be loaded, the last one first; none where the folder holds no checkpoint.
/// Errors: io_error, those of parse_manifest().
StatusOr<std::vector<std::int64_t>> stored_generations(FileSystem& files);

/// The folder's manifest, or that of a generation that it keeps; its tensors covered exactly once,
/// and its files there, no more and no fewer. Errors: io_error where there is none or it cannot be
/// read, those of parse_manifest() and of check_manifest_coverage(); InvalidArgument naming a file
/// that is missing or too many.
StatusOr<Manifest> read_manifest(FileSystem& files, std::optional<std::int64_t> generation = {});

/// The generation's folder has the manifest's files, no more and no fewer. Errors: InvalidArgument.
Status check_manifest_files(FileSystem& files, const Manifest& manifest);

struct LoadOptions {
  /// One that SaveOptions::keep has kept; none: the last.
  std::optional<std::int64_t> generation = {};
  /// Judges the checkpoint's values on every rank alike, before anything is changed.
  std::function<Status(const Json& values)> check = nullptr;
  /// Tensors that the checkpoint may have beyond those asked for, by name.
  std::function<bool(const std::string& name)> may_ignore = nullptr;
};

struct Loaded {
  Json values;
  std::int64_t generation = 0;
  std::int64_t num_bytes_read = 0;  ///< by this rank, chunks read twice counted twice
};

/// Fills `tensors` from the folder's checkpoint. Errors, thrown on all ranks alike with the tensors
/// as they were: InvalidArgument naming the first tensor that is missing, too many, or of another
/// shape or dtype (a checkpoint of another model), a range covered by none or by two, a file or
/// chunk that is damaged, `tensors` empty on all ranks; io_error for what cannot be read. A
/// checkpoint that a save replaces meanwhile is read anew. Collective: yes, over the world. Cost:
/// memory of one chunk a file.
Loaded load_checkpoint(World& world, FileSystem& files, std::span<const StateTensor> tensors,
                       const LoadOptions& options = {});

}  // namespace tessera
