// checkpoint/stored_tensors.h: a checkpoint's tensors read by one process, in pieces of any form:
// what verifies, compares and exports them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "checkpoint/shard_reader.h"
#include "kernels/array.h"
#include "placement/api.h"

namespace tessera TSR_API {

/// Not thread-safe. `files` must outlive it.
class StoredTensors {
 public:
  /// Errors: those of read_manifest().
  static StatusOr<StoredTensors> open(FileSystem& files,
                                      std::optional<std::int64_t> generation = {});
  const Manifest& manifest() const noexcept { return manifest_; }
  const std::string& path() const noexcept { return files_->path(); }
  /// The selected elements, row-major, every chunk checked. Errors: those of ShardReader.
  Status read(const ManifestTensor& tensor, const Selection& selection, std::span<std::byte> out);

 private:
  StoredTensors(FileSystem& files, Manifest manifest)
      : files_(&files), manifest_(std::move(manifest)) {}
  StatusOr<ShardReader*> reader_of(std::int64_t file);

  FileSystem* files_;
  Manifest manifest_;
  std::map<std::int64_t, ShardReader> readers_;
};

/// f(block) for regions of whole rows of dim 0 that make up `region`, each of at most `max_bytes`
/// or one row.
Status for_each_block(const Region& region, std::int64_t element_bytes, std::int64_t max_bytes,
                      const std::function<Status(const Region&)>& f);

/// All that is wrong with a checkpoint (the last, or one that is kept), a line each: holes, files
/// missing or too many, chunks and headers that are damaged. Errors: io_error where the folder has
/// no manifest that can be read; InvalidArgument where the manifest is malformed.
StatusOr<std::vector<std::string>> verify_checkpoint(FileSystem& files,
                                                     std::optional<std::int64_t> generation = {});

struct TensorDifference {
  enum class Kind : std::uint8_t { kOnlyFirst, kOnlySecond, kDType, kShape, kValues };
  std::string name;
  Kind kind = Kind::kValues;
  std::string text;  ///< what was seen
  std::int64_t num_elements = 0;
  double max_difference = 0;  ///< of values; NaN where either is
};
std::string_view name_of(TensorDifference::Kind kind) noexcept;

/// Where two checkpoints differ, by name; values bit by bit. Errors: those of StoredTensors.
StatusOr<std::vector<TensorDifference>> diff_checkpoints(FileSystem& first, FileSystem& second);

}  // namespace tessera
